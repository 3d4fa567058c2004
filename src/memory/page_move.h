/* SPDX-License-Identifier: MIT */
/*
 * Keep everybody away from the memory of this process while its pages move.
 *
 * Between av_page_move_begin() and av_page_move_end() nobody accesses memory behind any key of any
 * context of the process. Accesses under way have ended. New ones, by any process, are told to come
 * again (av_page_moving(); AV_MEM_BUSY, as while a region is re-registered). All keys are affected,
 * because regions may overlap and belong to different contexts.
 *
 * Each access sets a pin, a full barrier, before it reads the segment's flag. The mover sets the
 * flag, then reads the pins. One of them sees the other.
 */
#ifndef AV_MEMORY_PAGE_MOVE_H
#define AV_MEMORY_PAGE_MOVE_H

#include "segment/segment.h"

/*
 * Add an own context when it is opened, since its memory may move; remove it when it is closed.
 * Context: any thread; a mutex.
 */
void av_page_move_add(struct av_seg *seg);
void av_page_move_remove(struct av_seg *seg);

/*
 * Context: one mover at a time; its thread holds no pin; waits as long as copies under way take. No
 * context is added or removed in between.
 */
void av_page_move_begin(void);
void av_page_move_end(void);

#endif
