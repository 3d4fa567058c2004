/* SPDX-License-Identifier: MIT */
/*
 * Receiver not ready: when does a requester that waits for a receive request go on?
 *
 * Usually when one is posted: the poster tells it. A requester would go on for each request of a
 * poster that is behind. So that one posts some first. If it does not, it tells when it has polled
 * its own CQ in vain for a while, or arms it. Else the requester's RNR timer goes off. A requester
 * that polls its CQ in vain looks there whether it has been told, which is sooner than its thread
 * wakes up. On the wire it is told by a packet.
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
