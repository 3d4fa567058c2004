/* SPDX-License-Identifier: MIT */
/*
 * Memory of an own segment: bytes of the heap, entries of the tables of objects, whole pages. Each
 * may be refused by a rule of faults (segment/fault_rules.h). Thread-safe within the owner's
 * process.
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

/* Give back what av_seg_alloc(seg, size) returned; offset 0 is ignored. */
void av_seg_free(struct av_seg *seg, uint64_t offset, uint64_t size);

/**
 * av_slab_alloc() - take an index of a table
 *
 * Freed indices are used again as late as possible. The object's memory keeps what it held (zero at
 * first). Index 0 is never given out.
 * @limit: highest number of indices in use at a time
 * Return: index, or 0 and errno ENOMEM
 */
uint32_t av_slab_alloc(struct av_seg *seg, enum av_slab slab, uint32_t limit);
void av_slab_free(struct av_seg *seg, enum av_slab slab, uint32_t index);

/**
 * av_pages_alloc() - zeroed pages
 *
 * Given back by av_pages_free(), or by av_seg_free(). Context: any thread of the owner; blocks on
 * a mutex and in the kernel. Return: 0 or ENOMEM (also: no huge pages, and only those will do)
 */
AV_MUST_USE int av_pages_alloc(struct av_seg *seg, uint64_t bytes, enum av_pages_wish wish,
			       struct av_page_block *block);

/* The same for memory that is to be mapped at @addr, with huge pages as far as there are any, where
 * a mapping there can have them. */
AV_MUST_USE int av_pages_alloc_for(struct av_seg *seg, uint64_t bytes, uint64_t addr,
				   struct av_page_block *block);

#endif
