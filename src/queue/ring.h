/* SPDX-License-Identifier: MIT */
/* Memory of rings, on the kind of pages that the policy asks for. */
#ifndef AV_QUEUE_RING_H
#define AV_QUEUE_RING_H

#include <stdint.h>

#include "segment/pages.h"

/* Entries of a ring that holds @capacity: a power of two. */
static inline uint32_t av_ring_entries(uint32_t capacity)
{
	return capacity <= 1 ? 1 : 1u << (32 - __builtin_clz(capacity - 1));
}

/*
 * Zeroed memory for a ring in an own segment. @policy: NULL: any pages. A ring smaller than a huge
 * page shares small pages with others; if huge pages are demanded, or tried first (ALL), it takes
 * one of its own.
 * Return: offset, to be given to av_seg_free(), or 0 and errno ENOMEM
 */
uint64_t av_ring_alloc(struct av_seg *seg, uint64_t bytes, const struct av_page_policy *policy);

#endif
