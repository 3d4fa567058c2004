/* SPDX-License-Identifier: MIT */
/* Posts work requests. */
#include "verbs/between.h"
#include "verbs/post.h"

#include "transport/drive.h"
#include "transport/overdue.h"
#include "transport/rnr.h"
#include "verbs/fail.h"

int av_post_note_refusal(const struct av_qp *qp)
{
	bool there = qp && qp->send_cq && !av_context_of(qp->ibv.context)->forked;
	uint32_t state = there ? atomic_load(&qp->end.qp->state) : 0;
	int err = av_refuse(EINVAL, there ? AV_CHECK_POST_SEND_STATE : AV_CHECK_POST_OBJECT, state,
			    0);

	if (there)
		av_diag_state(state);
	return err;
}

static void refuse_qp(const struct ibv_qp *ibv, int err)
{
	av_refuse_object(err, AV_OBJECT_QP, ibv->qp_num);
}

static int refuse_send(const struct ibv_qp *ibv, const struct av_qp *qp)
{
	int err = av_post_note_refusal(qp);

	refuse_qp(ibv, err);
	return av_fail_errno(AV_VERB_POST_SEND, err);
}

static int refuse_recv(const struct ibv_qp *ibv, const struct av_qp *qp)
{
	int err = av_refuse(EINVAL, qp && qp->srq ? AV_CHECK_POST_RECV_SRQ : AV_CHECK_POST_OBJECT,
			    0, 0);

	refuse_qp(ibv, err);
	return av_fail_errno(AV_VERB_POST_RECV, err);
}

/* How a thread gets to post. */
enum entry {
	REFUSED,  /* not at all: no such queue pair, or its state forbids it */
	APPENDS,  /* @append is held */
	EXECUTES, /* @append is held, and @exec, too */
};

static enum entry enter(struct av_qp *qp)
{
	struct av_qp_shared *q;
	enum entry entry;
	uint32_t state;

	if (av_unlikely(!qp || !qp->send_cq || av_context_of(qp->ibv.context)->forked))
		return REFUSED;
	q = qp->end.qp;
	entry = av_likely(av_lock_try_both(&q->exec, AV_RANK_EXEC, AV_RANK_APPEND)) ? EXECUTES
										    : APPENDS;
	if (entry == APPENDS)
		av_lock_acquire_plain(&q->append, AV_RANK_APPEND);
	/* Not earlier: whoever empties the queue holds one of the two. */
	state = atomic_load_explicit(&q->state, memory_order_relaxed);
	if (av_likely(state != IBV_QPS_RESET && state != IBV_QPS_INIT && state != IBV_QPS_RTR))
		return entry;
	av_lock_release(&q->append);
	av_drive_entered(&qp->end, &qp->peer, entry == EXECUTES);
	return REFUSED;
}

int av_post_special(struct av_qp *qp, const struct av_sq_special *req)
{
	enum entry entry = enter(qp);
	int err;

	if (entry == REFUSED)
		return av_post_note_refusal(qp);
	err = av_sq_post_special(&qp->end, req);
	av_lock_release(&qp->end.qp->append);
	av_drive_entered(&qp->end, &qp->peer, entry == EXECUTES);
	return err;
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr,
		     const struct av_atomic *operands)
{
	struct av_qp *qp = av_qp_find(ibv);
	enum entry entry = enter(qp);
	int err;

	if (av_unlikely(entry == REFUSED)) {
		*bad_wr = wr;
		return refuse_send(ibv, qp);
	}
	err = av_sq_post(&qp->end, wr, bad_wr, av_ah_attr, operands);
	av_lock_release(&qp->end.qp->append);
	if (av_unlikely(err)) {
		refuse_qp(ibv, err);
		(void)av_fail_errno(AV_VERB_POST_SEND, err);
	}
	av_drive_entered(&qp->end, &qp->peer, entry == EXECUTES);
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
			IBV_QPS_ERR))
		av_overdue_flush(&qp->end);
}

int av_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct av_qp *qp = av_qp_find(ibv);
	int err;

	if (av_unlikely(!qp || qp->srq || !qp->recv_cq || av_context_of(ibv->context)->forked)) {
		*bad_wr = wr;
		return refuse_recv(ibv, qp);
	}
	err = av_rq_post(qp->end.seg, qp->rq, &qp->end.qp->state, wr, bad_wr);
	if (av_unlikely(err)) {
		refuse_qp(ibv, err);
		(void)av_fail_errno(AV_VERB_POST_RECV, err);
	}
	after_post_recv(qp);
	return av_unlikely(err) ? errno = err : 0;
}
