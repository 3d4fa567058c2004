/* SPDX-License-Identifier: MIT */
#include "memory/odp_counters.h"

#include <stddef.h>

#include "memory/odp_implicit.h"
#include "memory/odp_uffd.h"
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
static void settle(const struct av_seg *seg, void *arg)
{
	av_odp_settle_to_read(seg);
	*(uint64_t *)arg += av_odp_implicit_pages(seg);
}

void av_odp_report(const char *device, uint64_t value[AV_ODP_COUNTER_N])
{
	uint64_t counters[AV_DIR_COUNTERS], gauges[AV_DIR_GAUGES], implicit = 0;

	av_seg_view_each(device, settle, &implicit);
	av_dir_read(device, counters, gauges);
	for (int i = 0; i < AV_ODP_COUNTER_N; i++)
		value[i] = counters[i];
	value[AV_ODP_COUNT_MR_PAGES] = gauges[GAUGE(pages)] + implicit;
	value[AV_ODP_COUNT_MRS] = gauges[GAUGE(regions)];
}
