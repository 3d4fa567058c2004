/* SPDX-License-Identifier: MIT */
/* Memory of rings, on the pages that are wished for. */
#ifndef AV_QUEUE_RING_H
#define AV_QUEUE_RING_H

#include <stdint.h>

#include "segment/page_policy.h"
#include "segment/alloc.h"

/**
 * av_ring_alloc() - zeroed memory for a ring in an own segment
 * @policy: NULL: no wish
 *
 * What is smaller than a huge page shares small pages with others, unless huge ones are demanded:
 * then it takes one of its own. Return: offset, to be given to av_seg_free(), or 0 and errno ENOMEM
 */
uint64_t av_ring_alloc(struct av_seg *seg, uint64_t bytes, const struct av_page_policy *policy);

#endif
