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
#ifndef AV_MEMORY_KLM_H
#define AV_MEMORY_KLM_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "memory/translate.h"
#include "memory/xfer.h"
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

/*
 * The runs of bytes behind a UMR key, a few at a time.
 *
 * The span's pin keeps the UMR key itself alive. The keys on the way down to the bytes are pinned
 * by a struct av_run, while its pieces are in use. An unlimited list takes no more than AV_KLM_PINS
 * pins at a time. So a region may be deregistered, or a key filled anew, during a long transfer;
 * the transfer then fails at that piece.
 *
 * A peer may have written the lists. So offsets and counts are checked, and the way down has at
 * most AV_KLM_DEPTH steps.
 */

#define AV_RUN_PIECES 64u /* all of a copy is on the stack of whoever executes */

/* Keys that are pinned together. */
struct av_klm_pins {
	uint32_t count;
	struct {
		struct av_seg *seg;
		uint32_t key;
		struct av_pin *pin;
	} at[AV_KLM_PINS];
};

/* The next pieces of a span. None is behind a UMR key, and their pins are borrowed. */
struct av_run {
	uint32_t count;
	uint64_t bytes;
	struct av_klm_pins pins;
	struct av_span at[AV_RUN_PIECES];
};

/**
 * av_klm_iter_check() - can all bytes of a UMR span be reached now?
 *
 * Checks keys and ranges; touches none of the program's memory.
 * Return:  as av_mem_get()
 */
AV_MUST_USE enum av_check av_klm_iter_check(const struct av_span *span);

/**
 * av_klm_iter_expand() - the first pieces of [offset, offset + bytes) of a span of any kind
 * @run: out; on AV_CHECK_NONE at least one piece, to be given to av_klm_iter_drop(); else nothing
 * is held
 *
 * Context: does not wait.
 * Return:  as av_mem_get(). AV_CHECK_BUSY: a key is being changed, or all pins are taken. A caller
 * that waits for it to pass holds no other run, and waits a bounded time: there could be a circle.
 * Then it puts everything and starts again
 */
AV_MUST_USE enum av_check av_klm_iter_expand(const struct av_span *span, uint64_t offset,
					     uint64_t bytes, struct av_run *run);
void av_klm_iter_drop(struct av_run *run);

/*
 * Copying between spans of which at least one is behind a UMR key, piece by piece. Small pieces of
 * another process are copied many at a time, since a system call for each would cost more than its
 * bytes.
 */

/**
 * av_klm_copy() - copy @bytes from @s at @soff to @d at @doff
 *
 * The order is that of av_xfer_copy().
 * Context: any thread, no lock held that others wait for; yields the core a bounded number of
 * times.
 * Return:  as av_xfer_copy(); AV_FAULT_BUSY: a key on the way is being changed
 */
AV_MUST_USE enum av_fault av_klm_copy(const struct av_span *d, uint64_t doff,
				      const struct av_span *s, uint64_t soff, uint64_t bytes);

/* av_xfer_atomic() behind a UMR key. The operand must be one aligned word in memory. */
AV_MUST_USE enum av_fault av_klm_atomic(const struct av_span *span, const struct av_atomic *atomic,
					struct av_operand *old, uint64_t now_ns);

#endif
