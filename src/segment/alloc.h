/* SPDX-License-Identifier: MIT */
/*
 * Allocating in an own segment: bytes of the heap, entries of the object tables, whole pages. A
 * fault rule (segment/fault_rules.h) can make each of them fail.
 *
 * Thread-safe within the owner's process.
 */
#ifndef AV_SEGMENT_ALLOC_H
#define AV_SEGMENT_ALLOC_H

#include <stdint.h>

#include "base/compiler.h"
#include "segment/pages.h"
#include "segment/segment.h"

/**
 * av_seg_alloc() - take @size zeroed bytes from the heap of an own segment
 *
 * Aligned to 64 bytes, and to any larger power of two up to 4096 that divides @size.
 * Return: offset, or 0 and errno ENOMEM
 */
uint64_t av_seg_alloc(struct av_seg *seg, uint64_t size);

/* Free what av_seg_alloc(seg, size) returned. Offset 0 is ignored. */
void av_seg_free(struct av_seg *seg, uint64_t offset, uint64_t size);

/**
 * av_slab_alloc() - take an index of a table
 * @limit: number of indices that may be in use at a time
 *
 * Freed indices are reused as late as possible. The object's memory keeps its content (zero at
 * first). Index 0 is never handed out.
 * Return: index, or 0 and errno ENOMEM
 */
uint32_t av_slab_alloc(struct av_seg *seg, enum av_slab slab, uint32_t limit);
void av_slab_free(struct av_seg *seg, enum av_slab slab, uint32_t index);

/**
 * av_pages_alloc() - take zeroed pages
 *
 * Freed by av_pages_free() or av_seg_free().
 * Context: any thread of the owner; blocks on a mutex and in the kernel
 * Return: 0 or ENOMEM (also if @wish wants only huge pages and there are none)
 */
AV_MUST_USE int av_pages_alloc(struct av_seg *seg, uint64_t bytes, enum av_pages_wish wish,
			       struct av_page_block *block);

/*
 * The same for memory that will be mapped at @addr. Uses huge pages, as many as there are, wherever
 * a mapping at @addr can have them.
 */
AV_MUST_USE int av_pages_alloc_for(struct av_seg *seg, uint64_t bytes, uint64_t addr,
				   struct av_page_block *block);

#endif
