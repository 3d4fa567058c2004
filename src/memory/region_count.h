/* SPDX-License-Identifier: MIT */
/*
 * Counters of memory regions: only events off the data path (observe/counters.h).
 *
 * Those of AV_KEY_CHUNK keys form a node (memory/nodes.h) in their context's segment, created when
 * one of these keys becomes an ODP region or has its first event. It also has one bit per key that
 * marks ODP regions, which are found by address through these bits.
 *
 * Any thread of any process; never blocks; takes no lock. Without room, nothing is counted.
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

/* Read the counters of a region. @seg may be a view. */
void av_region_counted(const struct av_seg *seg, uint32_t key, uint64_t value[AV_MR_GAUGES]);

/* --- ODP regions by address, for the listener of invalidations and for faults ---- */

/* How many a search looks at: faults must not get slower with every region. */
#define AV_ODP_REGION_LOOKS 64

struct av_odp_region {
	uint32_t key;
	uint64_t addr, length;
	bool whole; /* spans the whole address space */
};

/* Walk the ODP regions; *@at is 0 at first. Concurrent changes may be missed or appear old. */
AV_MUST_USE bool av_odp_region_next(const struct av_seg *seg, uint32_t *at,
				    struct av_odp_region *region);

/* Add @n to a counter of the ODP region at @addr, if any; the whole address space comes last. */
void av_odp_region_count(struct av_seg *seg, uint64_t addr, enum av_mr_counter which, uint64_t n);

#endif
