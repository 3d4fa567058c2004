/* SPDX-License-Identifier: MIT */
/*
 * Regions of one context on pages of another: shared regions that were registered in a second
 * process. Peers get the memory of the first, the owner of the pages, from the second, which has it
 * also when the first process is gone.
 */
#ifndef AV_SEGMENT_PAGES_OWNER_H
#define AV_SEGMENT_PAGES_OWNER_H

#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* One more region is on pages of @pages_owner, which gets a use. Return: 0 or ENOMEM; blocks. */
AV_MUST_USE int av_pages_owner_hold(struct av_seg *seg, struct av_seg *pages_owner);

/* Count one region less. None of its keys may be in use any more. */
void av_pages_owner_drop(struct av_seg *seg, uint32_t ref);

/*
 * Where the owner of a segment's pages (AV_SEG_BYTES) is mapped, now if need be, or NULL. Any
 * thread; a pin keeps the region's key alive.
 */
uint8_t *av_pages_owner_base(struct av_seg *seg, uint32_t ref);

/* The segment is no longer in use: give up what is left of its entries. */
void av_pages_owner_forget(struct av_seg *seg);

/* In a forked child: others get the memory from the parent. */
void av_pages_owner_forked(struct av_seg *seg);

#endif
