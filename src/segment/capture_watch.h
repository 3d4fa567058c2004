/* SPDX-License-Identifier: MIT */
/*
 * Contexts look at each of their requests if a capture (registry/capture_table.h) may cover them.
 * Their segments then have the flag AV_WATCHED_CAPTURE.
 *
 * Context: the directory is joined.
 */
#ifndef AV_SEGMENT_CAPTURE_WATCH_H
#define AV_SEGMENT_CAPTURE_WATCH_H

#include "registry/capture_table.h"
#include "segment/segment.h"

/* Make all contexts check whether a capture covers them. */
void av_capture_watch(void);

/* The same for one new context. */
void av_capture_watch_context(struct av_seg *seg);

/*
 * The caller found no capture that covers the context: clear the flag, unless one has begun
 * meanwhile.
 */
void av_capture_unwatch_context(struct av_seg *seg);

/* av_capture_find() for a context. */
unsigned int av_capture_next(const struct av_seg *seg, unsigned int *at);

#endif
