/* SPDX-License-Identifier: MIT */
/*
 * What outlives its region because a peer has been stopped in the middle of a copy.
 *
 * Deregistration does not wait for a stopped peer. System calls of its are recalled
 * (memory/recall.h). Where it loads and stores in pages that it has mapped, the program gets other
 * pages in their place, or none, and the old ones linger. So do the key's entry, the descriptor of
 * a part of the shared heap and the list of a UMR key, since the peer may be anywhere in its
 * translation, and device memory. All are freed on the next occasion after its pin is gone.
 *
 * Owner's process only; any thread. Its mutex is the innermost: no other is taken under it.
 */
#ifndef AV_MEMORY_LINGER_H
#define AV_MEMORY_LINGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* What has to stay with a key. */
struct av_lingering_of {
	uint64_t at;	   /* its block of pages in the segment; 0: none */
	uint32_t part;	   /* of the shared heap: @heap of struct av_key; 0: none */
	uint64_t leads_to; /* offset of what is behind it in the segment's heap; 0: nothing */
};

/*
 * @key has been withdrawn, but a peer uses it. From here on its entry lingers, and what @of says.
 * Return: false: for want of memory
 */
AV_MUST_USE bool av_linger_begin(struct av_seg *seg, uint32_t key,
				 const struct av_lingering_of *of);

/* It does not linger after all. Nothing of it has been freed since it began. */
void av_linger_cancel(struct av_seg *seg, uint32_t key);

/*
 * Free memory of the segment's heap to which keys have led: the list of a UMR key, a block of
 * device memory. At once, or when no key that led there lingers any more.
 */
void av_linger_free_memory(struct av_seg *seg, uint64_t offset, uint64_t bytes);

/* Does the key linger: do accesses through it concern nobody? */
bool av_linger_has_key(struct av_seg *seg, uint32_t key);

/* Does a key linger that leads to this part of the shared heap? */
bool av_linger_has_part(struct av_seg *seg, uint32_t part);

/* Wait until nobody uses it by such a key: AV_PATIENCE_NS for each, since their users are stopped.
 */
void av_linger_wait(struct av_seg *seg, uint32_t part);

/* Free a block of pages, or a part's descriptor, at once or when it does not linger any more. */
void av_linger_free_pages(struct av_seg *seg, uint64_t at);
void av_linger_free_part(struct av_seg *seg, uint32_t part);

/* The region has ended: from here on what lingers of it may be freed. */
void av_linger_settle(struct av_seg *seg, uint32_t key);

/* Free what nobody uses any more. */
void av_linger_sweep(struct av_seg *seg);

/* The context is being closed: all of it goes with the segment. */
void av_linger_forget(struct av_seg *seg);

#endif
