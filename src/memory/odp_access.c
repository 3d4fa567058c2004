/* SPDX-License-Identifier: MIT */
#include "memory/odp_access.h"

#include <stddef.h>

#include "memory/odp_table.h"
#include "memory/odp_track.h"
#include "memory/odp_uffd.h"
#include "memory/region_count.h"
#include "registry/directory.h"
#include "segment/segment_view.h"

const struct av_odp_counter_info av_odp_counter_info[AV_ODP_COUNTER_N] = {
	[AV_ODP_COUNT_CONTENTIONS] = {"invalidations_faults_contentions", "events",
				      "Page fault events dropped, or prefetches restarted, because "
				      "pages were invalidated meanwhile",
				      false, false},
	[AV_ODP_COUNT_INVALIDATION_PAGES] = {"num_invalidation_pages", "pages",
					     "Pages invalidated by all invalidation events", false,
					     false},
	[AV_ODP_COUNT_INVALIDATIONS] = {"num_invalidations", "events", "Invalidation events", false,
					false},
	[AV_ODP_COUNT_FAULT_PAGES] = {"num_page_fault_pages", "pages",
				      "Pages faulted in by page fault events", false, false},
	[AV_ODP_COUNT_FAULTS] = {"num_page_faults", "events", "Page fault events", false, false},
	[AV_ODP_COUNT_PREFETCHES] = {"num_prefetchs_handled", "calls",
				     "Prefetch calls completed successfully", false, false},
	[AV_ODP_COUNT_PREFETCH_PAGES] = {"num_prefetch_pages", "pages",
					 "Pages prefetched by prefetch calls", false, false},
	[AV_ODP_COUNT_FAILED_RESOLUTIONS] =
		{"num_failed_resolutions", "events",
		 "Page fault events that could not be resolved: no such mapping", true, false},
	[AV_ODP_COUNT_MRS_NOT_FOUND] =
		{"num_mrs_not_found", "events",
		 "Faults that named an ODP memory region which does not exist", true, false},
	[AV_ODP_COUNT_MR_PAGES] = {"num_odp_mr_pages", "pages",
				   "Size of all ODP memory regions registered now; pages in use of "
				   "implicit ones",
				   true, true},
	[AV_ODP_COUNT_MRS] = {"num_odp_mrs", "regions", "ODP memory regions registered now", true,
			      true},
};

void av_odp_region_added(struct av_seg *seg, uint64_t pages)
{
	if (!seg->odp_gauge)
		return;
	atomic_fetch_add_explicit(&seg->odp_gauge->regions, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&seg->odp_gauge->pages, pages, memory_order_relaxed);
}

void av_odp_region_removed(struct av_seg *seg, uint64_t pages)
{
	if (!seg->odp_gauge)
		return;
	atomic_fetch_sub_explicit(&seg->odp_gauge->regions, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&seg->odp_gauge->pages, pages, memory_order_relaxed);
}

#define GAUGE(member) (offsetof(struct av_odp_gauge, member) / sizeof(uint64_t))

_Static_assert(AV_ODP_COUNTER_N <= AV_DIR_COUNTERS, "the directory has room for all counters");
_Static_assert(sizeof(struct av_odp_gauge) == AV_DIR_GAUGES * sizeof(uint64_t),
	       "and for the gauges");

/* Its process may be counting an invalidation whose call has returned already. */
static void settle_odp_counters(const struct av_seg *seg, void *arg)
{
	av_odp_settle_to_read(seg);
	*(uint64_t *)arg += av_odp_implicit_pages(seg);
}

void av_odp_report(const char *device, uint64_t value[AV_ODP_COUNTER_N])
{
	uint64_t counters[AV_DIR_COUNTERS], gauges[AV_DIR_GAUGES], implicit = 0;

	av_seg_view_each(device, settle_odp_counters, &implicit);
	av_dir_read(device, counters, gauges);
	for (int i = 0; i < AV_ODP_COUNTER_N; i++)
		value[i] = counters[i];
	value[AV_ODP_COUNT_MR_PAGES] = gauges[GAUGE(pages)] + implicit;
	value[AV_ODP_COUNT_MRS] = gauges[GAUGE(regions)];
}

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
