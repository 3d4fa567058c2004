/* SPDX-License-Identifier: MIT */
/*
 * UMR keys: keys that stand for a list of pieces of other keys (user-mode memory registration). The
 * list is in the segment of the key's context, so that any process finds the bytes behind the key;
 * a work request replaces it. Reading the list is memory/klm_iter.h.
 *
 * An element names a piece by key and address, not by bytes: it is translated anew at each access,
 * so regions may be registered, changed and deregistered under a key, and lists may be filled in
 * any order.
 *
 * A list is read by who holds a pin on its key, and written by who has withdrawn the key and waited
 * for the pins, holding its lock. Who dies in between leaves a key that is good for nothing until
 * the next fill.
 */
#ifndef AV_MEMORY_KLM_LIST_H
#define AV_MEMORY_KLM_LIST_H

#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* An element: in each round, @length bytes from @addr + round * @stride of @key. */
struct av_klm_entry {
	uint64_t addr;
	uint64_t length;
	uint64_t stride;
	uint64_t start; /* bytes of the round that lie before it; av_klm_layout() */
	uint32_t key;
	uint32_t unused;
};

/* The list of a key, at @addr of its entry in the table. */
struct av_klm_list {
	uint32_t capacity; /* elements there is room for */
	uint32_t count;
	uint64_t round; /* bytes of all elements, once */
	struct av_klm_entry at[];
};

static inline uint64_t av_klm_bytes(uint32_t capacity)
{
	return sizeof(struct av_klm_list) + (uint64_t)capacity * sizeof(struct av_klm_entry);
}

/* Room for a list in an own segment. Return: offset, or 0 and errno ENOMEM */
AV_MUST_USE uint64_t av_klm_alloc(struct av_seg *seg, uint32_t capacity);
void av_klm_free(struct av_seg *seg, uint64_t list, uint32_t capacity);

/**
 * av_klm_layout() - check the arithmetic of a list, and set @start of its elements
 * @rounds: how many times the elements are gone through (> 0)
 * @base:   first address of the key
 * Return:  0, or EINVAL: an address or the sum of all lengths does not fit 64 bits
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

/**
 * av_klm_fill() - replace what an UMR key stands for
 * @seg: the key's context, own or a peer's
 *
 * Context: any process, the queue pair's @exec execution right held, no pin. Waits as long as an
 * access through what the key was takes; accesses that come meanwhile find no key. Return: 0, or
 * EINVAL: no such key in this domain, or a list that does not fit (nothing has changed)
 */
AV_MUST_USE int av_klm_fill(struct av_seg *seg, const struct av_klm_fill *fill);

#endif
