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
	uint64_t at; /* offset in the segment, of the block of segment/pages.h that they are */
};

/**
 * av_adopt_suitable() - is it memory that can be adopted without the program's noticing?
 * @p: begin and bytes are given
 *
 * Private anonymous memory that may be written, has no huge pages, and is not the stack that the
 * caller runs on. That nobody else writes there is the caller's business. Context: any thread;
 * system calls
 */
AV_MUST_USE bool av_adopt_suitable(const struct av_adopt_pages *p);

/*
 * Is this process' memory written by the calling thread, and our copies, alone? There is no other
 * thread but ours, nor any sign of asynchronous input or of another adapter. System calls; takes
 * memory.
 */
AV_MUST_USE bool av_adopt_undisturbed(void);

/* Take a block for @p, whose seg, begin and bytes are given: sets @at. Return: false: none left */
AV_MUST_USE bool av_adopt_place(struct av_adopt_pages *p);

/**
 * av_adopt_move_in() - the pages become the block's
 *
 * Context: moving (memory/page_move.h); nobody else writes to the memory. Return: false: nothing
 * has changed, and the block is gone
 */
AV_MUST_USE bool av_adopt_move_in(const struct av_adopt_pages *p);

/* Are these of the pages, whole ones, still mapped where they were put? The program may have put
 * others there. */
AV_MUST_USE bool av_adopt_in_place(const struct av_adopt_pages *p, uint64_t begin, uint64_t bytes);

/**
 * av_adopt_move_out() - the pages become private memory again, wherever the program has them mapped
 * by now
 *
 * Other threads of the program, if there are any by now, may go on: no store is lost. Context:
 * moving. Return: false: some of it could not be moved for want of memory
 */
AV_MUST_USE bool av_adopt_move_out(const struct av_adopt_pages *p);

#endif
