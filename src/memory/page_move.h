/* SPDX-License-Identifier: MIT */
/*
 * Keep everybody away from the memory of this process while its pages move: between begin and end
 * nobody accesses memory behind any key of any context, since regions may overlap. Accesses under
 * way have ended; new ones are told to come again (av_page_moving(); AV_MEM_BUSY).
 *
 * Each access sets a pin, a full barrier, before it reads the segment's flag. The mover sets the
 * flag, then reads the pins. One of them sees the other.
 */
#ifndef AV_MEMORY_PAGE_MOVE_H
#define AV_MEMORY_PAGE_MOVE_H

#include "segment/segment.h"

/* An own context is opened, so its memory may move, or closed. Any thread; a mutex. */
void av_page_move_add(struct av_seg *seg);
void av_page_move_remove(struct av_seg *seg);

/*
 * One mover at a time, without a pin; waits as long as copies under way take. No context is added
 * or removed in between.
 */
void av_page_move_begin(void);
void av_page_move_end(void);

#endif
