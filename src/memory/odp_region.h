/* SPDX-License-Identifier: MIT */
/*
 * ODP regions, found by address, for those who know no key: the listener of invalidations, a fault.
 * Any thread of any process; takes no lock.
 */
#ifndef AV_MEMORY_ODP_REGION_H
#define AV_MEMORY_ODP_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "observe/counters.h"
#include "segment/segment.h"

/*
 * The most ODP regions that a search by address looks at: faults and unmappings must not get slower
 * with every region. Events of regions beyond are not attributed to any region.
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
 * Add @n to a counter (memory/region_count.h) of the ODP region that contains @addr, if any. If
 * there are several, prefers one that is not the whole address space.
 */
void av_odp_region_count(struct av_seg *seg, uint64_t addr, enum av_mr_counter which, uint64_t n);

#endif
