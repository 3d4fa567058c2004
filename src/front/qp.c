/* SPDX-License-Identifier: MIT */
/* Creating, querying and destroying queue pairs. */
#include <stdlib.h>
#include <string.h>

#include "front/qp.h"
#include "front/mw.h"
#include "front/srq.h"
#include "hca/limits.h"
#include "transport/connect.h"
#include "transport/drive.h"
#include "transport/state.h"

static int check_type(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return 0;
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
	case IBV_QPT_DRIVER:
		return EOPNOTSUPP;
	default:
		return EINVAL;
	}
}

static int check_cap(const struct ibv_device_attr *dev, const struct ibv_qp_cap *cap)
{
	if (cap->max_send_wr > (uint32_t)dev->max_qp_wr || cap->max_recv_wr > (uint32_t)dev->max_qp_wr ||
	    cap->max_send_sge > (uint32_t)dev->max_sge || cap->max_recv_sge > (uint32_t)dev->max_sge ||
	    cap->max_inline_data > AV_MAX_INLINE)
		return EINVAL;
	return 0;
}

static struct av_cq *cq_of(const struct av_context *ctx, struct ibv_cq *cq)
{
	return cq && cq->context == &ctx->verbs.context ? av_cq_find(cq) : NULL;
}

static int check_create(struct av_context *ctx, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	int err = check_type(attr->qp_type);

	if (err == 0)
		err = check_cap(&ctx->dev->attr, &attr->cap);
	if (err)
		return err;
	if (!av_pd_find(pd))
		return ENOENT;
	if (!cq_of(ctx, attr->send_cq) || !cq_of(ctx, attr->recv_cq))
		return EINVAL;
	if (attr->srq && !(attr->srq->context == &ctx->verbs.context && av_srq_find(ctx, attr->srq)))
		return EINVAL;
	return ctx->forked ? EPERM : 0;
}

/* The objects a queue pair keeps from being destroyed. */
static void hold(struct av_qp *qp, int by)
{
	atomic_fetch_add(&qp->pd->users, (uint32_t)by);
	atomic_fetch_add(&qp->send_cq->users, (uint32_t)by);
	atomic_fetch_add(&qp->recv_cq->users, (uint32_t)by);
	if (qp->srq && by > 0)
		av_srq_attach(qp->srq, qp);
	else if (qp->srq)
		av_srq_detach(qp->srq, qp);
}

static void init_public(struct av_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr, uint32_t index)
{
	struct ibv_qp *ibv = &qp->ibv;

	ibv->context = pd->context;
	ibv->qp_context = attr->qp_context;
	ibv->pd = pd;
	ibv->send_cq = attr->send_cq;
	ibv->recv_cq = attr->recv_cq;
	ibv->srq = attr->srq;
	ibv->handle = index;
	ibv->qp_num = atomic_load(&qp->end.qp->qpn);
	ibv->state = IBV_QPS_RESET;
	ibv->qp_type = attr->qp_type;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
}

static uint32_t init_shared(struct av_context *ctx, struct av_qp *qp, struct ibv_pd *pd,
			    const struct ibv_qp_init_attr *attr)
{
	struct av_qp_request req = {
		.type = attr->qp_type,
		.pd = av_pd_id(qp->pd),
		.send_cq = attr->send_cq->handle,
		.recv_cq = attr->recv_cq->handle,
		.sig_all = attr->sq_sig_all != 0,
		.srq = qp->srq ? qp->srq->index : 0,
		.cap = attr->cap,
		.limit = (uint32_t)ctx->dev->attr.max_qp,
	};
	uint32_t index = av_qp_init(ctx->seg, &req);

	if (!index)
		return 0;
	qp->end.seg = ctx->seg;
	qp->end.qp = av_qp_at(ctx->seg, index);
	qp->rq = av_rq_at(ctx->seg, qp->end.qp->rq);
	return index;
}

