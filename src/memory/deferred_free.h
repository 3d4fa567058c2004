/* SPDX-License-Identifier: MIT */
/* How a region ends while peers access it, and how its pages become private. */
#ifndef AV_MEMORY_DEFERRED_FREE_H
#define AV_MEMORY_DEFERRED_FREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "memory/key.h"
#include "segment/segment.h"

/*
 * Keep everybody away from memory of this process while its pages move: between begin and end
 * nobody accesses that memory behind any key of any context, since regions may overlap. Accesses
 * under way have ended; new ones, to all memory of the process, are told to come again
 * (av_page_moving(); AV_CHECK_BUSY).
 *
 * Each access sets a pin, a full barrier, before it reads the segment's flag. The mover sets the
 * flag, then reads the pins. One of them sees the other.
 */

/* An own context is opened, so its memory may move, or closed. Any thread; a mutex. */
void av_mm_quiesce_add(struct av_seg *seg);
void av_mm_quiesce_remove(struct av_seg *seg);

/*
 * May pages of the process move at all? Something that is no thread may write to the ones that it
 * has pinned, wherever the mapping leads by then: an io_uring, AIO, AF_XDP, another adapter. And
 * locked memory would not stay locked.
 */
AV_MUST_USE bool av_mm_quiesce_allowed(void);

/* Do the context's pages move? A dead mover's do not. Context: a pin is held. */
static inline bool av_page_moving(struct av_seg *seg)
{
	return av_unlikely(atomic_load(&seg->head->moving)) && av_seg_alive(seg);
}

/*
 * One mover at a time, without a pin; waits as long as copies from and to [begin, end) take, but
 * AV_STOPPED_NS at most for those of peers. Other copies may go on: none of the process's pages
 * moves but these. No context is added or removed before the end.
 * Return: false: not begun, since a peer seems to be stopped
 */
AV_MUST_USE bool av_mm_quiesce_begin(uint64_t begin, uint64_t end);
void av_mm_quiesce_end(void);

/* The end and the change of a region, whatever its peers are doing, or have left when they died. */

/*
 * End the key and its uses, or, if a peer is stopped in one, those that lead to the program's
 * memory (memory/unmapped.h). Context: the owner; no lock held; waits for copies
 * under way. Return: as av_key_destroy(); ETIMEDOUT only if it cannot be deferred
 */
AV_MUST_USE int av_region_end(struct av_seg *seg, uint32_t key);

/* Replace its fields. Context, return: as av_key_change() */
AV_MUST_USE int av_region_change(struct av_seg *seg, uint32_t key, const struct av_key *what);

/*
 * What outlives its region because a peer has been stopped in the middle of a copy.
 *
 * Deregistration does not wait for a stopped peer. System calls of its are revoked
 * (memory/unmapped.h). Where it loads and stores in pages that it has mapped, the program gets
 * other pages in their place, or none, and the old ones are deferred. So are the key's entry, the
 * descriptor of a part of the shared heap and the list of a UMR key, since the peer may be anywhere
 * in its translation, and device memory. All are freed on the next occasion after its pin is gone.
 *
 * Owner's process only; any thread. Its mutex is the innermost: no other is taken under it.
 */

/* What has to stay with a key. */
struct av_deferred_of {
	uint64_t at;	   /* its block of pages in the segment; 0: none */
	uint32_t part;	   /* of the shared heap: @heap of struct av_key; 0: none */
	uint64_t leads_to; /* offset of what is behind it in the segment's heap; 0: nothing */
};

/*
 * @key has been withdrawn, but a peer uses it. From here on its entry is deferred, and what @of
 * says. Return: false: for want of memory
 */
AV_MUST_USE bool av_deferred_begin(struct av_seg *seg, uint32_t key,
				   const struct av_deferred_of *of);

/* It is not deferred after all. Nothing of it has been freed since it began. */
void av_deferred_cancel(struct av_seg *seg, uint32_t key);

/*
 * Free memory of the segment's heap to which keys have led: the list of a UMR key, a block of
 * device memory. At once, or when no key that led there is deferred any longer.
 */
void av_deferred_free_memory(struct av_seg *seg, uint64_t offset, uint64_t bytes);

/* Is the key deferred: do accesses through it concern nobody? */
bool av_deferred_has_key(struct av_seg *seg, uint32_t key);

/* Is a key deferred that leads to this part of the shared heap? */
bool av_deferred_has_part(struct av_seg *seg, uint32_t part);

/* Wait until nobody uses it by such a key: AV_PATIENCE_NS for each, since their users are stopped.
 */
void av_deferred_wait(struct av_seg *seg, uint32_t part);

/* Free a block of pages, or a part's descriptor, at once, or when it is deferred no longer. */
void av_deferred_free_pages(struct av_seg *seg, uint64_t at);
void av_deferred_free_part(struct av_seg *seg, uint32_t part);

/* The region has ended: from here on what was deferred of it may be freed. */
void av_deferred_settle(struct av_seg *seg, uint32_t key);

/* Free what nobody uses any more. */
void av_deferred_sweep(struct av_seg *seg);

/* The context is being closed: all of it goes with the segment. */
void av_deferred_forget(struct av_seg *seg);

#endif
