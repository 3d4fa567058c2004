/* SPDX-License-Identifier: MIT */
#include "memory/odp_access.h"

#include "memory/odp_counters.h"
#include "memory/odp_uffd.h"
#include "memory/odp_table.h"
#include "memory/odp_track.h"
#include "memory/region_count.h"

void av_odp_begin(struct av_seg *seg, uint64_t addr, uint64_t len, bool write,
		  struct av_odp_message *message, struct av_odp_access *access)
{
	av_odp_settle(seg);
	*access = (struct av_odp_access){
		.seg = seg, .addr = addr, .len = len, .write = write, .message = message};
	if (message && message->next != addr)
		message->counted = false;
	access->missing = av_odp_missing(seg, addr, len, write);
	if (av_likely(access->missing == 0))
		return;
	access->markable = av_odp_prepare(seg, addr, len, &access->stamp);
	access->steady = av_odp_track(seg, addr, len); /* last: av_odp_track() says why */
}

/* Make the pages valid, unless the mappings have changed since av_odp_begin(). */
static void resolved(const struct av_odp_access *a)
{
	uint64_t pages = a->missing;

	if (!a->steady ||
	    (a->markable && !av_odp_mark(a->seg, a->addr, a->len, a->write, a->stamp, &pages))) {
		av_odp_count(a->seg, AV_ODP_COUNT_CONTENTIONS, 1);
		return;
	}
	av_odp_count(a->seg, AV_ODP_COUNT_FAULT_PAGES, pages);
	av_odp_region_count(a->seg, a->addr, AV_MR_FAULT_PAGES, pages);
}

static void not_resolved(const struct av_odp_access *a)
{
	av_odp_count(a->seg, AV_ODP_COUNT_FAILED_RESOLUTIONS, 1);
	if (a->missing == 0)
		av_odp_clear(a->seg, a->addr, a->len);
}

void av_odp_end_fault(const struct av_odp_access *access, bool ok)
{
	if (ok)
		resolved(access);
	else
		not_resolved(access);
	if (access->message && access->message->counted)
		return;
	if (access->message)
		access->message->counted = true;
	av_odp_count(access->seg, AV_ODP_COUNT_FAULTS, 1);
	av_odp_region_count(access->seg, access->addr, AV_MR_FAULTS, 1);
}
