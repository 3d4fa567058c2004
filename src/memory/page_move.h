/* SPDX-License-Identifier: MIT */
/*
 * Keep everybody away from memory of this process while its pages move: between begin and end
 * nobody accesses that memory behind any key of any context, since regions may overlap. Accesses
 * under way have ended; new ones, to all memory of the process, are told to come again
 * (av_page_moving(); AV_MEM_BUSY).
 *
 * Each access sets a pin, a full barrier, before it reads the segment's flag. The mover sets the
 * flag, then reads the pins. One of them sees the other.
 */
#ifndef AV_MEMORY_PAGE_MOVE_H
#define AV_MEMORY_PAGE_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* An own context is opened, so its memory may move, or closed. Any thread; a mutex. */
void av_page_move_add(struct av_seg *seg);
void av_page_move_remove(struct av_seg *seg);

/*
 * One mover at a time, without a pin; waits as long as copies from and to [begin, end) take, but
 * AV_STOPPED_NS at most for those of peers. Other copies may go on: none of the process's pages
 * moves but these. No context is added or removed before the end.
 * Return: false: not begun, since a peer seems to be stopped
 */
AV_MUST_USE bool av_page_move_begin(uint64_t begin, uint64_t end);
/* In between: pages at other addresses are to move, too. Return: false: they may not */
AV_MUST_USE bool av_page_move_widen(uint64_t begin, uint64_t end);
void av_page_move_end(void);

#endif
