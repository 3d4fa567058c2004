/* SPDX-License-Identifier: MIT */
/* Which contexts look at each of their requests because a capture (registry/capture_table.h) may
 * concern them: AV_WATCHED_CAPTURE in their segments. The directory is joined. */
#ifndef AV_SEGMENT_CAPTURE_WATCH_H
#define AV_SEGMENT_CAPTURE_WATCH_H

#include "registry/capture_table.h"
#include "segment/segment.h"

/* Have all contexts there are look whether they are concerned. */
void av_capture_watch(void);

/* The same for one context, which is new. */
void av_capture_watch_context(struct av_seg *seg);

/* Nothing concerns the context any more, as far as the caller knows: its requests need not be
 * looked at. */
void av_capture_unwatch_context(struct av_seg *seg);

/* av_capture_find() for a context. */
unsigned int av_capture_next(const struct av_seg *seg, unsigned int *at);

#endif
