/* SPDX-License-Identifier: MIT */
/* Effects of state changes. */
#include "transport/transport.h"

#include "observe/freedom.h"
#include "transport/execution.h"

void av_responder_end_receives(const struct av_qp_ref *end)
{
	av_receive_abandon(end);
	if (end->qp->srq) {
		atomic_store(&end->qp->last_wqe, 1);
		return;
	}
	av_receive_flush(end);
}

void av_responder_error(const struct av_qp_ref *end)
{
	uint32_t before = atomic_exchange(&end->qp->state, IBV_QPS_ERR);

	AV_ASSERT_HELD(&end->qp->resp_lock);
	av_barrier_behind_rmw();
	if (before == IBV_QPS_ERR)
		av_receive_flush(end);
	else
		av_responder_end_receives(end);
}

/*
 * Does a half delivered message fail the queue pair? On a connection it does. Half a datagram is a
 * lost datagram, and in other states there is no message.
 */
static bool is_connected_responder(const struct av_qp_shared *qp)
{
	uint32_t state = atomic_load(&qp->state);

	return qp->type != IBV_QPT_UD && AV_RESPONDER_ANSWERS(state);
}

/*
 * The holder may have died anywhere between taking a receive request and completing it. @receiving
 * names the request from before it leaves the queue until its completion is in the CQ.
 */
void av_responder_repair(const struct av_qp_ref *end)
{
	struct av_receiver to = av_receiver_of(end);
	uint32_t qpn = atomic_load(&end->qp->qpn), place = end->qp->receiving - 1;
	struct av_xrc_use use = {0};
	struct av_rq_shared *rq;
	uint64_t until = 0;

	AV_ASSERT_HELD(&end->qp->resp_lock);
	if (qpn == 0)
		return;
	if (end->qp->type == IBV_QPT_XRC_RECV)
		while (av_xrc_begin(end, end->qp->receiving_srqn, &use, &to) == AV_FAULT_BUSY &&
		       av_key_retry(&until))
			av_xrc_end(&use);
	av_coop_abandon(end);
	rq = av_rq_at(to.seg, to.rq);
	if (rq && end->qp->receiving)
		av_rq_repair(to.seg, rq, qpn, place,
			     av_cq_holds_receive(to.seg, to.cq, qpn, place));
	end->qp->receiving = 0;
	if (is_connected_responder(end->qp)) {
		av_report_event(end, AV_CHECK_EXECUTOR_DIED, AV_EVENT_NONE, 0);
		av_responder_error(end);
	} else if (atomic_load(&end->qp->state) == IBV_QPS_ERR) {
		/* The holder may have died before this. One event too many is better than none. */
		av_responder_end_receives(end);
	}
	av_xrc_end(&use);
}

/* A thread of this process times out for a peer itself: its right is waited for until that ends. */
static enum av_lock_result acquire_resp_lock(struct av_lock *resp)
{
	uint64_t until = av_now_ns() + AV_PEER_TIMEOUT_NS;
	enum av_lock_result got;

	while ((got = av_lock_acquire_until(resp, AV_RANK_RESPONDER, until)) == AV_LOCK_BUSY &&
	       av_lock_mine(resp))
		until = av_now_ns() + AV_STUCK_NS;
	return got;
}

int av_qp_quiesce(const struct av_qp_ref *end)
{
	enum av_lock_result got;

	if (end->seg->own)
		av_lock_acquire_plain(&end->qp->req_lock, AV_RANK_REQUESTER);
	got = acquire_resp_lock(&end->qp->resp_lock);
	if (got == AV_LOCK_REPAIR)
		av_responder_repair(end);
	if (got != AV_LOCK_BUSY)
		return 0;
	if (end->seg->own)
		av_lock_release_fence(&end->qp->req_lock);
	return EBUSY;
}

void av_qp_resume(const struct av_qp_ref *end)
{
	av_lock_release(&end->qp->resp_lock);
	if (end->seg->own)
		av_lock_release_fence(&end->qp->req_lock);
}

