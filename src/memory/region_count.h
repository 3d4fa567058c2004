/* SPDX-License-Identifier: MIT */
/*
 * Counters of memory regions. They count only events off the data path, because a successful access
 * only reads its key (observe/counters.h).
 *
 * The counters of AV_KEY_CHUNK keys form a node (memory/nodes.h) in their context's segment. It is
 * created when one of these keys becomes an ODP region or has its first event. Each node also has
 * one bit per key that marks ODP regions: who knows only an address, such as the listener of
 * invalidations, finds the region by these bits.
 *
 * Any thread of any process; never blocks; takes no lock. Without room for a node, nothing is
 * counted.
 */
#ifndef AV_MEMORY_REGION_COUNT_H
#define AV_MEMORY_REGION_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"
#include "observe/counters.h"

/* Reset the counters of a new key. Its entry is filled but not published. Owner's process only. */
void av_region_count_begin(struct av_seg *seg, uint32_t key, bool on_demand);

/* Add @n to a counter of a region. @seg: the key's segment, own or a peer's, but not a view. */
void av_region_count(struct av_seg *seg, uint32_t key, enum av_mr_counter which, uint64_t n);

/*
 * The most ODP regions that a search by address looks at: faults and unmappings must not get slower
 * with every region. Events of regions beyond are not attributed to any region.
 */
#define AV_ON_DEMAND_LOOKS 64

/*
 * Add @n to a counter of the ODP region that contains @addr, if any. If there are several, prefers
 * one that is not the whole address space.
 */
void av_region_count_at(struct av_seg *seg, uint64_t addr, enum av_mr_counter which, uint64_t n);

/* Read the counters of a region. @seg may be a view. */
void av_region_counted(const struct av_seg *seg, uint32_t key, uint64_t value[AV_MR_GAUGES]);

/* An ODP region. */
struct av_on_demand {
	uint32_t key;
	uint64_t addr, length;
	bool whole; /* spans the whole address space */
};

/*
 * Iterate over ODP regions; *@at is 0 at first. Concurrent changes may be missed or appear old.
 * Return: false when there are no more.
 */
AV_MUST_USE bool av_on_demand_next(const struct av_seg *seg, uint32_t *at,
				   struct av_on_demand *region);

#endif
