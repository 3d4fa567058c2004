/* SPDX-License-Identifier: MIT */
/* Clearing pages from the device page table. The listener calls it: no heap, no lock. */
#include "memory/odp_invalidate.h"

#include "memory/odp_counters.h"
#include "memory/odp_region.h"
#include "memory/odp_table.h"
#include "memory/region_count.h"

/* Clear the overlap of a region and the range. Return: pages that were valid. */
static uint64_t invalidate_region(struct av_seg *seg, const struct av_odp_region *r, uint64_t addr,
				  uint64_t len)
{
	uint64_t last = addr + (len - 1), end = r->addr + (r->length - 1), first, pages;

	if (r->length == 0 || r->addr > last || end < addr)
		return 0;
	first = r->addr > addr ? r->addr : addr;
	pages = av_odp_clear(seg, first, (end < last ? end : last) - first + 1);
	if (pages) {
		av_region_count(seg, r->key, AV_MR_INVALIDATION_PAGES, pages);
		av_region_count(seg, r->key, AV_MR_INVALIDATIONS, 1);
	}
	return pages;
}

/*
 * Region by region, so that exactly one of overlapping regions counts each page. Implicit regions
 * come last.
 */
static uint64_t invalidate_regions(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	struct av_odp_region r, whole = {0};
	uint64_t pages = 0;
	uint32_t at = 0;

	for (int i = 0; i < AV_ODP_REGION_LOOKS && av_odp_region_next(seg, &at, &r); i++) {
		if (r.whole)
			whole = r;
		else
			pages += invalidate_region(seg, &r, addr, len);
	}
	return pages + invalidate_region(seg, &whole, addr, len);
}

void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	uint64_t pages;

	if (len == 0)
		return;
	pages = invalidate_regions(seg, addr, len) + av_odp_clear(seg, addr, len);
	if (!pages)
		return;
	av_odp_count(seg, AV_ODP_COUNT_INVALIDATION_PAGES, pages);
	av_odp_count(seg, AV_ODP_COUNT_INVALIDATIONS,
		     1); /* after the pages: who sees the event sees its pages */
}
