/* SPDX-License-Identifier: MIT */
/*
 * Keep everybody away from memory of this process while its pages move: between begin and end
 * nobody accesses that memory behind any key of any context, since regions may overlap. Accesses
 * under way have ended; new ones, to all memory of the process, are told to come again
 * (av_page_moving(); AV_CHECK_BUSY).
 *
 * Each access sets a pin, a full barrier, before it reads the segment's flag. The mover sets the
 * flag, then reads the pins. One of them sees the other.
 */
#ifndef AV_MEMORY_PAGE_MOVE_H
#define AV_MEMORY_PAGE_MOVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* An own context is opened, so its memory may move, or closed. Any thread; a mutex. */
void av_page_move_add(struct av_seg *seg);
void av_page_move_remove(struct av_seg *seg);

/*
 * May pages of the process move at all? Something that is no thread may write to the ones that it
 * has pinned, wherever the mapping leads by then: an io_uring, AIO, AF_XDP, another adapter. And
 * locked memory would not stay locked.
 */
AV_MUST_USE bool av_page_move_allowed(void);

/* Do the context's pages move? A dead mover's do not. Context: a pin is held. */
static inline bool av_page_moving(struct av_seg *seg)
{
	return av_unlikely(atomic_load(&seg->head->moving)) && av_seg_alive(seg);
}

/*
 * One mover at a time, without a pin; waits as long as copies from and to [begin, end) take, but
 * AV_STOPPED_NS at most for those of peers. Other copies may go on: none of the process's pages
 * moves but these. No context is added or removed before the end.
 * Return: false: not begun, since a peer seems to be stopped
 */
AV_MUST_USE bool av_page_move_begin(uint64_t begin, uint64_t end);
void av_page_move_end(void);

#endif
