/* SPDX-License-Identifier: MIT */
/* Reading a segment without having joined the directory: only the reading functions work on it. */
#ifndef AV_SEGMENT_SEGMENT_VIEW_H
#define AV_SEGMENT_SEGMENT_VIEW_H

#include "segment/segment.h"

/*
 * The segment of that context, or NULL. av_seg_view_end() also takes NULL. Waits at most
 * AV_PATIENCE_NS. Context: the directory is not being viewed.
 */
struct av_seg *av_seg_view(uint32_t ref);
void av_seg_view_end(struct av_seg *seg);

/* Visit the segments of all contexts of a device whose processes live. Context: the same. */
void av_seg_view_each(const char *device, void (*visit)(const struct av_seg *seg, void *arg),
		      void *arg);

#endif
