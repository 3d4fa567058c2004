/* SPDX-License-Identifier: MIT */
/*
 * Which region on demand is an address in? For who knows the address only: the listener of
 * invalidations, a fault. Any thread of any process; takes no lock.
 */
#ifndef AV_MEMORY_ODP_REGION_H
#define AV_MEMORY_ODP_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "observe/counters.h"
#include "segment/segment.h"

/*
 * So many regions are looked at: a fault, or an unmapping, is not to take longer the more regions
 * there are. What belongs to further ones is counted of none.
 */
#define AV_ODP_REGION_LOOKS 64

struct av_odp_region {
	uint32_t key;
	uint64_t addr, length;
	bool whole; /* spans the whole address space */
};

/*
 * Iterate over ODP regions; *@at is 0 at first. Concurrent changes may be missed or appear old.
 * Return: false when there are no more.
 */
AV_MUST_USE bool av_odp_region_next(const struct av_seg *seg, uint32_t *at,
				    struct av_odp_region *region);

/*
 * Add @n to a counter (memory/region_count.h) of the region that @addr lies in, if there is one: of
 * several, one that is not the whole address space.
 */
void av_odp_region_count(struct av_seg *seg, uint64_t addr, enum av_mr_counter which, uint64_t n);

#endif