struct ibv_qp *av_qp_create(struct av_context *ctx, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct av_qp *qp;
	uint32_t index;
	int err = check_create(ctx, pd, attr);

	if (err)
		return av_fail_null(err);
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return av_fail_null(ENOMEM);
	qp->pd = av_pd_find(pd);
	qp->send_cq = av_cq_find(attr->send_cq);
	qp->recv_cq = av_cq_find(attr->recv_cq);
	qp->srq = attr->srq ? av_srq_find(ctx, attr->srq) : NULL;
	if (qp->srq)
		attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0; /* ignored, and reported as what they are */
	index = init_shared(ctx, qp, pd, attr);
	if (!index || av_table_set(&ctx->qps, index, qp)) {
		if (index)
			av_qp_fini(ctx->seg, index);
		free(qp);
		return av_fail_null(ENOMEM);
	}
	hold(qp, 1);
	init_public(qp, pd, attr, index);
	return &qp->ibv;
}

AV_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (!av_ours(pd->context))
		return AV_NEXT(ibv_create_qp, "IBVERBS_1.1")(pd, attr);
	return av_qp_create(av_context_of(pd->context), pd, attr);
}

/* In-flight executors of others finish before the tokens are ours; RESET empties the queues and purges the CQs. */
static void end_shared(struct av_qp *qp)
{
	av_qp_quiesce(&qp->end);
	av_qp_apply_state(&qp->end, (enum ibv_qp_state)atomic_load(&qp->end.qp->state), IBV_QPS_RESET);
	av_disconnect(&qp->peer);
	av_qp_resume(&qp->end);
	av_mw_queue_pair_ends(av_context_of(qp->ibv.context), atomic_load(&qp->end.qp->qpn));
	av_qp_fini(qp->end.seg, qp->end.qp->index);
}

AV_EXPORT int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct av_context *ctx;
	struct av_qp *qp;

	if (!av_ours(ibv->context))
		return AV_NEXT(ibv_destroy_qp, "IBVERBS_1.1")(ibv);
	ctx = av_context_of(ibv->context);
	qp = av_qp_find(ibv);
	if (!qp)
		return av_fail_errno(ENOENT);
	av_unlist(ctx, &ctx->qps, ibv->handle);
	if (!ctx->forked) {
		av_event_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed, &qp->async_delivered);
		end_shared(qp);
	}
	hold(qp, -1);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	free(qp);
	return 0;
}

static void fill_init_attr(const struct av_qp *qp, struct ibv_qp_init_attr *init)
{
	memset(init, 0, sizeof(*init));
	init->qp_context = qp->ibv.qp_context;
	init->send_cq = qp->ibv.send_cq;
	init->recv_cq = qp->ibv.recv_cq;
	init->srq = qp->ibv.srq;
	init->cap = qp->end.qp->attr.cap;
	init->qp_type = qp->ibv.qp_type;
	init->sq_sig_all = (int)qp->end.qp->sig_all;
}

AV_EXPORT int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init)
{
	struct av_qp *qp;

	if (!av_ours(ibv->context))
		return AV_NEXT(ibv_query_qp, "IBVERBS_1.1")(ibv, attr, attr_mask, init);
	qp = av_qp_find(ibv);
	if (!qp)
		return av_fail_errno(ENOENT);
	av_qp_quiesce(&qp->end); /* whole values, not halves of a change */
	*attr = qp->end.qp->attr;
	av_qp_resume(&qp->end);
	av_drive(&qp->end, &qp->peer); /* what was posted while we held the token */
	attr->qp_state = attr->cur_qp_state = (enum ibv_qp_state)atomic_load(&qp->end.qp->state);
	attr->sq_draining = attr->qp_state == IBV_QPS_SQD && atomic_load(&qp->end.qp->park) != AV_PARK_NOT;
	fill_init_attr(qp, init);
	if (attr_mask & IBV_QP_STATE)
		ibv->state = attr->qp_state;
	return 0;
}

AV_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
	struct av_qp *qp;

	if (!av_ours(ibv->context))
		return AV_NEXT(ibv_qp_to_qp_ex, "IBVERBS_1.6")(ibv);
	qp = av_qp_find(ibv);
	return qp && qp->extended ? &qp->ex : NULL;
}

AV_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	if (!av_ours(qp->context))
		return AV_NEXT(ibv_query_qp_data_in_order, "IBVERBS_1.14")(qp, op, flags);
	return 0;
}
