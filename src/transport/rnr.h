/* SPDX-License-Identifier: MIT */
/*
 * Receiver not ready: who resumes a requester that waits for a receive request.
 *
 * The poster of the request does, in its own process and at once. But not one message for each
 * request while it is behind, with completions still to be polled and a queue of many requests: it
 * would do the requester's work beside its own, in the slow way that another's queue takes. Then it
 * waits until there are some requests and kicks the requester, which looks at that when it polls
 * its CQ in vain; and if nobody comes, the poster does it after all, when it has polled its own CQ
 * in vain for a while or arms it. If neither polls, the requester's RNR timer goes off, as it would
 * on a wire.
 *
 * Thread-safety: hints in the CQs, taken by exchange; everything that matters happens under the
 * requester's
 * @exec execution right.
 */
#ifndef AV_TRANSPORT_RNR_H
#define AV_TRANSPORT_RNR_H

#include "queue/qp.h"

/* Requests have been posted to @rq, of @end alone, and a requester waits. Context: owner's thread,
 * no lock held. */
void av_rnr_posted(const struct av_qp_end *end, struct av_rq_shared *rq);

/* The slow part of av_rnr_polled(). */
void av_rnr_polled_check(struct av_seg *seg, struct av_cq_shared *cq, bool long_since);

/* The own CQ was polled in vain; @long_since: many times in a row. Context: owner's thread, no lock
 * held. */
static inline void av_rnr_polled(struct av_seg *seg, struct av_cq_shared *cq, bool long_since)
{
	if (av_unlikely(long_since || atomic_load_explicit(&cq->parked, memory_order_relaxed)))
		av_rnr_polled_check(seg, cq, long_since);
}

/* The thread is about to stop polling that CQ and to wait for its event. */
static inline void av_rnr_armed(struct av_seg *seg, struct av_cq_shared *cq)
{
	av_rnr_polled(seg, cq, true);
}

#endif
