/* SPDX-License-Identifier: MIT */
/* Resuming requesters that wait for receive requests. */
#include "transport/rnr.h"

#include "transport/responder.h"
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

/* The requester of an own queue pair may go on. */
static void resume_peer(const struct av_qp_end *end)
{
	if (end->qp->wire)
		av_wire_tell_credits(end);
	else
		av_drive_peer(end);
}

/* Kick the requester, and leave the work to it. */
static void kick_peer(const struct av_qp_end *end)
{
	struct av_qp_end requester = {0};

	if (end->qp->wire) {
		av_wire_tell_credits(end);
		return;
	}
	av_connect(end, &requester);
	if (requester.qp)
		atomic_store(&requester.qp->kick, 1);
	av_disconnect(&requester);
}

/* This requester still has to be resumed. Resume the one remembered before. */
static void remember_owed(struct av_seg *seg, struct av_cq_shared *cq, uint32_t index)
{
	uint32_t before = atomic_exchange(&cq->owed, index);
	struct av_qp_end other = {seg, before && before != index ? av_qp_at(seg, before) : NULL};

	if (other.qp)
		resume_peer(&other);
}

void av_rnr_posted(const struct av_qp_end *end, struct av_rq_shared *rq)
{
	struct av_cq_shared *cq = av_cq_at(end->seg, end->qp->recv_cq);

	if (batch(rq) == 1 || !cq || !av_cq_peek(end->seg, cq)) {
		if (atomic_exchange(&rq->waiting, 0))
			resume_peer(end);
		return;
	}
	if (atomic_load_explicit(&cq->owed, memory_order_relaxed) != end->qp->index)
		remember_owed(end->seg, cq, end->qp->index);
	if (av_rq_ready(rq) >= batch(rq) && atomic_exchange(&rq->waiting, 0))
		kick_peer(end);
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
	uint32_t owed = long_since ? atomic_load_explicit(&cq->owed, memory_order_relaxed) : 0;
	struct av_qp_end end = {seg, NULL};

	if (av_unlikely(parked))
		resume(seg, cq, parked);
	if (av_likely(!owed) || !atomic_compare_exchange_strong(&cq->owed, &owed, 0))
		return;
	end.qp = av_qp_at(seg, owed);
	if (end.qp)
		resume_peer(&end);
}
