/* SPDX-License-Identifier: MIT */
/* Completions are taken; and receivers that were not ready. */
#ifndef AV_TRANSPORT_POLL_H
#define AV_TRANSPORT_POLL_H

#include <infiniband/verbs.h>

#include "queue/qp.h"
#include "segment/segment.h"

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

/*
 * Requests have been posted to @rq, of @end alone, and a requester waits.
 * Context: owner's thread, no lock held.
 */
void av_rnr_posted(const struct av_qp_ref *end, struct av_rq_shared *rq);

/* The slow part of av_rnr_polled(). */
void av_rnr_polled_check(struct av_seg *seg, struct av_cq_shared *cq, bool long_since);

/*
 * An own CQ was polled in vain. @long_since: many times in a row
 * Context: owner's thread, no lock held.
 */
static inline void av_rnr_polled(struct av_seg *seg, struct av_cq_shared *cq, bool long_since)
{
	if (av_unlikely(long_since || atomic_load_explicit(&cq->waiting, memory_order_relaxed)))
		av_rnr_polled_check(seg, cq, long_since);
}

/* The thread is about to stop polling that CQ, and to wait for its event. */
static inline void av_rnr_armed(struct av_seg *seg, struct av_cq_shared *cq)
{
	av_rnr_polled(seg, cq, true);
}

/* Taking completions: what ibv_poll_cq() does. */

/**
 * av_poll() - take up to @count completions of an own CQ, oldest first
 * @stamp_ns: out, the time at which each was appended, if the CQ records it; NULL: not wanted
 *
 * Frees the slots of the completed requests, and places payload in bounce buffers. A call that
 * finds nothing may copy a piece of a message that is on its way (transport/coop_copy.h). After
 * about a hundred calls in a row that found nothing, yields the core. Context: any thread of the
 * owner; holds no lock while it places payload. Return:  number of completions, or -EIO: the CQ has
 * overrun and is empty Source: ibv_poll_cq(3).
 */
int av_poll(struct av_seg *seg, struct av_cq_shared *cq, int count, struct ibv_wc *wc,
	    uint64_t *stamp_ns);

#endif
