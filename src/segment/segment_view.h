/* SPDX-License-Identifier: MIT */
/* A segment as somebody sees it who has not joined the directory: to be read, with what
 * segment/segment.h has for reading. */
#ifndef AV_SEGMENT_SEGMENT_VIEW_H
#define AV_SEGMENT_SEGMENT_VIEW_H

#include "segment/segment.h"

/* The segment of that context, or NULL. Ended by av_seg_view_end(), which takes NULL, too. */
struct av_seg *av_seg_view(uint32_t ref);
/* The same, with the folder of the directory at hand. */
struct av_seg *av_seg_view_in(int folder, uint32_t ref);
void av_seg_view_end(struct av_seg *seg);

#endif
