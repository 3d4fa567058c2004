/* SPDX-License-Identifier: MIT */
/* Shared receive queues. */
#include "front/srq.h"

#include <stdlib.h>

#include "hca/limits.h"
#include "transport/drive.h"

struct av_srq *av_srq_find(const struct av_context *ctx, const struct ibv_srq *ibv)
{
	struct av_srq *srq = av_table_get(&ctx->srqs, ibv->handle);

	return srq && &srq->ibv == ibv ? srq : NULL;
}

void av_srq_attach(struct av_srq *srq, struct av_qp *qp)
{
	pthread_mutex_lock(&srq->users_mutex);
	qp->next_on_srq = srq->users;
	srq->users = qp;
	pthread_mutex_unlock(&srq->users_mutex);
}

void av_srq_detach(struct av_srq *srq, struct av_qp *qp)
{
	pthread_mutex_lock(&srq->users_mutex);
	for (struct av_qp **p = &srq->users; *p; p = &(*p)->next_on_srq) {
		if (*p == qp) {
			*p = qp->next_on_srq;
			break;
		}
	}
	pthread_mutex_unlock(&srq->users_mutex);
}

static int check_create(struct av_context *ctx, struct ibv_pd *pd, const struct ibv_srq_init_attr *init)
{
	const struct ibv_device_attr *dev = &ctx->dev->attr;

	if (init->attr.max_wr == 0 || init->attr.max_wr > (uint32_t)dev->max_srq_wr ||
	    init->attr.max_sge > (uint32_t)dev->max_srq_sge || init->attr.srq_limit > init->attr.max_wr)
		return EINVAL;
	if (!av_pd_find(pd))
		return ENOENT;
	return ctx->forked ? EPERM : 0;
}

static void init_public(struct av_srq *srq, struct ibv_pd *pd, void *srq_context)
{
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = srq_context;
	srq->ibv.pd = pd;
	srq->ibv.handle = srq->index;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	pthread_mutex_init(&srq->users_mutex, NULL);
}

static struct ibv_srq *create(struct av_context *ctx, struct ibv_pd *pd, const struct ibv_srq_init_attr *init)
{
	struct av_srq *srq = calloc(1, sizeof(*srq));
	struct av_rq_request req = {
		.capacity = init->attr.max_wr,
		.max_sge = init->attr.max_sge,
		.pd = av_pd_id(av_pd_find(pd)),
		.id = atomic_fetch_add(&ctx->cq_ids, 1) + 1,
	};

	if (!srq)
		return av_fail_null(ENOMEM);
	srq->index = av_rq_init(ctx->seg, &req);
	if (!srq->index || av_table_set(&ctx->srqs, srq->index, srq)) {
		if (srq->index)
			av_rq_fini(ctx->seg, srq->index);
		free(srq);
		return av_fail_null(ENOMEM);
	}
	srq->id = req.id;
	srq->shared = av_rq_at(ctx->seg, srq->index);
	srq->pd = av_pd_find(pd);
	atomic_fetch_add(&srq->pd->users, 1);
	init_public(srq, pd, init->srq_context);
	return &srq->ibv;
}

AV_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct av_context *ctx;
	int err;

	if (!av_ours(pd->context))
		return AV_NEXT(ibv_create_srq, "IBVERBS_1.1")(pd, init);
	ctx = av_context_of(pd->context);
	err = check_create(ctx, pd, init);
	return err ? av_fail_null(err) : create(ctx, pd, init);
}

AV_EXPORT int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	struct av_context *ctx;
	struct av_srq *srq;

	if (!av_ours(ibv->context))
		return AV_NEXT(ibv_modify_srq, "IBVERBS_1.1")(ibv, attr, mask);
	ctx = av_context_of(ibv->context);
	srq = av_srq_find(ctx, ibv);
	if (!srq)
		return av_fail_errno(ENOENT);
	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return av_fail_errno(EINVAL);
	if (mask & IBV_SRQ_MAX_WR) /* IBV_DEVICE_SRQ_RESIZE is not advertised */
		return av_fail_errno(EOPNOTSUPP);
	if ((mask & IBV_SRQ_LIMIT) && attr->srq_limit > srq->shared->capacity)
		return av_fail_errno(EINVAL);
	if (mask & IBV_SRQ_LIMIT)
		av_rq_set_limit(ctx->seg, srq->shared, attr->srq_limit);
	return 0;
}

AV_EXPORT int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	struct av_srq *srq;

	if (!av_ours(ibv->context))
		return AV_NEXT(ibv_query_srq, "IBVERBS_1.1")(ibv, attr);
	srq = av_srq_find(av_context_of(ibv->context), ibv);
	if (!srq)
		return av_fail_errno(ENOENT);
	attr->max_wr = srq->shared->capacity;
	attr->max_sge = srq->shared->max_sge;
	attr->srq_limit = atomic_load(&srq->shared->limit);
	return 0;
}

AV_EXPORT int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct av_context *ctx;
	struct av_srq *srq;

	if (!av_ours(ibv->context))
		return AV_NEXT(ibv_destroy_srq, "IBVERBS_1.1")(ibv);
	ctx = av_context_of(ibv->context);
	srq = av_srq_find(ctx, ibv);
	if (!srq)
		return av_fail_errno(ENOENT);
	if (srq->users)
		return av_fail_errno(EBUSY);
	av_unlist(ctx, &ctx->srqs, ibv->handle);
	if (!ctx->forked) {
		av_event_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed, &srq->async_delivered);
		av_rq_fini(ctx->seg, srq->index);
	}
	atomic_fetch_sub(&srq->pd->users, 1);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	pthread_mutex_destroy(&srq->users_mutex);
	free(srq);
	return 0;
}

/* Some requester waits for what was just posted: it may be the peer of any queue pair on this queue. */
static void wake_requesters(struct av_srq *srq)
{
	pthread_mutex_lock(&srq->users_mutex);
	for (struct av_qp *qp = srq->users; qp; qp = qp->next_on_srq)
		av_drive_peer(&qp->end);
	pthread_mutex_unlock(&srq->users_mutex);
}

int av_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_srq *srq = av_srq_find(ctx, ibv);
	int err;

	if (av_unlikely(!srq || ctx->forked)) {
		*bad_wr = wr;
		return av_fail_errno(EINVAL);
	}
	err = av_rq_post(ctx->seg, srq->shared, wr, bad_wr);
	if (av_unlikely(atomic_load_explicit(&srq->shared->waiting, memory_order_relaxed)) &&
	    atomic_exchange(&srq->shared->waiting, 0))
		wake_requesters(srq);
	return av_unlikely(err) ? av_fail_errno(err) : 0;
}
