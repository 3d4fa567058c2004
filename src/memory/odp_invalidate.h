/* SPDX-License-Identifier: MIT */
/* Invalidation: what it does to a context's device page table and to the counters. */
#ifndef AV_MEMORY_ODP_INVALIDATE_H
#define AV_MEMORY_ODP_INVALIDATE_H

#include <stdint.h>

#include "segment/segment.h"

/*
 * Invalidate a range in the device's table of that context. Counts one invalidation event if any
 * page was valid. Any process, any thread; takes no lock.
 */
void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len);

#endif
