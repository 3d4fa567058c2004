/* SPDX-License-Identifier: MIT */
/*
 * Sums of the counters of queue pairs and CQs. Those of a context come from its segment; those of a
 * device from its contexts and from its ended ones, even if their process died.
 */
#ifndef AV_SEGMENT_TOTALS_H
#define AV_SEGMENT_TOTALS_H

#include "segment/segment.h"
#include "observe/counters.h"

/*
 * Add the counts of all objects that the context ever had. The segment may be a view
 * (segment_view.h).
 */
void av_totals_add(const struct av_seg *seg, struct av_totals *sum);

/**
 * av_totals_read() - what a device has counted since it came into being
 * @link_downed: out, how often its port went down
 *
 * The directory need not be joined; opens files. Never returns less than an earlier call, as long
 * as the directory exists. A device that does not exist has counted nothing.
 * Context: any thread; no lock held
 */
void av_totals_read(const char *device, struct av_totals *sum, uint64_t *link_downed);

/* The same for a context that is ending, for av_dir_join(). @folder still has its folder. */
void av_totals_of_context(int folder, uint32_t ref, struct av_totals *sum);

#endif
