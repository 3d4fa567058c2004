/* SPDX-License-Identifier: MIT */
/*
 * What outlives its region because a peer has been stopped in the middle of a copy.
 *
 * Deregistration does not wait for a stopped peer. System calls of its are recalled
 * (memory/recall.h). Where it loads and stores in pages of the segment, the program gets other
 * pages in their place, or none, and the old ones linger. So do the key's entry and the descriptor
 * of the adoption, since the peer may be anywhere in its translation. All are freed on the next
 * occasion after its pin is gone.
 *
 * Owner's process only; any thread. Its mutex is the innermost: no other is taken under it.
 */
#ifndef AV_MEMORY_LINGER_H
#define AV_MEMORY_LINGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/*
 * @key has been withdrawn, but a peer uses it. From here on its entry lingers, and its block of
 * pages @at and the descriptor @adopted (as in struct av_key), each unless it is 0.
 * Return: false: for want of memory
 */
AV_MUST_USE bool av_linger_begin(struct av_seg *seg, uint32_t key, uint64_t at, uint32_t adopted);

/* Does the key linger: do accesses through it concern nobody? */
bool av_linger_has_key(struct av_seg *seg, uint32_t key);

/* Do the pages of this block linger? @at: offset in the segment */
bool av_linger_has_pages(struct av_seg *seg, uint64_t at);

/* Wait until nobody uses the pages of this block any more, if they linger. */
void av_linger_wait(struct av_seg *seg, uint64_t at);

/* Free the block, or a descriptor, at once or when it does not linger any more. */
void av_linger_free_pages(struct av_seg *seg, uint64_t at);
void av_linger_free_descriptor(struct av_seg *seg, uint32_t adopted);

/* The block is not used again, and has been emptied. If it lingers, it is so again afterwards. */
void av_linger_empty_pages(struct av_seg *seg, uint64_t at);

/* The region has ended: from here on what lingers of it may be freed. */
void av_linger_settle(struct av_seg *seg, uint32_t key);

/* Free what nobody uses any more. */
void av_linger_sweep(struct av_seg *seg);

/* The context is being closed: all of it goes with the segment. */
void av_linger_forget(struct av_seg *seg);

#endif
