/* SPDX-License-Identifier: MIT */
/* Completion queues. */
#include <stdlib.h>

#include "base/uncancelled.h"
#include "transport/poll.h"
#include "transport/rnr.h"
#include "transport/timer.h"
#include "verbs/between.h"
#include "verbs/misuse.h"
#include "verbs/next.h"
#include "verbs/ops.h"

static const struct av_page_object cq_pages = {
	.name = "CQ", .huge_variable = "HUGE_CQ", .fallback = AV_ALLOC_PREFER_CONTIG};

static int check_size(const struct av_context *ctx, int cqe)
{
	if (cqe >= 1 && cqe <= ctx->dev->attr.max_cqe)
		return 0;
	return av_refuse(EINVAL, AV_CHECK_CQ_SIZE, (uint64_t)cqe, (uint64_t)ctx->dev->attr.max_cqe);
}

static int check_create(const struct av_context *ctx, int cqe,
			const struct ibv_comp_channel *channel, int vector)
{
	const int vectors = ctx->verbs.context.num_comp_vectors;
	int err = check_size(ctx, cqe);

	if (err)
		return err;
	if (vector < 0 || vector >= vectors)
		return av_refuse(EINVAL, AV_CHECK_CQ_VECTOR, (uint64_t)vector, (uint64_t)vectors);
	if (channel && channel->context != &ctx->verbs.context)
		return av_refuse(EINVAL, AV_CHECK_CQ_CHANNEL, 0, 0);
	return av_verb_err(ctx, AV_FAIL_CREATE_CQ);
}

static void init_public(struct ibv_cq *ibv, struct av_context *ctx, uint32_t index, int cqe)
{
	ibv->context = &ctx->verbs.context;
	ibv->handle = index;
	ibv->cqe = cqe;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
	pthread_mutex_init(&av_container_of(ibv, struct av_cq, ibv)->batch, NULL);
}

static void hold_channel(struct ibv_comp_channel *channel, int by)
{
	if (!channel)
		return;
	pthread_mutex_lock(&channel->context->mutex);
	channel->refcnt += by;
	pthread_mutex_unlock(&channel->context->mutex);
}

struct ibv_cq *av_cq_create(struct av_context *ctx, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector)
{
	int err = check_create(ctx, cqe, channel, comp_vector);
	struct av_page_policy policy;
	struct av_cq *cq;
	uint32_t index;

	cq = av_object_new(AV_VERB_CREATE_CQ, err, sizeof(*cq));
	if (!cq)
		return NULL;
	policy = av_environment_pages(ctx, &cq_pages);
	cq->id = atomic_fetch_add(&ctx->cq_ids, 1) + 1;
	index = av_cq_init(ctx->seg, (uint32_t)cqe,
			   channel ? av_container_of(channel, struct av_channel, ibv)->doorbell : 0,
			   cq->id, (uint32_t)ctx->dev->attr.max_cq, &policy);
	if (!index || av_table_set(&ctx->cqs, index, cq)) {
		if (index)
			av_cq_fini(ctx->seg, index);
		free(cq);
		return av_fail_null(AV_VERB_CREATE_CQ, ENOMEM);
	}
	cq->shared = av_cq_at(ctx->seg, index);
	init_public(&cq->ibv, ctx, index, cqe);
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	hold_channel(channel, 1);
	return &cq->ibv;
}

AV_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				       struct ibv_comp_channel *channel, int comp_vector)
{
	AV_UNCANCELLED;

	if (!av_ours(context))
		return AV_NEXT(ibv_create_cq, "IBVERBS_1.1")(context, cqe, cq_context, channel,
							     comp_vector);
	return AV_MADE_HERE(struct av_cq, av_cq_create(av_context_of(context), cqe, cq_context,
						       channel, comp_vector));
}

static void await_events(const struct av_context *ctx, struct av_cq *cq)
{
	const struct av_misuse_object what = {ctx, "CQ", cq->ibv.handle, cq->made_at};
	struct ibv_cq *ibv = &cq->ibv;

	av_event_wait(&ibv->mutex, &ibv->cond, &ibv->comp_events_completed, &cq->comp_delivered,
		      &what);
	av_event_wait(&ibv->mutex, &ibv->cond, &ibv->async_events_completed, &cq->async_delivered,
		      &what);
}

