/* SPDX-License-Identifier: MIT */
/*
 * Nobody touches the memory of this process while its pages move.
 *
 * What is behind every key of every context of the process is out of bounds from
 * av_page_move_begin() to av_page_move_end(): accesses under way have ended, and new ones, by
 * whatever process, are told to come again (av_page_moving(); AV_MEM_BUSY, as while a region is
 * re-registered). Regions may overlap and belong to different contexts, so that no single key would
 * do.
 *
 * Each access announces itself by a pin, a full barrier, before it looks at the segment's flag; the
 * mover sets the flag, then looks at the pins. One sees the other.
 */
#ifndef AV_MEMORY_PAGE_MOVE_H
#define AV_MEMORY_PAGE_MOVE_H

#include "segment/segment.h"

/* An own context whose memory may move, from its opening to its closing. Context: any thread; a
 * mutex. */
void av_page_move_add(struct av_seg *seg);
void av_page_move_remove(struct av_seg *seg);

/*
 * Context: one mover at a time, whose thread holds no pin; waits for as long as copies under way
 * take. In between no context is added or removed.
 */
void av_page_move_begin(void);
void av_page_move_end(void);

#endif
