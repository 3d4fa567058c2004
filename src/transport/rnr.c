/* SPDX-License-Identifier: MIT */
/* Resuming requesters that wait for receive requests. */
#include "transport/rnr.h"

#include "transport/drive.h"
#include "transport/wire.h"

#define BATCH_MIN 8u
#define BATCH_MAX 64u

/* An eighth of the queue makes it worth resuming a requester. 1: resume it for each */
static uint32_t batch(const struct av_rq_shared *rq)
{
	uint32_t share = rq->capacity / 8;

	if (share < BATCH_MIN)
		return 1;
	return share < BATCH_MAX ? share : BATCH_MAX;
}

/* The requester of an own queue pair may go on, if it waits. */
static void resume_peer(const struct av_qp_end *end, struct av_rq_shared *rq)
{
	if (!atomic_exchange(&rq->waiting, 0))
		return;
	if (end->qp->wire)
		av_wire_tell_credits(end);
	else
		av_drive_peer(end);
}

/* The same, of queue pair @index; 0: none. */
static void resume_owed(struct av_seg *seg, uint32_t index)
{
	struct av_qp_end end = {seg, index ? av_qp_at(seg, index) : NULL};
	struct av_rq_shared *rq = end.qp ? av_rq_at(seg, end.qp->rq) : NULL;

	if (rq)
		resume_peer(&end, rq);
}

void av_rnr_posted(const struct av_qp_end *end, struct av_rq_shared *rq)
{
	struct av_cq_shared *cq = av_cq_at(end->seg, end->qp->recv_cq);

	if (batch(rq) == 1 || av_rq_ready(rq) >= batch(rq) || !cq || !av_cq_peek(end->seg, cq))
		resume_peer(end, rq);
	else if (atomic_load_explicit(&cq->owed, memory_order_relaxed) != end->qp->index)
		resume_owed(end->seg, atomic_exchange(&cq->owed, end->qp->index));
}

/* An own queue pair waits for its peer, or did so: drive it if it has been kicked. */
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

	if (av_unlikely(parked))
		resume(seg, cq, parked);
	if (long_since && atomic_load_explicit(&cq->owed, memory_order_relaxed))
		resume_owed(seg, atomic_exchange(&cq->owed, 0));
}
