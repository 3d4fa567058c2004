/* SPDX-License-Identifier: MIT */
/*
 * The owner's private book-keeping of heap blocks and table entries, thread-safe: behind alloc.h.
 */
#ifndef AV_SEGMENT_HEAP_H
#define AV_SEGMENT_HEAP_H

#include <stdint.h>

#include "base/file.h"
#include "segment/layout.h"

struct av_heap;

/*
 * Hands out offsets in [begin, end) of @file, queue pairs and CQs in @tables, both borrowed, and
 * key indices from @first_key on. NULL if memory is short.
 */
struct av_heap *av_heap_create(const struct av_own_fd *file, const struct av_own_fd *tables,
			       struct av_seg_head *head, uint64_t begin, uint64_t end,
			       uint32_t first_key);
void av_heap_destroy(struct av_heap *heap);

/* Behind segment/alloc.h. Offset and index are 0 if memory is short. */
uint64_t av_heap_alloc(struct av_heap *heap, uint64_t size);
void av_heap_free(struct av_heap *heap, uint64_t offset, uint64_t size);
uint32_t av_heap_take_index(struct av_heap *heap, enum av_slab slab, uint32_t limit);
void av_heap_give_index(struct av_heap *heap, enum av_slab slab, uint32_t index);

/*
 * Take *@taken >= @bytes from the end for ever. Return: offset, or 0 if the heap has grown too far.
 */
uint64_t av_heap_take_end(struct av_heap *heap, uint64_t bytes, uint64_t align, uint64_t *taken);

#endif
