/* SPDX-License-Identifier: MIT */
/*
 * Receiver not ready: who resumes a requester that waits for a receive request?
 *
 * Usually the poster of the receive request, at once. A poster that is behind would do the
 * requester's work the slow way, once for each request. So it posts some first, then kicks the
 * requester, which looks for a kick when it polls its CQ in vain. If none comes, the poster resumes
 * it after all: when it has polled its own CQ in vain for a while, or arms it. Else the requester's
 * RNR timer goes off. On the wire, whoever would resume or kick the requester tells it by a packet.
 *
 * Thread-safety: the CQs hold hints, taken by an atomic exchange. @exec guards everything else.
 */
#ifndef AV_TRANSPORT_RNR_H
#define AV_TRANSPORT_RNR_H

#include "queue/qp.h"

/*
 * Requests have been posted to @rq, of @end alone, and a requester waits.
 * Context: owner's thread, no lock held.
 */
void av_rnr_posted(const struct av_qp_end *end, struct av_rq_shared *rq);

/* The slow part of av_rnr_polled(). */
void av_rnr_polled_check(struct av_seg *seg, struct av_cq_shared *cq, bool long_since);

/*
 * An own CQ was polled in vain. @long_since: many times in a row
 * Context: owner's thread, no lock held.
 */
static inline void av_rnr_polled(struct av_seg *seg, struct av_cq_shared *cq, bool long_since)
{
	if (av_unlikely(long_since || atomic_load_explicit(&cq->parked, memory_order_relaxed)))
		av_rnr_polled_check(seg, cq, long_since);
}

/* The thread is about to stop polling that CQ, and to wait for its event. */
static inline void av_rnr_armed(struct av_seg *seg, struct av_cq_shared *cq)
{
	av_rnr_polled(seg, cq, true);
}

#endif
