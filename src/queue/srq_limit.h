/* SPDX-License-Identifier: MIT */
/*
 * SRQ_LIMIT_REACHED: one event when fewer requests are left in a shared receive queue than its
 * limit says, and none until the limit is set again. One of those who take requests raises it,
 * whoever is stopped or killed (base/raise.h).
 */
#ifndef AV_QUEUE_SRQ_LIMIT_H
#define AV_QUEUE_SRQ_LIMIT_H

#include "queue/rq_shared.h"

/* What the program has set; 0: disarmed. */
static inline uint32_t av_srq_limit(const struct av_rq_shared *rq)
{
	return av_raise_armed(&rq->limit);
}

/* Set the limit. Raises the event at once if it is already undercut. Context: the owner */
void av_srq_limit_set(struct av_seg *seg, struct av_rq_shared *rq, uint32_t limit);

/* A look at an armed limit. Context: any process, the right @resp of a queue pair is held */
void av_srq_limit_check(struct av_seg *seg, struct av_rq_shared *rq);

/* A request has been taken, or was not there. */
static inline void av_srq_limit_look(struct av_seg *seg, struct av_rq_shared *rq)
{
	if (av_unlikely(av_srq_limit(rq) != 0))
		av_srq_limit_check(seg, rq);
}

#endif
