/* SPDX-License-Identifier: MIT */
/* Taking pages away from the device: what an invalidation does to a context's page table and its
 * counts. */
#ifndef AV_MEMORY_ODP_INVALIDATE_H
#define AV_MEMORY_ODP_INVALIDATE_H

#include <stdint.h>

#include "segment/segment.h"

/*
 * A range is not what it was: its pages are not valid any more for the device of that context,
 * which is one invalidation event if any was. Any process and thread; takes no lock.
 */
void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len);

#endif
