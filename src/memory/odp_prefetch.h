/* SPDX-License-Identifier: MIT */
/* ibv_advise_mr(3): makes pages valid for the device before they are accessed, now or later. */
#ifndef AV_MEMORY_ODP_PREFETCH_H
#define AV_MEMORY_ODP_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "segment/segment.h"

struct av_odp_range {
	uint64_t addr;	 /* in this process */
	uint64_t length; /* bytes; 0: nothing to do; AV_ODP_NOWHERE: fails like unmapped memory */
};
#define AV_ODP_NOWHERE UINT64_MAX

/*
 * Carry out one advice for @count ranges (copied) of an own context. @advice: PREFETCH populates
 * pages and makes them valid for reading, PREFETCH_WRITE also for writing; PREFETCH_NO_FAULT makes
 * present pages valid for reading, and populates none. @flush: finish before returning; otherwise a
 * thread does it, nobody sees its failures, and they keep no other range from being prefetched.
 * Does nothing without a page table of the device's own (av_odp_has_table()).
 *
 * The caller has checked keys, protection domain, access, bounds and @advice.
 * Context: any thread; no lock held. With @flush, or if the queue is full, waits for pages.
 * Return: 0; EFAULT (with @flush: part of a range is unmapped or lacks these rights; earlier ranges
 * stay prefetched, later ones are not looked at); ENOMEM (for the pages, or the queued job)
 * Source: ibv_advise_mr(3). num_prefetchs_handled counts calls whose ranges all succeeded.
 */
AV_MUST_USE int av_odp_advise(struct av_seg *seg, const struct av_odp_range *range, uint32_t count,
			      enum ib_uverbs_advise_mr_advice advice, bool flush);

/*
 * Wait until all advice has been followed that an own context has queued up to now: before an ODP
 * region ends or moves (its advice would make pages valid that no region covers), and before
 * av_odp_unwatch(). Others may go on giving advice.
 * Context: waits for pages; no lock held. In a forked child, inherited contexts have none.
 */
void av_odp_quiesce(struct av_seg *seg);

#endif
