/* SPDX-License-Identifier: MIT */
/* Moving pages between the program's memory and a segment: the mechanism of memory/adopt.h. */
#ifndef AV_MEMORY_ADOPT_PAGES_H
#define AV_MEMORY_ADOPT_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* Pages of this process that are, or will be, pages of a segment. */
struct av_adopt_pages {
	struct av_seg *seg;
	uint64_t begin, bytes; /* page-aligned */
	uint64_t at;	       /* offset in the segment */
	uint64_t block;	       /* of segment/pages.h, which they are in */
	bool huge;	       /* some of them were huge pages, and are to be when they move out */
	bool held;	       /* there are threads, which wait while they move in */
};

/**
 * av_adopt_suitable() - is it memory that can be adopted without the program's noticing?
 * @p: begin and bytes are given, and become less where a huge page reaches over an end; huge is set
 *
 * Private anonymous memory that may be written, not the stack that the caller runs on. That nobody
 * else writes there is the caller's business. Context: any thread; system calls
 */
AV_MUST_USE bool av_adopt_suitable(struct av_adopt_pages *p);

/*
 * Is this process' memory written by its threads' instructions and system calls, and our copies,
 * alone? There is no sign of asynchronous input or of another adapter, and one thread beside ours,
 * or they can wait: @p's held is set. System calls; takes memory.
 */
AV_MUST_USE bool av_adopt_undisturbed(struct av_adopt_pages *p);

/* Take a block for @p, whose seg, begin, bytes and huge are given; at and block are set. Return:
 * false: there is none (also: none with huge pages, which would be lost) */
AV_MUST_USE bool av_adopt_place(struct av_adopt_pages *p);

/**
 * av_adopt_move_in() - the pages become the block's
 *
 * Context: moving (memory/page_move.h); nobody writes to the memory, or @p is held. Return: false:
 * nothing has changed, and the block is gone
 */
AV_MUST_USE bool av_adopt_move_in(const struct av_adopt_pages *p);

/* Are these of the pages, whole ones, still mapped where they were put? The program may have put
 * others there. */
AV_MUST_USE bool av_adopt_in_place(const struct av_adopt_pages *p, uint64_t begin, uint64_t bytes);

/**
 * av_adopt_move_out() - the pages become private memory again, wherever the program has them mapped
 * by now
 *
 * Other threads of the program may go on: no store is lost.
 * Context: moving. Return: false: some of it could not be moved for want of memory
 */
AV_MUST_USE bool av_adopt_move_out(const struct av_adopt_pages *p);

#endif
