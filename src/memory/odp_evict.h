/* SPDX-License-Identifier: MIT */
/* Invalidating pages on demand, as the kernel does when it needs them: no byte is lost. */
#ifndef AV_MEMORY_ODP_EVICT_H
#define AV_MEMORY_ODP_EVICT_H

#include <stdint.h>

#include "segment/segment.h"

struct av_odp_eviction {
	uint32_t pages; /* so many of each region, chosen by @chance; UINT32_MAX: all, */
	uint64_t (*chance)(void *arg, uint64_t below);
	void *arg;
	uint32_t key; /* of the region with this key, 0: of each */
};

/**
 * av_odp_evict() - invalidate pages of the regions on demand of an own context
 *
 * A page may be chosen that is not valid: nothing happens to it. Of the implicit region, which is
 * the whole address space, always all. Context: any thread of the owner; takes the locks of keys,
 * one at a time.
 */
void av_odp_evict(struct av_seg *seg, const struct av_odp_eviction *how);

#endif
