/* SPDX-License-Identifier: MIT */
/* Decides which contexts look at their requests for captures. */
#include "segment/capture_watch.h"

unsigned int av_capture_next(const struct av_seg *seg, unsigned int *at)
{
	return av_capture_find(seg->head->proc, seg->head->device, at);
}

/*
 * The flag is set before looking for captures, and cleared again if there is none. Whoever begins a
 * capture calls this afterwards, so the flag is never missing.
 */
void av_capture_watch_context(struct av_seg *seg)
{
	atomic_fetch_or(&seg->head->watched, AV_WATCHED_CAPTURE);
	av_capture_unwatch_context(seg);
}

void av_capture_unwatch_context(struct av_seg *seg)
{
	unsigned int at = 0;

	atomic_fetch_and(&seg->head->watched, ~(uint32_t)AV_WATCHED_CAPTURE);
	if (av_capture_next(seg, &at)) /* begun just now */
		atomic_fetch_or(&seg->head->watched, AV_WATCHED_CAPTURE);
}

void av_capture_watch(void)
{
	uint32_t slot = 0, ref;

	while ((ref = av_dir_context_at(&slot))) {
		struct av_seg *seg = av_seg_get(ref);

		if (seg)
			av_capture_watch_context(seg);
		av_seg_put(seg);
	}
}
