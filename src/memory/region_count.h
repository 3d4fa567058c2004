/* SPDX-License-Identifier: MIT */
/*
 * Counters of memory regions. They count only events off the data path, because a successful access
 * only reads its key (observe/counters.h).
 *
 * The counters of AV_KEY_CHUNK keys form a node (memory/nodes.h) in their context's segment. It is
 * created when one of these keys becomes an ODP region or has its first event. Each node also has
 * one bit per key that marks ODP regions: memory/odp_region.h finds a region by these bits.
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

/* Read the counters of a region. @seg may be a view. */
void av_region_counted(const struct av_seg *seg, uint32_t key, uint64_t value[AV_MR_GAUGES]);

/* The first index of an ODP region's key at or after @at, or UINT32_MAX. */
uint32_t av_region_count_on_demand(const struct av_seg *seg, uint32_t at);

#endif
