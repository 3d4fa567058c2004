/* SPDX-License-Identifier: MIT */
/* Resuming requesters that wait for receive requests. */
#include "transport/rnr.h"

#include "transport/connect.h"
#include "transport/drive.h"

#define BATCH_MIN 8u
#define BATCH_MAX 64u

/* A requester that polls does so within some hundred nanoseconds; one that executes takes longer.
 */
#define PULSE_LOOKS  8u
#define PULSE_PAUSES 8u

/* So many requests are worth resuming a requester for: an eighth of the queue. 1: each one at once
 */
static uint32_t batch(const struct av_rq_shared *rq)
{
	uint32_t share = rq->capacity / 8;

	if (share < BATCH_MIN)
		return 1;
	return share < BATCH_MAX ? share : BATCH_MAX;
}

static uint32_t ready(const struct av_rq_shared *rq)
{
	return atomic_load_explicit(&rq->tail, memory_order_relaxed) -
	       atomic_load_explicit(&rq->head, memory_order_relaxed);
}

void av_rnr_parked(const struct av_qp_end *end)
{
	struct av_cq_shared *cq = av_cq_at(end->seg, end->qp->send_cq);

	if (cq)
		atomic_store_explicit(&cq->parked, end->qp->index, memory_order_relaxed);
}

/* What changes as a requester's program posts to that queue pair, or polls its CQ in vain. */
static uint32_t pulse(const struct av_qp_end *requester, const struct av_cq_shared *cq)
{
	return atomic_load_explicit(&requester->qp->sq_tail, memory_order_relaxed) +
	       atomic_load_explicit(&cq->empty_polls, memory_order_relaxed);
}

/*
 * Is the requester's program at work on a processor of its own, and will it look at that queue
 * pair? Then it goes on in no time, and without having its locks taken away (base/biased_lock.h).
 */
static bool is_about(const struct av_qp_end *requester)
{
	const struct av_cq_shared *cq = av_cq_at(requester->seg, requester->qp->send_cq);
	uint32_t before;

	if (!cq || atomic_load_explicit(&cq->parked, memory_order_relaxed) != requester->qp->index)
		return false;
	before = pulse(requester, cq);
	for (unsigned int look = 0; look < PULSE_LOOKS; look++) {
		for (unsigned int i = 0; i < PULSE_PAUSES; i++)
			av_pause();
		if (pulse(requester, cq) != before)
			return true;
	}
	return false;
}

/* Tell the requester, and leave the work to it; @surely: if it is not there, do it here. */
static void kick_peer(const struct av_qp_end *end, bool surely)
{
	struct av_qp_end requester = {0};
	bool about = true;

	av_connect(end, &requester);
	if (requester.qp) {
		atomic_store(&requester.qp->kick, 1);
		about = !surely || is_about(&requester);
	}
	av_disconnect(&requester);
	if (!about)
		av_drive_peer(end);
}

/* This queue pair's requester has to be looked after; the one that had to be before is served now.
 */
static void owe(struct av_seg *seg, struct av_cq_shared *cq, uint32_t index)
{
	uint32_t before = atomic_exchange(&cq->owed, index);
	struct av_qp_end other = {seg, before && before != index ? av_qp_at(seg, before) : NULL};

	if (other.qp)
		kick_peer(&other, true);
}

void av_rnr_posted(const struct av_qp_end *end, struct av_rq_shared *rq)
{
	struct av_cq_shared *cq = av_cq_at(end->seg, end->qp->recv_cq);

	if (batch(rq) == 1 || !cq || !av_cq_peek(end->seg, cq)) {
		if (atomic_exchange(&rq->waiting, 0))
			kick_peer(end, true);
		return;
	}
	if (atomic_load_explicit(&cq->owed, memory_order_relaxed) != end->qp->index)
		owe(end->seg, cq, end->qp->index);
	if (ready(rq) >= batch(rq) && atomic_exchange(&rq->waiting, 0))
		kick_peer(end, false);
}

/* An own queue pair waits for its peer, or did: has it been kicked? */
static void resume(struct av_seg *seg, struct av_cq_shared *cq, uint32_t index)
{
	struct av_qp_end end = {seg, av_qp_at(seg, index)};

	if (!end.qp || atomic_load_explicit(&end.qp->park, memory_order_relaxed) != AV_PARK_RNR)
		(void)!atomic_compare_exchange_strong(&cq->parked, &index, 0);
	else if (atomic_load_explicit(&end.qp->kick, memory_order_relaxed))
		av_drive(&end, NULL);
}

void av_rnr_polled_check(struct av_seg *seg, struct av_cq_shared *cq, bool long_since)
{
	uint32_t parked = atomic_load_explicit(&cq->parked, memory_order_relaxed);
	uint32_t owed = long_since ? atomic_load_explicit(&cq->owed, memory_order_relaxed) : 0;
	struct av_qp_end end = {seg, NULL};

	if (av_unlikely(parked))
		resume(seg, cq, parked);
	if (av_likely(!owed) || !atomic_compare_exchange_strong(&cq->owed, &owed, 0))
		return;
	end.qp = av_qp_at(seg, owed);
	if (end.qp)
		kick_peer(&end, true);
}
