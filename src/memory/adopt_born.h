/* SPDX-License-Identifier: MIT */
/* Regions on memory that was born shared (segment/shared_heap.h): nothing moves but the descriptor.
 */
#ifndef AV_MEMORY_ADOPT_BORN_H
#define AV_MEMORY_ADOPT_BORN_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/segment.h"

/*
 * The process opens a device: from its first one on, large memory that it asks for is born shared
 * (ANYVERBS_SHARED_HEAP).
 * Context: any thread; no lock held.
 */
void av_adopt_born_begin(void);

/* As av_adopt(), if all of the range is of the shared heap; else 0. */
uint32_t av_adopt_born(struct av_seg *seg, uint64_t addr, uint64_t length);

/* As av_adopt_end(). Return: false: it is another one's */
bool av_adopt_born_end(struct av_seg *seg, uint32_t id);

/* As av_adopt_leave(). */
void av_adopt_born_leave(uint64_t addr, uint64_t bytes);

/* The context is being closed. */
void av_adopt_born_close(struct av_seg *seg);

#endif
