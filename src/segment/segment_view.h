/* SPDX-License-Identifier: MIT */
/*
 * Reading a segment without having joined the directory. Only the reading functions of
 * segment/segment.h work on it.
 */
#ifndef AV_SEGMENT_SEGMENT_VIEW_H
#define AV_SEGMENT_SEGMENT_VIEW_H

#include "segment/segment.h"

/*
 * The segment of that context, or NULL. End the view by av_seg_view_end(), which also takes NULL.
 */
struct av_seg *av_seg_view(uint32_t ref);
/* The same, with the folder of the directory already open. */
struct av_seg *av_seg_view_in(int folder, uint32_t ref);
void av_seg_view_end(struct av_seg *seg);

#endif
