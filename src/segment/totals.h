/* SPDX-License-Identifier: MIT */
/*
 * What queue pairs and CQs have counted, added up: of a context, from its segment; and of a device,
 * of its contexts and of those that have ended, whether they were closed or their process died.
 */
#ifndef AV_SEGMENT_TOTALS_H
#define AV_SEGMENT_TOTALS_H

#include "segment/segment.h"
#include "observe/counters.h"

/* Add what all objects of a context have counted that it ever had. The segment may be a view
 * (segment_view.h). */
void av_totals_add(const struct av_seg *seg, struct av_totals *sum);

/**
 * av_totals_read() - what a device has counted since it came into being
 * @link_downed: out, times its port went down
 *
 * Joins nothing; opens files. Never less than what an earlier call said, as long as the directory
 * exists. Context: any thread, no lock held. What does not exist has counted nothing.
 */
void av_totals_read(const char *device, struct av_totals *sum, uint64_t *link_downed);

/* The same of a context that ends; for av_dir_join(). Its folder is still in @folder. */
void av_totals_of_context(int folder, uint32_t ref, struct av_totals *sum);

#endif
