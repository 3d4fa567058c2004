/* SPDX-License-Identifier: MIT */
#include "segment/pages.h"

#include <errno.h>

#include "segment/observers.h"
#include "segment/segment.h"

static bool is_alloc_refused(struct av_seg *seg)
{
	return av_faults_watched(seg) && av_faults_no_memory(seg);
}

uint64_t av_seg_alloc(struct av_seg *seg, uint64_t size)
{
	uint64_t at = is_alloc_refused(seg) ? 0 : av_heap_alloc(seg->heap, size);

	if (!at)
		errno = ENOMEM;
	return at;
}

void av_seg_free(struct av_seg *seg, uint64_t offset, uint64_t size)
{
	if (!offset)
		return;
	if (av_pages_owns(seg->pages, offset))
		av_pages_free(seg->pages, offset);
	else
		av_heap_free(seg->heap, offset, size);
}

uint32_t av_slab_alloc(struct av_seg *seg, enum av_slab slab, uint32_t limit)
{
	uint32_t index = av_heap_take_index(seg->heap, slab, limit);

	if (!index)
		errno = ENOMEM;
	return index;
}

void av_slab_free(struct av_seg *seg, enum av_slab slab, uint32_t index)
{
	av_heap_give_index(seg->heap, slab, index);
}

static bool is_possible(struct av_seg *seg, uint64_t bytes)
{
	return bytes > 0 && bytes <= AV_SEG_BYTES && !is_alloc_refused(seg);
}

int av_pages_alloc(struct av_seg *seg, uint64_t bytes, enum av_pages_wish wish,
		   struct av_page_block *block)
{
	*block = (struct av_page_block){.at = 0};
	return is_possible(seg, bytes) ? av_pages_take(seg->pages, bytes, wish, block) : ENOMEM;
}
