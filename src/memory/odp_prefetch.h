/* SPDX-License-Identifier: MIT */
/* ibv_advise_mr(3): making pages valid for the device ahead of an access, now or later. */
#ifndef AV_MEMORY_ODP_PREFETCH_H
#define AV_MEMORY_ODP_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "segment/segment.h"

struct av_odp_range {
	uint64_t addr;	 /* in this process */
	uint64_t length; /* bytes; 0: nothing to do, AV_ODP_NOWHERE: fails like memory that is not
			    there */
};
#define AV_ODP_NOWHERE UINT64_MAX

/**
 * av_odp_advise() - follow one advice for @count ranges of an own context
 * @advice: PREFETCH brings pages in and makes them valid for reading (so for reading only where
 * writing is not possible); PREFETCH_WRITE likewise for reading and writing; PREFETCH_NO_FAULT
 * makes those valid for reading that are present in this process, and brings none in
 * @flush:  do it before returning; otherwise a thread does, and its failures are seen by nobody
 *
 * Without a page table of the device's own (av_odp_has_table()) there is nothing to do, and nothing
 * is done.
 *
 * The caller has checked keys, protection domain, access and bounds, and that @advice is one of
 * these. The ranges are copied. Context: any thread; with @flush, or if very much is queued, waits
 * for pages; no lock held. Return:  0; EFAULT (flush: part of a range is not mapped, or not with
 * these rights; the ranges before it stay prefetched, those after it are not looked at); ENOMEM (no
 * memory for the pages, or for the queued job) Source:  ibv_advise_mr(3); counters:
 * num_prefetchs_handled counts calls all of whose ranges succeeded, num_prefetch_pages pages that
 * became valid by it.
 */
AV_MUST_USE int av_odp_advise(struct av_seg *seg, const struct av_odp_range *range, uint32_t count,
			      enum ib_uverbs_advise_mr_advice advice, bool flush);

/**
 * av_odp_quiesce() - wait until no queued advice of that own context is left or under way
 *
 * Before a region is gone (its advice would make pages valid that no region covers), and before
 * av_odp_unwatch(). Context: waits for pages; no lock held. In a forked child: returns at once for
 * inherited contexts.
 */
void av_odp_quiesce(struct av_seg *seg);

#endif