/* Release what an unpolled completion holds: bounce buffers, and its slot in a shared queue. */
static bool release_unpolled_cqe(struct av_seg *seg, struct av_cqe *cqe)
{
	struct av_rq_shared *rq = cqe->flags & AV_CQE_RECV ? av_rq_at(seg, cqe->queue) : NULL;

	av_bounce_give(seg, cqe->bounce, cqe->bounce_len);
	if (rq && atomic_load(&rq->id)) /* a queue of one queue pair is emptied as a whole */
		av_rq_freed(seg, rq, cqe->wqe);
	return true;
}

static bool of_qp(const struct av_cqe *cqe, uint32_t qpn)
{
	return cqe->qpn == qpn && cqe->queue;
}

static bool of_rq(const struct av_cqe *cqe, uint32_t rq)
{
	return cqe->flags & AV_CQE_RECV && cqe->queue == rq;
}

void av_srq_purge(struct av_seg *seg, uint32_t index)
{
	const struct av_rq_shared *rq = av_rq_at(seg, index);

	if (rq->cq)
		av_cq_purge(seg, rq->cq, of_rq, index, release_unpolled_cqe);
}

/* Remove the queue pair's completions from its CQs; release their bounce buffers and slots. */
static void purge_qp(const struct av_qp_ref *end)
{
	uint32_t qpn = atomic_load(&end->qp->qpn);

	if (end->qp->send_cq)
		av_cq_purge(end->seg, end->qp->send_cq, of_qp, qpn, release_unpolled_cqe);
	if (end->qp->recv_cq && end->qp->recv_cq != end->qp->send_cq)
		av_cq_purge(end->seg, end->qp->recv_cq, of_qp, qpn, release_unpolled_cqe);
}

static bool of_sends(const struct av_cqe *cqe, uint32_t qpn)
{
	return of_qp(cqe, qpn) && !(cqe->flags & AV_CQE_RECV);
}

/* Its poll frees no slot any more. */
static bool leave_cqe(struct av_seg *seg, struct av_cqe *cqe)
{
	cqe->queue = 0;
	return false;
}

void av_qp_leave_behind(const struct av_qp_ref *end)
{
	static _Atomic uint64_t last;
	uint32_t left = 0;

	if (end->seg->head->strict & AV_FREEDOM_BIT(AV_FREEDOM_LEFT_BEHIND) && end->qp->send_cq)
		left = av_cq_purge(end->seg, end->qp->send_cq, of_sends, atomic_load(&end->qp->qpn),
				   leave_cqe);
	if (left)
		av_flight_replace(&last, av_report_event(end, AV_CHECK_STRICT_LEFT_BEHIND,
							 AV_EVENT_NONE, left));
}

/* Context: RESET is its state already, so that nothing is posted any more. */
static void empty_queues(const struct av_qp_ref *end)
{
	struct av_qp_shared *qp = end->qp;

	av_receive_abandon(end);
	if (end->seg->own) { /* another process' queue pair is for XRC, and has neither */
		purge_qp(end);
		if (!qp->srq && qp->rq)
			av_rq_reset(av_rq_at(end->seg, qp->rq));
	}
	atomic_store(&qp->sq_tail, 0);
	atomic_store(&qp->sq_freed, 0);
	qp->sq_next = 0;
	atomic_store(&qp->wait_reason, AV_WAIT_NONE);
	atomic_store(&qp->to_wire, AV_TO_WIRE_NOT);
	qp->drain_notify = 0;
	atomic_store(&qp->flush_due, 0);
	qp->receiving = qp->established = qp->msn = 0;
}

void av_qp_apply_state(const struct av_qp_ref *end, enum ibv_qp_state from, enum ibv_qp_state to)
{
	struct av_qp_shared *qp = end->qp;

	if (from != IBV_QPS_ERR || to != IBV_QPS_ERR)
		qp->attr.qp_state = to;
	if (to == IBV_QPS_RESET) {
		atomic_store(&qp->state, to);
		empty_queues(end);
	}
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
		qp->expected_psn = qp->attr.rq_psn;
	if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
		qp->next_psn = qp->attr.sq_psn;
	if (from == IBV_QPS_RTS && to == IBV_QPS_SQD)
		qp->drain_notify = qp->attr.en_sqd_async_notify;
	if (to == IBV_QPS_ERR)
		av_responder_error(end);
	else if (to != IBV_QPS_RESET)
		atomic_store(&qp->state, to);
}
