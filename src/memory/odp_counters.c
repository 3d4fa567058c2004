/* SPDX-License-Identifier: MIT */
/* The table of ODP statistics, and the gauges. */
#include "memory/odp_counters.h"

const struct av_odp_counter_info av_odp_counter_info[AV_ODP_COUNTER_N] = {
	[AV_ODP_COUNT_CONTENTIONS] =
		{
			.name = "invalidations_faults_contentions",
			.unit = "events",
			.help = "Page fault events dropped, or prefetches restarted, because pages "
				"were invalidated meanwhile",
		},
	[AV_ODP_COUNT_INVALIDATION_PAGES] =
		{
			.name = "num_invalidation_pages",
			.unit = "pages",
			.help = "Pages invalidated by all invalidation events",
		},
	[AV_ODP_COUNT_INVALIDATIONS] =
		{
			.name = "num_invalidations",
			.unit = "events",
			.help = "Invalidation events",
		},
	[AV_ODP_COUNT_FAULT_PAGES] =
		{
			.name = "num_page_fault_pages",
			.unit = "pages",
			.help = "Pages faulted in by page fault events",
		},
	[AV_ODP_COUNT_FAULTS] =
		{
			.name = "num_page_faults",
			.unit = "events",
			.help = "Page fault events",
		},
	[AV_ODP_COUNT_PREFETCHES] =
		{
			.name = "num_prefetchs_handled",
			.unit = "calls",
			.help = "Prefetch calls completed successfully",
		},
	[AV_ODP_COUNT_PREFETCH_PAGES] =
		{
			.name = "num_prefetch_pages",
			.unit = "pages",
			.help = "Pages prefetched by prefetch calls",
		},
	[AV_ODP_COUNT_FAILED_RESOLUTIONS] =
		{
			.name = "num_failed_resolutions",
			.unit = "events",
			.help = "Page fault events that could not be resolved: no such mapping",
			.debug = true,
		},
	[AV_ODP_COUNT_MRS_NOT_FOUND] =
		{
			.name = "num_mrs_not_found",
			.unit = "events",
			.help = "Faults that named an ODP memory region which does not exist",
			.debug = true,
		},
	[AV_ODP_COUNT_MR_PAGES] =
		{
			.name = "num_odp_mr_pages",
			.unit = "pages",
			.help = "Size of all ODP memory regions registered now",
			.debug = true,
			.gauge = true,
		},
	[AV_ODP_COUNT_MRS] =
		{
			.name = "num_odp_mrs",
			.unit = "regions",
			.help = "ODP memory regions registered now",
			.debug = true,
			.gauge = true,
		},
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
