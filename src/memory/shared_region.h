/* SPDX-License-Identifier: MIT */
/*
 * Parts of the shared heap (segment/segment_map.h): those that are regions, for peers, in a
 * descriptor in the segment; and, for whoever discards memory of this process, where it is in the
 * heap's file. memory/heap_region.h changes both.
 */
#ifndef AV_MEMORY_SHARED_REGION_H
#define AV_MEMORY_SHARED_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/file.h"
#include "segment/segment.h"
#include "segment/segment_map.h"

/* --- for peers ------------------------------------------------------------------- */

/* The descriptor of a region's whole pages. */
struct av_heap_part {
	uint64_t addr;	     /* of the first byte, in the owner's process; constant */
	uint64_t bytes;	     /* constant */
	_Atomic uint64_t at; /* AV_HEAP_PART_BASE + offset in the file; 0: the pages are private to
				the owner's process. Changes only while pages move
				(memory/deferred_free.h) */
};

#define AV_HEAP_PART_ALIGN 4096u /* of both addresses */
#define AV_HEAP_PART_BASE  AV_HEAP_PART_ALIGN
#define AV_HEAP_PART_SHIFT 6 /* descriptors have this alignment, so offsets fit a key's 32 bits */

/* --- for this process ------------------------------------------------------------ */

/* Pages of the heap's file, where the program has them mapped. */
struct av_heap_piece {
	uint64_t begin, end;   /* addresses */
	struct av_own_fd file; /* borrowed */
	uint64_t at;	       /* offset there */
};

/* The heap has begun; in a child of fork() once more, with another file. One thread at a time. */
void av_heap_part_begin(const struct av_shared_heap *heap);

/* Does the range reach into the heap's window? No lock. */
bool av_heap_is_near(uint64_t addr, uint64_t len);

/*
 * The first part of [addr, end) that is of the heap's file. @maps: descriptor of /proc/self/maps.
 * Pages count that a fork() has made private.
 * Context: any thread, and the listener of odp_notify.c: no lock, no malloc().
 * Return: false if there is none
 */
AV_MUST_USE bool av_heap_next(int maps, uint64_t addr, uint64_t end, struct av_heap_piece *piece);

/* Discard the file's pages under a range: they become zeros. Context: as above. */
void av_heap_discard(uint64_t addr, uint64_t len);

/*
 * Regions on memory that the program has shared itself, by mappings of files (segment/file_view.h):
 * peers map the files, too. Regions of one run of mappings share its descriptor.
 */

/*
 * The process opens a device: peers may ask for files from now on, and for the shared heap's.
 * Context: any thread; no lock held.
 */
void av_file_region_begin(void);

/*
 * A range is being registered, and its pages are there.
 * Context: any thread of the owner; no lock or pin held; a few system calls.
 * Return: the key's field @heap, to be ended by av_file_region_end(); 0: it is not all shared
 */
uint32_t av_file_region(struct av_seg *seg, uint64_t addr, uint64_t length);

/* Is that a key's field @heap of a region on files? */
bool av_file_region_is(const struct av_seg *seg, uint32_t part);

/* A region has ended, with all copies. Peers unmap the files with the last one of a run. */
void av_file_region_end(struct av_seg *seg, uint32_t part);

/* The context is being closed, unused. */
void av_file_region_close(struct av_seg *seg);

#endif
