/* SPDX-License-Identifier: MIT */
/*
 * ODP statistics, as mlx5 shows them below /sys/class/infiniband_verbs/uverbsN/ (standard) and
 * /sys/kernel/debug/mlx5/ID/odp_stats/ (debug): totals over all processes.
 *
 * The counters live in the directory, one block per device (struct av_seg.odp). The two gauges are
 * per context (struct av_seg.odp_gauge): readers add up the living contexts, and the pages that
 * implicit regions use (odp_implicit.h).
 */
#ifndef AV_MEMORY_ODP_COUNTERS_H
#define AV_MEMORY_ODP_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "segment/segment.h"

enum av_odp_counter {
	AV_ODP_COUNT_CONTENTIONS,
	AV_ODP_COUNT_INVALIDATION_PAGES,
	AV_ODP_COUNT_INVALIDATIONS,
	AV_ODP_COUNT_FAULT_PAGES,
	AV_ODP_COUNT_FAULTS,
	AV_ODP_COUNT_PREFETCHES,
	AV_ODP_COUNT_PREFETCH_PAGES,
	AV_ODP_COUNT_FAILED_RESOLUTIONS,
	AV_ODP_COUNT_MRS_NOT_FOUND,
	AV_ODP_COUNT_MR_PAGES, /* gauge: not in struct av_odp_counters */
	AV_ODP_COUNT_MRS,      /* gauge: likewise */
	AV_ODP_COUNTER_N
};

struct av_odp_counters {
	_Atomic uint64_t value[AV_ODP_COUNTER_N]; /* those of gauges stay 0 */
};

struct av_odp_gauge {
	_Atomic uint64_t regions;
	_Atomic uint64_t pages;
};

struct av_odp_counter_info {
	const char *name; /* name of the file */
	const char *unit;
	const char *help;
	bool debug; /* one of the debug statistics */
	bool gauge;
};

/* By enum av_odp_counter, in the documented order. */
extern const struct av_odp_counter_info av_odp_counter_info[AV_ODP_COUNTER_N];

/*
 * Add @n to a counter (not a gauge) of the segment's device and context. Any process, any thread,
 * never blocks. Release: a reader that sees an event also sees the pages counted before it.
 */
static inline void av_odp_count(const struct av_seg *seg, enum av_odp_counter which, uint64_t n)
{
	if (!seg->odp || !n)
		return;
	atomic_fetch_add_explicit(&seg->odp->value[which], n, memory_order_release);
	atomic_fetch_add_explicit(&seg->head->counter[which], n, memory_order_release);
}

/* An ODP region of @pages pages (implicit: 0) was registered in the own context @seg, or ended. */
void av_odp_region_added(struct av_seg *seg, uint64_t pages);
void av_odp_region_removed(struct av_seg *seg, uint64_t pages);

/*
 * All statistics of @device now: every invalidation is in them whose call has returned. Opens files
 * but joins nothing. Waits for processes that are counting, AV_PATIENCE_NS at most for each. Any
 * thread, no lock held.
 */
void av_odp_report(const char *device, uint64_t value[AV_ODP_COUNTER_N]);

#endif
