/* SPDX-License-Identifier: MIT */
/* Posts work requests. */
#include "verbs/between.h"
#include "verbs/post.h"

#include "transport/drive.h"
#include "transport/receive.h"
#include "transport/rnr.h"
#include "transport/state.h"
#include "verbs/fail.h"

/* Note why a post fails: the state does not allow it, or there is no such queue. Return: EINVAL. */
static int note_refusal(const struct av_qp *qp, bool there, enum av_check state_check)
{
	uint32_t state = there ? atomic_load(&qp->end.qp->state) : 0;

	av_refuse(EINVAL, there ? state_check : AV_CHECK_POST_OBJECT, state, 0);
	if (there) {
		av_diag_pending()->state = state;
		av_diag_pending()->has |= AV_HAS_STATE;
	}
	return EINVAL;
}

static void refuse_qp(const struct ibv_qp *ibv, int err)
{
	av_refuse_object(err, AV_OBJECT_QP, ibv->qp_num);
}

static int refuse_send(const struct ibv_qp *ibv, const struct av_qp *qp)
{
	bool there = qp && qp->send_cq && !av_context_of(ibv->context)->forked;

	refuse_qp(ibv, note_refusal(qp, there, AV_CHECK_POST_SEND_STATE));
	return av_fail_errno(AV_VERB_POST_SEND, EINVAL);
}

static int refuse_recv(const struct ibv_qp *ibv, const struct av_qp *qp)
{
	bool there = qp && !qp->srq && qp->recv_cq && !av_context_of(ibv->context)->forked;

	refuse_qp(ibv, note_refusal(qp, there, AV_CHECK_POST_RECV_STATE));
	return av_fail_errno(AV_VERB_POST_RECV, EINVAL);
}

/* A window's key becomes that of the last bind as soon as the bind is posted. */
static void note_binds(struct ibv_send_wr *wr, const struct ibv_send_wr *end)
{
	for (; av_unlikely(wr != end && wr); wr = wr->next)
		if (av_unlikely(wr->opcode == IBV_WR_BIND_MW))
			wr->bind_mw.mw->rkey =
				(wr->bind_mw.mw->rkey & ~0xffu) | (wr->bind_mw.rkey & 0xff);
}

static bool may_send(const struct av_qp *qp)
{
	uint32_t state;

	if (av_unlikely(!qp || !qp->send_cq || av_context_of(qp->ibv.context)->forked))
		return false;
	state = atomic_load_explicit(&qp->end.qp->state, memory_order_relaxed);
	return av_likely(state != IBV_QPS_RESET && state != IBV_QPS_INIT && state != IBV_QPS_RTR);
}

int av_post_special(struct av_qp *qp, const struct av_sq_special *req)
{
	bool with_exec;
	int err;

	if (!may_send(qp))
		return EINVAL;
	with_exec = av_sq_enter(qp->end.qp);
	err = av_sq_post_special(&qp->end, req);
	av_post_end(qp);
	av_drive_entered(&qp->end, &qp->peer, with_exec);
	return err;
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr,
		     const struct av_atomic *operands)
{
	struct av_qp *qp = av_qp_find(ibv);
	bool with_exec;
	int err;

	if (!may_send(qp)) {
		*bad_wr = wr;
		return refuse_send(ibv, qp);
	}
	with_exec = av_sq_enter(qp->end.qp);
	err = av_sq_post(&qp->end, wr, bad_wr, av_ah_attr, operands);
	av_post_end(qp);
	if (av_unlikely(err)) {
		refuse_qp(ibv, err);
		(void)av_fail_errno(AV_VERB_POST_SEND, err);
	}
	note_binds(wr, err ? *bad_wr : NULL);
	av_drive_entered(&qp->end, &qp->peer, with_exec);
	return av_unlikely(err) ? errno = err : 0;
}

int av_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	return post_send(ibv, wr, bad_wr, NULL);
}

int av_post_translated(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr,
		       const struct av_atomic *operands)
{
	return post_send(ibv, wr, bad_wr, operands);
}

/* A requester may wait for the receive, or a failed queue pair must flush it. */
static void after_post_recv(struct av_qp *qp)
{
	if (av_unlikely(atomic_load_explicit(&qp->rq->waiting, memory_order_relaxed)))
		av_rnr_posted(&qp->end, qp->rq);
	if (av_unlikely(atomic_load_explicit(&qp->end.qp->state, memory_order_relaxed) ==
			IBV_QPS_ERR)) {
		av_responder_acquire(&qp->end);
		av_receive_flush(&qp->end);
		av_lock_release(&qp->end.qp->resp);
	}
}

int av_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct av_qp *qp = av_qp_find(ibv);
	int err;

	if (av_unlikely(!qp || qp->srq || !qp->recv_cq || av_context_of(ibv->context)->forked ||
			atomic_load_explicit(&qp->end.qp->state, memory_order_relaxed) ==
				IBV_QPS_RESET)) {
		*bad_wr = wr;
		return refuse_recv(ibv, qp);
	}
	err = av_rq_post(qp->end.seg, qp->rq, wr, bad_wr);
	if (av_unlikely(err)) {
		refuse_qp(ibv, err);
		(void)av_fail_errno(AV_VERB_POST_RECV, err);
	}
	after_post_recv(qp);
	return av_unlikely(err) ? errno = err : 0;
}
