/* SPDX-License-Identifier: MIT */
/* Segments, read by somebody who has not joined the directory. */
#ifndef AV_SEGMENT_SEGMENT_VIEW_H
#define AV_SEGMENT_SEGMENT_VIEW_H

#include "observe/counters.h"
#include "segment/segment.h"

/* Sums of the counters of queue pairs and CQs, of a context or a device, ended ones included. */

/* Add the counts of all objects that the context ever had. The segment may be a view. */
void av_totals_add(const struct av_seg *seg, struct av_totals *sum);

/*
 * What a device has counted since its last reset; @link_downed: how often its port went down. Needs
 * no joining; opens files. Never less than before but for a reset. A device that does not exist has
 * counted nothing. Any thread; no lock held.
 */
void av_totals_read(const char *device, struct av_totals *sum, uint64_t *link_downed);

/* The same for a context that is ending, for av_dir_join(). @folder still has its folder. */
void av_totals_of_context(int folder, uint32_t ref, struct av_totals *sum);

/* Reading a segment without having joined the directory: only the reading functions work on it. */

/* Visit the segments of all contexts of a device whose processes live. Context: the same. */
void av_seg_view_each(const char *device, void (*visit)(const struct av_seg *seg, void *arg),
		      void *arg);

#endif
