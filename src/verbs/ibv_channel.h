/* SPDX-License-Identifier: MIT */
/* What other files need of completion channels. */
#ifndef AV_VERBS_IBV_CHANNEL_H
#define AV_VERBS_IBV_CHANNEL_H

#include "verbs/objects.h"

/* Remove a CQ's unread records: it is being destroyed, or its events go elsewhere from now on. */
void av_channel_forget(struct av_channel *channel, uint32_t cq_index, uint32_t cq_id);

/**
 * av_channel_wait() - wait for an event of a CQ and consume it like ibv_get_cq_event(),
 * acknowledged
 * @until_ns: time to give up (CLOCK_MONOTONIC); UINT64_MAX: never
 *
 * Leaves events of other CQs; while some are unread, it checks every millisecond.
 * Context: any thread.
 * Return: 0; ETIMEDOUT; EINTR; or another errno value if the channel cannot be read
 */
AV_MUST_USE int av_channel_wait(struct av_channel *channel, const struct av_cq *cq,
				uint64_t until_ns);

#endif
