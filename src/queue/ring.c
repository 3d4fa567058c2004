/* SPDX-License-Identifier: MIT */
#include "queue/ring.h"

#include <errno.h>

uint64_t av_ring_alloc(struct av_seg *seg, uint64_t bytes, const struct av_page_policy *policy)
{
	struct av_page_plan plan = {.pages = false};
	struct av_page_block block;
	int saved = errno;

	/* Of regions, ALL takes what is most efficient: av_page_plan(). */
	if (policy && policy->type == AV_ALLOC_ALL) {
		if (av_pages_alloc(seg, bytes, AV_PAGES_HUGE, &block) == 0)
			return block.at;
		errno = saved;
	}
	if (policy)
		plan = av_page_plan(policy);
	if (plan.never && plan.or_fail)
		goto none;
	if (!plan.pages || plan.never || (plan.wish != AV_PAGES_HUGE && bytes < AV_HUGE_PAGE_BYTES))
		return av_seg_alloc(seg, bytes);
	if (av_pages_alloc(seg, bytes, plan.wish, &block) == 0)
		return block.at;
	if (!plan.or_fail)
		return av_seg_alloc(seg, bytes);
none:
	errno = ENOMEM;
	return 0;
}
