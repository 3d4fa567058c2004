/* SPDX-License-Identifier: MIT */
/*
 * Regions on the shared heap (segment/segment_map.h), which peers map: they reach such a region by
 * plain loads and stores, until its pages become private to the program again. Nothing moves when
 * it is registered. docs/SHARED_HEAP.md says what it takes that the program sees no difference.
 */
#ifndef AV_MEMORY_HEAP_REGION_H
#define AV_MEMORY_HEAP_REGION_H

#include <stdint.h>

#include "segment/segment.h"

/*
 * The process opens a device: from its first one on, large memory that it asks for is born shared
 * (ANYVERBS_SHARED_HEAP).
 * Context: any thread; no lock held.
 */
void av_heap_begin(void);

/*
 * A range is being registered. It is watched (memory/odp_track.h) from then on.
 * Context: any thread of the owner; no lock or pin held; blocks.
 * Return: the key's field @heap, to be ended by av_heap_region_end(); 0: not all of the range is of
 * the shared heap
 */
uint32_t av_heap_region(struct av_seg *seg, uint64_t addr, uint64_t length);

/*
 * A region on the heap has ended, or has left it. If a peer is stopped in the middle of a copy to
 * it (memory/deferred_free.h), its pages become private first. 0 is ignored.
 */
void av_heap_region_end(struct av_seg *seg, uint32_t heap);

/*
 * The program is about to ask for what only private memory can have (MADV_DONTFORK, protection
 * keys, ...): the heap's blocks in the range become private before, as far as they may.
 * Context: any thread, which may hold locks of an allocator, and is not cancelled in here.
 */
void av_heap_leave(uint64_t addr, uint64_t bytes);

/*
 * pkey_mprotect(2), or mprotect(2) if @key is -1: not while a block becomes private, which has the
 * rights afterwards that it had before. Context: as above; blocks while it does.
 */
int av_heap_protect(uint64_t addr, uint64_t bytes, int prot, int key);

/* The context is being closed, unused. */
void av_heap_region_close(struct av_seg *seg);

#endif
