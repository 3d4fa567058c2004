/* SPDX-License-Identifier: MIT */
/* Allocating in an own segment, any thread of it. A fault rule (observers.h) can make it fail. */
#ifndef AV_SEGMENT_ALLOC_H
#define AV_SEGMENT_ALLOC_H

#include <stdint.h>

#include "base/compiler.h"
#include "segment/pages.h"
#include "segment/segment.h"

/*
 * Zeroed bytes, aligned to 64 and to a larger power of two up to 4096 that divides @size. Return:
 * offset, or 0 and errno ENOMEM.
 */
uint64_t av_seg_alloc(struct av_seg *seg, uint64_t size);

/*
 * Free what av_seg_alloc(seg, size) returned. Offset 0 is ignored, and what can be no block of that
 * size.
 */
void av_seg_free(struct av_seg *seg, uint64_t offset, uint64_t size);

/*
 * Take an index of a table; @limit may be in use at a time. Freed indices are reused as late as
 * possible. The object's memory keeps its content (zero at first). Return: index, never 0, or 0 and
 * errno ENOMEM.
 */
uint32_t av_slab_alloc(struct av_seg *seg, enum av_slab slab, uint32_t limit);
void av_slab_free(struct av_seg *seg, enum av_slab slab, uint32_t index);

/*
 * Zeroed pages; freed by av_pages_free() or av_seg_free(). Any thread of the owner; blocks. Return:
 * 0 or ENOMEM (also if @wish wants only huge pages and there are none).
 */
AV_MUST_USE int av_pages_alloc(struct av_seg *seg, uint64_t bytes, enum av_pages_wish wish,
			       struct av_page_block *block);

#endif
