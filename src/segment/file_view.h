/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program has shared itself: mappings of files of memory (memfd, tmpfs, hugetlbfs).
 * If a region lies in a run of them, side by side in its process, a descriptor in the segment says
 * which (memory/shared_region.h). Peers map the same files in the same order, a view, and reach the
 * region by plain copies.
 *
 * A peer opens the file as the program has it, by its descriptors in /proc, by its name in
 * /dev/shm or /dev/hugepages, or, from another PID namespace, by the context's socket
 * (segment/fd_pass.h). The owner opens and closes nothing: that would end its locks of the file
 * (fcntl(2)).
 */
#ifndef AV_SEGMENT_FILE_VIEW_H
#define AV_SEGMENT_FILE_VIEW_H

#include <stdatomic.h>
#include <stdint.h>

#include "segment/segment.h"

#define AV_FILE_RUN	   1u /* in place of a part's offset on the heap */
#define AV_FILE_PIECES_MAX 4096u

/* One mapping of the program, whole. Constant. */
struct av_file_piece {
	uint64_t begin, end; /* addresses in the owner's process */
	uint64_t dev, ino;   /* of the file */
	uint64_t offset;     /* of its first byte there */
};

/* In the segment, 64-byte aligned. It begins as struct av_heap_part does. */
struct av_file_run {
	uint64_t begin, bytes;	 /* of all pieces; constant */
	_Atomic uint64_t what;	 /* AV_FILE_RUN */
	_Atomic uint64_t serial; /* no other run ever has it; 0: it has ended */
	_Atomic uint32_t viewed; /* a peer has had a view */
	uint32_t pieces;
	struct av_file_piece piece[];
};

/*
 * Address here of bytes of a peer's process in the run at that offset of its segment; the view is
 * made if there is none. NULL: not to be had. What stands in the segment may be anything.
 * Context: a pin keeps a key of a region there alive. A few system calls at first; waits
 * AV_PATIENCE_NS at most for an owner in another PID namespace.
 */
void *av_file_view_at(struct av_seg *seg, uint64_t run, uint64_t addr, uint64_t len);

#endif
