/* SPDX-License-Identifier: MIT */
/*
 * What outlives its region because a peer has been stopped in the middle of a copy: pages of the
 * segment, and all that leads there.
 *
 * Deregistration does not wait for a stopped peer if the memory behind the key is pages of the
 * segment that are this region's alone: the program gets others in their place, or none. The old
 * ones linger, with the key's entry and the descriptor of the adoption, so that the peer, wherever
 * in its translation it was stopped, copies to or from them and nowhere else. They are freed on the
 * next occasion after its pin is gone.
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
 * @key has been withdrawn, but a peer uses it. From here on, its entry, its block of pages @at and
 * the descriptor @adopted (as in struct av_key) linger. Return: false: for want of memory
 */
AV_MUST_USE bool av_linger_begin(struct av_seg *seg, uint32_t key, uint64_t at, uint32_t adopted);

/* Does the key linger: do accesses through it concern nobody? */
bool av_linger_has_key(struct av_seg *seg, uint32_t key);

/* Do the pages of this block linger? @at: offset in the segment */
bool av_linger_has_pages(struct av_seg *seg, uint64_t at);

/* Wait until nobody uses the pages of this block any more, if they linger. */
void av_linger_wait(struct av_seg *seg, uint64_t at);

/* Free the block's pages, at once or when they do not linger any more. */
void av_linger_free_pages(struct av_seg *seg, uint64_t at);

/* The region has ended: from here on what lingers of it may be freed. */
void av_linger_settle(struct av_seg *seg, uint32_t key);

/* Free what nobody uses any more. */
void av_linger_sweep(struct av_seg *seg);

/* The context is being closed: all of it goes with the segment. */
void av_linger_forget(struct av_seg *seg);

#endif
