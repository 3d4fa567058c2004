/* SPDX-License-Identifier: MIT */
/* Takes pages out of a context's device page table, and counts that. No byte is lost. */
#ifndef AV_MEMORY_ODP_EVICT_H
#define AV_MEMORY_ODP_EVICT_H

#include <stdint.h>

#include "segment/segment.h"

/* Invalidate a range. Any process, any thread; takes no lock. */
void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len);

struct av_odp_eviction {
	uint32_t pages; /* pages per region, chosen by @chance; UINT32_MAX: all */
	uint64_t (*chance)(void *arg, uint64_t below);
	void *arg;
	uint32_t key; /* only the region with this key; 0: every region */
};

/*
 * Invalidate pages of an own context's ODP regions, as the kernel does when it needs memory;
 * implicit ones entirely. Any thread of the owner; takes locks of keys, one at a time.
 */
void av_odp_evict(struct av_seg *seg, const struct av_odp_eviction *how);

#endif
