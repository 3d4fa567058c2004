/* SPDX-License-Identifier: MIT */
/*
 * Regions on memory that the program has shared itself, by mappings of files (segment/file_view.h):
 * peers map the files, too. Regions of one run of mappings share its descriptor.
 */
#ifndef AV_MEMORY_FILE_REGION_H
#define AV_MEMORY_FILE_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/segment.h"

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
