/* SPDX-License-Identifier: MIT */
/*
 * UMR keys (user-mode memory registration): a UMR key stands for a list of pieces of other keys, in
 * the segment of its context, so that any process finds the bytes. A work request replaces the
 * list. An element names its piece by key and address, and is translated anew at each access:
 * regions may come and go under a UMR key, and lists may be filled in any order.
 *
 * A reader holds a pin on the key. A writer holds the key's lock, has withdrawn the key, and has
 * waited for its pins. A writer that dies leaves a key that reaches nothing until the next fill.
 */
#ifndef AV_MEMORY_KLM_LIST_H
#define AV_MEMORY_KLM_LIST_H

#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* An element: in each round, @length bytes of @key, from @addr + round * @stride on. */
struct av_klm_entry {
	uint64_t addr;
	uint64_t length;
	uint64_t stride;
	uint64_t start; /* bytes of the round before this element; set by av_klm_layout() */
	uint32_t key;
	uint32_t unused;
};

/* The list of a key, at @addr of the key's table entry. */
struct av_klm_list {
	uint32_t capacity; /* elements there is room for */
	uint32_t count;
	uint64_t round; /* bytes of all elements together */
	struct av_klm_entry at[];
};

static inline uint64_t av_klm_bytes(uint32_t capacity)
{
	return sizeof(struct av_klm_list) + (uint64_t)capacity * sizeof(struct av_klm_entry);
}

/* Allocate a list in an own segment. Return: offset, or 0 and errno ENOMEM. */
AV_MUST_USE uint64_t av_klm_alloc(struct av_seg *seg, uint32_t capacity);
void av_klm_free(struct av_seg *seg, uint64_t list, uint32_t capacity);

/*
 * Check the arithmetic of a list that repeats @rounds > 0 times from address @base on, and set
 * @start of its elements. Return: 0, or EINVAL: an address or the sum of all lengths does not fit
 * 64 bits.
 */
AV_MUST_USE int av_klm_layout(struct av_klm_entry *entries, uint32_t count, uint64_t rounds,
			      uint64_t base);

struct av_klm_fill {
	uint32_t key;
	uint32_t pd;	 /* of the queue pair */
	uint32_t access; /* enum ibv_access_flags, of the key from now on */
	uint64_t base;
	uint64_t rounds;
	const struct av_klm_entry *entries; /* laid out; copied */
	uint32_t count;			    /* 0: the key stands for nothing, and permits nothing */
};

/*
 * Replace the list of a UMR key in @seg, own or a peer's. Accesses that come meanwhile find no key.
 * Context: any process; the queue pair's right @exec is held, no pin. Waits as long as an access
 * through the old list takes, AV_PATIENCE_NS at most.
 * Return: 0, or EINVAL: no such key in this domain, a list that does not fit, or an access that
 * does not end; then nothing has changed
 */
AV_MUST_USE int av_klm_fill(struct av_seg *seg, const struct av_klm_fill *fill);

#endif
