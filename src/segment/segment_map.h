/* SPDX-License-Identifier: MIT */
/* The memory of a segment: how it is made, and how another process comes to map it. */
#ifndef AV_SEGMENT_SEGMENT_MAP_H
#define AV_SEGMENT_SEGMENT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/own_fd.h"
#include "registry/directory.h"
#include "segment/layout.h"

/* Make memory and tables of a new context; @folder: the context's. Return: 0 or -errno */
AV_MUST_USE int av_seg_make(uint32_t ref, int folder, struct av_own_fd *file,
			    struct av_own_fd *tables);

/*
 * The descriptor of a context's memory; @memory: what the directory says of it, @path: the
 * context's folder. Waits at most AV_PATIENCE_NS. Return: a descriptor for the caller, or -errno
 */
AV_MUST_USE int av_seg_open(const struct av_dir_memory *memory, const char *path);

/* Where the owner hands its memory out. Return: false: the path is too long */
AV_MUST_USE bool av_seg_socket(char *name, size_t size, const char *path);

/* Map memory and tables. NULL: not possible. Core dumps have no copy of it. */
struct av_seg_head *av_seg_map(int file, int tables, int prot);

/*
 * Map a segment that exists as a whole: a new one is just being made. Else NULL. @memory, @path: as
 * av_seg_open(); @dir: as av_dir_context_open()
 */
struct av_seg_head *av_seg_map_peers(uint32_t ref, const struct av_dir_memory *memory, int dir,
				     const char *path, int prot);

/*
 * The tables of a context, also of a dead one, for pread(2): what they say to be there may be a
 * hole, and touching that in a mapping takes a page. @dir: as av_dir_context_open(). Return:
 * descriptor for the caller, or -1
 */
AV_MUST_USE int av_tables_open(int dir, uint32_t ref);

#endif
