/* SPDX-License-Identifier: MIT */
/* Move pages between the program's memory and a segment: the mechanism of memory/adopt.h. */
#ifndef AV_MEMORY_ADOPT_PAGES_H
#define AV_MEMORY_ADOPT_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* Pages of this process that are in a segment, or will be. */
struct av_adopt_pages {
	struct av_seg *seg;
	uint64_t begin, bytes; /* page-aligned */
	uint64_t at; /* offset in the segment, of the block of segment/pages.h that they are */
};

/*
 * Can this memory (begin, bytes) be adopted unnoticed by the program? Yes for private anonymous
 * memory that is writable, has no huge pages, and is not the caller's stack. The caller makes sure
 * that nobody else writes there.
 */
AV_MUST_USE bool av_adopt_suitable(const struct av_adopt_pages *p);

/*
 * May something write to this process's memory that is no thread: io_uring, AIO, AF_XDP, another
 * adapter? It writes to the pages that it has pinned, wherever the process's mapping leads by then.
 * So pages stay where they are.
 */
AV_MUST_USE bool av_adopt_written_by_others(void);

/* The same, or is memory locked? The lock would be lost. */
AV_MUST_USE bool av_adopt_must_stay(void);
AV_MUST_USE bool av_adopt_locked(void);

/* Are all other threads ours? */
AV_MUST_USE bool av_adopt_single_threaded(void);

/*
 * Take room for @p, whose seg, begin and bytes are given: sets @at. There is no memory behind it
 * yet. Return: false: none left
 */
AV_MUST_USE bool av_adopt_place(struct av_adopt_pages *p);

/*
 * Nobody else writes to the memory; pages are moving (memory/page_move.h). Takes memory for a few
 * MiB more. Return: false: there is none; some pages may be in already, until av_adopt_move_out()
 */
AV_MUST_USE bool av_adopt_move_in(const struct av_adopt_pages *p);

/* Are these whole pages still mapped where they were adopted, and no others of the program? */
AV_MUST_USE bool av_adopt_in_place(const struct av_adopt_pages *p, uint64_t begin, uint64_t bytes);

/*
 * Make the pages private memory again, wherever the program has them mapped by now. Its other
 * threads, if any, may go on: no store is lost.
 * Context: pages are moving.
 * Return: false: some could not be moved for want of memory
 */
AV_MUST_USE bool av_adopt_move_out(const struct av_adopt_pages *p);

/*
 * For a fork() while pages stay in the segment: a copy of them for the child, made before, and what
 * the child does with it. NULL: no memory for it; then the child's pages are copied on write, and
 * may show stores that the parent made after the fork.
 */
AV_MUST_USE void *av_adopt_copy(const struct av_adopt_pages *p);
void av_adopt_leave_in_child(const struct av_adopt_pages *p, void *copy);

#endif
