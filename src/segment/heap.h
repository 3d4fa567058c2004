/* SPDX-License-Identifier: MIT */
/*
 * Which parts of a segment are in use: the owner's private book-keeping of heap blocks and of table
 * entries. Thread-safe. Other code allocates through segment/alloc.h.
 */
#ifndef AV_SEGMENT_HEAP_H
#define AV_SEGMENT_HEAP_H

#include <stdint.h>

#include "segment/layout.h"

struct av_heap;

/*
 * @fd, @head: the segment's file and its mapping (borrowed). The heap hands out offsets in [begin,
 *   end), and key indices from @first_key on. Return: NULL if memory is short.
 */
struct av_heap *av_heap_create(int fd, struct av_seg_head *head, uint64_t begin, uint64_t end,
			       uint32_t first_key);
void av_heap_destroy(struct av_heap *heap);

/*
 * Behind av_seg_alloc(), av_seg_free() (except for whole pages), av_slab_alloc() and
 * av_slab_free(). Offset and index are 0 if memory is short.
 */
uint64_t av_heap_alloc(struct av_heap *heap, uint64_t size);
void av_heap_free(struct av_heap *heap, uint64_t offset, uint64_t size);
uint32_t av_heap_take_index(struct av_heap *heap, enum av_slab slab, uint32_t limit);
void av_heap_give_index(struct av_heap *heap, enum av_slab slab, uint32_t index);

/**
 * av_heap_take_end() - take [offset, offset + *@taken) from the end of the heap for ever
 * @bytes: minimum size
 * @align: of the offset, a power of two
 *
 * Return: offset, or 0 if the heap has grown too far
 */
uint64_t av_heap_take_end(struct av_heap *heap, uint64_t bytes, uint64_t align, uint64_t *taken);

/*
 * Back [offset, offset + size) of the file with real pages, so that touching them cannot fail.
 * Return: 0 or -errno.
 */
int av_file_back(int fd, uint64_t offset, uint64_t size);

#endif