AV_EXPORT int ibv_destroy_cq(struct ibv_cq *ibv)
{
	AV_UNCANCELLED;
	struct av_context *ctx;
	struct av_cq *cq;

	AV_OURS_OR_NEXT(av_fail_errno, DESTROY_CQ, ibv_destroy_cq, "IBVERBS_1.1", ibv);
	ctx = av_context_of(ibv->context);
	cq = av_cq_find(ibv);
	if (!cq)
		return av_fail_errno(AV_VERB_DESTROY_CQ, ENOENT);
	if (atomic_load(&cq->users) || atomic_load(&cq->waiting)) {
		if (atomic_load(&cq->users))
			(void)av_refuse(EBUSY, AV_CHECK_CQ_BUSY, atomic_load(&cq->users), 0);
		return av_misuse_busy(AV_VERB_DESTROY_CQ, ctx, "CQ", ibv->handle, cq->made_at);
	}
	if (av_misuse_on())
		av_misuse_cq_ends(cq);
	av_unlist(ctx, &ctx->cqs, ibv->handle);
	if (!ctx->forked) {
		if (ibv->channel)
			av_channel_forget(av_container_of(ibv->channel, struct av_channel, ibv),
					  ibv->handle, cq->id);
		await_events(ctx, cq);
		av_timer_forget_cq(ctx->seg, ibv->handle);
		av_cq_fini(ctx->seg, ibv->handle);
	}
	hold_channel(ibv->channel, -1);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	pthread_mutex_destroy(&cq->batch);
	free(cq);
	return 0;
}

int av_modify_cq(struct ibv_cq *ibv, struct ibv_modify_cq_attr *attr)
{
	AV_UNCANCELLED;
	struct av_context *ctx = av_context_of(ibv->context);
	bool moderate = attr->attr_mask & IBV_CQ_ATTR_MODERATE;
	int err = av_cq_find(ibv) ? av_context_err(ctx) : ENOENT;

	if (err == 0 && attr->attr_mask >= IBV_CQ_ATTR_RESERVED)
		err = av_refuse(EINVAL, AV_CHECK_CQ_MODIFY, attr->attr_mask, IBV_CQ_ATTR_MODERATE);
	if (err == 0 && moderate && attr->moderate.cq_period)
		err = av_timer_watch_cq(ctx->seg, ibv->handle);
	if (err)
		return av_fail_errno(AV_VERB_MODIFY_CQ, err);
	if (moderate)
		av_cq_moderate(ctx->seg, ibv->handle, attr->moderate.cq_count,
			       attr->moderate.cq_period);
	return 0;
}

/* Two threads may resize it: its owner finds the size that is in force. */
static void store_size(struct av_cq *cq)
{
	int cqe;

	do {
		cqe = (int)atomic_load(&cq->shared->capacity);
		__atomic_store_n(&cq->ibv.cqe, cqe, __ATOMIC_SEQ_CST);
	} while (cqe != (int)atomic_load(&cq->shared->capacity));
}

AV_EXPORT int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	AV_UNCANCELLED;
	struct av_page_policy policy;
	struct av_context *ctx;
	int err;

	AV_OURS_OR_NEXT(av_fail_errno, RESIZE_CQ, ibv_resize_cq, "IBVERBS_1.1", ibv, cqe);
	ctx = av_context_of(ibv->context);
	err = av_cq_find(ibv) ? av_verb_err(ctx, AV_FAIL_RESIZE_CQ) : ENOENT;
	if (err == 0)
		err = check_size(ctx, cqe);
	if (err == 0) {
		policy = av_environment_pages(ctx, &cq_pages);
		err = av_cq_resize_patiently(ctx->seg, ibv->handle, (uint32_t)cqe, &policy);
	}
	if (err)
		return av_fail_errno(AV_VERB_RESIZE_CQ, err);
	store_size(av_container_of(ibv, struct av_cq, ibv));
	return 0;
}

int av_poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
	struct av_cq *cq = av_cq_find(ibv);

	if (av_unlikely(!cq || av_context_of(ibv->context)->forked))
		return -av_fail_errno(AV_VERB_POLL_CQ,
				      av_refuse(EINVAL, AV_CHECK_POST_OBJECT, 0, 0));
	return av_poll(av_context_of(ibv->context)->seg, cq->shared, count, wc, NULL);
}

int av_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_cq *cq = av_cq_find(ibv);

	if (!cq || ctx->forked)
		return av_fail_errno(AV_VERB_REQ_NOTIFY_CQ, cq ? EPERM : ENOENT);
	av_cq_arm(ctx->seg, ibv->handle, solicited_only ? AV_CQ_ARMED_SOLICITED : AV_CQ_ARMED_ANY);
	av_rnr_armed(ctx->seg, cq->shared);
	return 0;
}
