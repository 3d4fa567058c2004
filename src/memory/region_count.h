/* SPDX-License-Identifier: MIT */
/* Counts of regions, and the nodes of the sparse trees over the owner's address space. */
#ifndef AV_MEMORY_REGION_COUNT_H
#define AV_MEMORY_REGION_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "observe/counters.h"
#include "segment/segment.h"

/*
 * Nodes of the sparse trees over the owner's address space (device page table, record of
 * unmappings), over 4 KiB pages whatever the system's page size. They are in an area of a context's
 * segment (AV_ODP_OFFSET). Any process may create one; they live as long as the context.
 * Lock-free, from any thread of any process and the listener of odp_notify.c; no heap.
 */

#define AV_NODE_PAGE_SHIFT 12

/* A run of pages; both ends are included. */
struct av_page_run {
	uint64_t first, last;
};

/* The pages that a range touches, cut at the end of the address space. Return: false: none. */
static inline bool av_page_run_of(uint64_t addr, uint64_t len, struct av_page_run *r)
{
	if (len == 0)
		return false;
	r->first = addr >> AV_NODE_PAGE_SHIFT;
	r->last = (av_range_wraps(addr, len) ? UINT64_MAX : addr + (len - 1)) >> AV_NODE_PAGE_SHIFT;
	return true;
}

/* NULL if @offset is 0 or impossible: other processes may have written anything there. */
void *av_node_at(const struct av_seg *seg, uint64_t offset, uint64_t bytes);

/*
 * Take zeroed, backed bytes: below a page a power of two, so that none straddle pages. Return:
 * offset, or 0 if the area or the file system is full.
 */
AV_MUST_USE uint64_t av_node_take(struct av_seg *seg, uint64_t bytes);

/* Create a node and publish its offset at @where if that is still 0; else ours stays unused. */
void av_node_publish(struct av_seg *seg, _Atomic uint64_t *where, uint64_t bytes);

/*
 * Counters of memory regions: only events off the data path (observe/counters.h).
 *
 * Those of AV_KEY_CHUNK keys form a node in their context's segment,
 * created when one of these keys becomes an ODP region or has its first event. It also has one bit
 * per key that marks ODP regions, which are found by address through these bits.
 *
 * Any thread of any process; never blocks; takes no lock. Without room, nothing is counted.
 */

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
