/* SPDX-License-Identifier: MIT */
/* The owner's private book-keeping of a segment's heap and tables. Only segment.c and heap.c use
 * it. */
#ifndef AV_SEGMENT_HEAP_H
#define AV_SEGMENT_HEAP_H

#include <stdint.h>

struct av_heap;

/* @fd: the segment's file (borrowed); the heap hands out offsets in [begin, end) and key indices
 * from @first_key. NULL if memory is short. */
struct av_heap *av_heap_create(int fd, uint64_t begin, uint64_t end, uint32_t first_key);
void av_heap_destroy(struct av_heap *heap);

/**
 * av_heap_take_end() - take [offset, offset + *@taken) from the end of the heap's range, for good
 * @bytes: at least so many; @align: of the offset, a power of two
 * Return: offset, or 0 if the heap has grown too far
 */
uint64_t av_heap_take_end(struct av_heap *heap, uint64_t bytes, uint64_t align, uint64_t *taken);

/* Back [0, size) of the file with real pages, so that touching them cannot fail. Return: 0 or
 * -errno. */
int av_file_back(int fd, uint64_t offset, uint64_t size);

#endif
