/* SPDX-License-Identifier: MIT */
/* Evicts pages of ODP regions, as the kernel does when it needs memory. No byte is lost. */
#ifndef AV_MEMORY_ODP_EVICT_H
#define AV_MEMORY_ODP_EVICT_H

#include <stdint.h>

#include "segment/segment.h"

struct av_odp_eviction {
	uint32_t pages; /* pages per region, chosen by @chance; UINT32_MAX: all */
	uint64_t (*chance)(void *arg, uint64_t below);
	void *arg;
	uint32_t key; /* only the region with this key; 0: every region */
};

/**
 * av_odp_evict() - invalidate pages of the ODP regions of an own context
 *
 * A chosen page may already be invalid. An implicit region, which spans the whole address space, is
 * always invalidated entirely.
 * Context: any thread of the owner; takes locks of keys, one at a time.
 */
void av_odp_evict(struct av_seg *seg, const struct av_odp_eviction *how);

#endif
