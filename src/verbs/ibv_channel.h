/* SPDX-License-Identifier: MIT */
/* What other files want of completion channels. */
#ifndef AV_VERBS_IBV_CHANNEL_H
#define AV_VERBS_IBV_CHANNEL_H

#include "verbs/objects.h"

/* Remove unread records of a CQ that ends, or whose events go elsewhere from now on, from its
 * channel's FIFO.
 */
void av_channel_forget(struct av_channel *channel, uint32_t cq_index, uint32_t cq_id);

/**
 * av_channel_wait() - wait for an event of that CQ, and take it as ibv_get_cq_event() would,
 * acknowledged
 * @until_ns: give up then (CLOCK_MONOTONIC); UINT64_MAX: never
 *
 * Events of other CQs stay; while some are there and unread, it looks every millisecond. Context:
 * any thread. Return: 0; ETIMEDOUT; EINTR; or another errno value: the channel cannot be read
 */
AV_MUST_USE int av_channel_wait(struct av_channel *channel, const struct av_cq *cq,
				uint64_t until_ns);

#endif
