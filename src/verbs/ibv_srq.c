/* SPDX-License-Identifier: MIT */
#include "transport/transport.h"
#include "verbs/misuse.h"

/* Ignores srq_limit, where programs leave garbage: ibv_create_srq(3). */
static int check_srq_create(struct av_context *ctx, struct ibv_pd *pd,
			    const struct ibv_srq_attr *attr)
{
	const struct ibv_device_attr *dev = &ctx->dev->attr;

	if (attr->max_wr > (uint32_t)dev->max_srq_wr)
		return av_refuse(EINVAL, AV_CHECK_SRQ_SIZE, attr->max_wr,
				 (uint32_t)dev->max_srq_wr);
	if (attr->max_sge > (uint32_t)dev->max_srq_sge)
		return av_refuse(EINVAL, AV_CHECK_SRQ_SGE, attr->max_sge,
				 (uint32_t)dev->max_srq_sge);
	if (!av_pd_find(pd))
		return ENOENT;
	return av_verb_err(ctx, AV_VERB_CREATE_SRQ);
}

static uint32_t init_shared_srq(struct av_context *ctx, struct av_srq *srq,
				const struct ibv_srq_attr *attr)
{
	struct av_rq_request req = {
		.capacity = attr->max_wr ? attr->max_wr : 1,
		.max_sge = attr->max_sge,
		.pd = av_pd_id(srq->pd),
		.id = srq->id,
		.xrcd = srq->xrcd ? srq->xrcd->number : 0,
		.cq = srq->cq ? srq->cq->ibv.handle : 0,
	};
	uint32_t index = av_rq_init(ctx->seg, &req);
	int number;

	if (!index || !srq->xrcd)
		return index;
	number = av_dir_qpn_add(ctx->seg->ref, index, (uint32_t)ctx->dev->attr.max_qp);
	if (number > 0) {
		av_rq_at(ctx->seg, index)->srqn = (uint32_t)number;
		return index;
	}
	av_rq_fini(ctx->seg, index);
	return 0;
}

static void end_shared_srq(struct av_context *ctx, uint32_t index)
{
	av_xrc_retire(ctx->seg, av_rq_at(ctx->seg, index));
	av_srq_purge(ctx->seg, index);
	av_rq_fini(ctx->seg, index);
}

/* As count_qp_refs(). */
static void count_srq_refs(struct av_srq *srq, int by)
{
	av_pd_count(srq->pd, AV_PD_SRQ, by);
	if (srq->xrcd)
		atomic_fetch_add(&srq->xrcd->users, (uint32_t)by);
	if (srq->cq)
		atomic_fetch_add(&srq->cq->users, (uint32_t)by);
}

/* @xrcd, @cq: of an XRC queue, which has a number; or NULL. @attr: in; out: the size, at least 1 */
static struct ibv_srq *create_srq(struct av_context *ctx, struct ibv_pd *pd, struct av_xrcd *xrcd,
				  struct av_cq *cq, void *srq_context, struct ibv_srq_attr *attr)
{
	struct av_srq *srq = av_object_new(AV_VERB_CREATE_SRQ, 0, sizeof(*srq));
	bool room;

	if (!srq)
		return NULL;
	room = atomic_fetch_add(&ctx->srq_count, 1) < (uint32_t)ctx->dev->attr.max_srq;
	srq->id = atomic_fetch_add(&ctx->cq_ids, 1) + 1;
	srq->pd = av_pd_find(pd);
	srq->xrcd = xrcd;
	srq->cq = cq;
	srq->index = room ? init_shared_srq(ctx, srq, attr) : 0;
	if (!srq->index || av_table_set(&ctx->srqs, srq->index, srq)) {
		if (srq->index)
			end_shared_srq(ctx, srq->index);
		atomic_fetch_sub(&ctx->srq_count, 1);
		return av_object_fail(AV_VERB_CREATE_SRQ, srq, ENOMEM);
	}
	srq->shared = av_rq_at(ctx->seg, srq->index);
	count_srq_refs(srq, 1);
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = srq_context;
	srq->ibv.pd = pd;
	srq->ibv.handle = srq->index;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	pthread_mutex_init(&srq->users_mutex, NULL);
	attr->max_wr = srq->shared->capacity;
	return &srq->ibv;
}

AV_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	AV_OURS_OR_NEXT(av_fail_null, CREATE_SRQ, ibv_create_srq, "IBVERBS_1.1", pd, init);
	struct av_context *ctx = av_context_of(pd->context);
	int err = check_srq_create(ctx, pd, &init->attr);

	return err ? av_fail_null(AV_VERB_CREATE_SRQ, err)
		   : AV_MADE_HERE(struct av_srq,
				  create_srq(ctx, pd, NULL, NULL, init->srq_context, &init->attr));
}

/* @mask: the bits that the type needs. Ignores the fields of other bits, as mlx5 does. */
static struct ibv_srq *create_by_type(struct av_context *ctx, struct ibv_srq_init_attr_ex *init,
				      uint32_t mask, bool xrc)
{
	const struct ibv_context *context = &ctx->verbs.context;
	bool masked = (init->comp_mask & mask) == mask;
	struct av_xrcd *xrcd = masked && xrc ? av_xrcd_find(ctx, init->xrcd) : NULL;
	struct av_cq *cq = masked && xrc ? av_cq_in(context, init->cq) : NULL;
	int err;

	if (!masked)
		err = av_refuse(EINVAL, AV_CHECK_COMP_MASK_LACKS, init->comp_mask, mask);
	else if (!init->pd || init->pd->context != context || (xrc && !(xrcd && cq)))
		err = av_refuse(EINVAL, AV_CHECK_SRQ_OBJECTS, 0, 0);
	else
		err = check_srq_create(ctx, init->pd, &init->attr);
	return err ? av_fail_null(AV_VERB_CREATE_SRQ_EX, err)
		   : create_srq(ctx, init->pd, xrcd, cq, init->srq_context, &init->attr);
}

struct ibv_srq *av_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init)
{
	AV_BEGIN(av_fail_null, CREATE_SRQ_EX, context);
	const uint32_t basic = IBV_SRQ_INIT_ATTR_PD;
	const uint32_t xrc =
		basic | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	enum ibv_srq_type type =
		init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? init->srq_type : IBV_SRQT_BASIC;
	const bool is_xrc = type == IBV_SRQT_XRC;

	if (init->comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED)
		return av_fail_null(AV_VERB_CREATE_SRQ_EX, av_refuse(EOPNOTSUPP, AV_CHECK_COMP_MASK,
								     init->comp_mask, xrc));
	if (type != IBV_SRQT_BASIC && !is_xrc)
		return av_fail_null(AV_VERB_CREATE_SRQ_EX,
				    av_refuse(type == IBV_SRQT_TM ? EOPNOTSUPP : EINVAL,
					      AV_CHECK_SRQ_TYPE, (uint64_t)(int)type, 0));
	return AV_MADE_HERE(struct av_srq, create_by_type(av_context_of(context), init,
							  is_xrc ? xrc : basic, is_xrc));
}

static int get_srq_num(struct ibv_srq *ibv, uint32_t *number)
{
	AV_FAIL_ON_DEMAND(av_fail_errno, GET_SRQ_NUM, ibv->context, 0, 0);
	struct av_srq *srq = av_srq_find(ibv);

	if (!srq)
		return av_fail_errno(AV_VERB_GET_SRQ_NUM, ENOENT);
	if (!srq->xrcd)
		return av_fail_errno(AV_VERB_GET_SRQ_NUM,
				     av_refuse(EINVAL, AV_CHECK_SRQ_NO_NUMBER, 0, 0));
	*number = srq->shared->srqn;
	return 0;
}

/* Sets the size first, because the limit depends on it. */
static int modify_srq(struct av_context *ctx, struct av_srq *srq, const struct ibv_srq_attr *attr,
		      int mask)
{
	const uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->shared->capacity;
	int err = 0;

	if (max_wr == 0 || max_wr > (uint32_t)ctx->dev->attr.max_srq_wr)
		return av_refuse(EINVAL, AV_CHECK_SRQ_SIZE, max_wr,
				 (uint32_t)ctx->dev->attr.max_srq_wr);
	if ((mask & IBV_SRQ_LIMIT) && attr->srq_limit > max_wr)
		return av_refuse(EINVAL, AV_CHECK_SRQ_LIMIT, attr->srq_limit, max_wr);
	if (mask & IBV_SRQ_MAX_WR)
		err = av_rq_resize(ctx->seg, srq->shared, max_wr);
	if (err == 0 && (mask & IBV_SRQ_LIMIT))
		av_srq_limit_set(ctx->seg, srq->shared, attr->srq_limit);
	return err;
}

AV_EXPORT int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	AV_OURS_OR_NEXT(av_fail_errno, MODIFY_SRQ, ibv_modify_srq, "IBVERBS_1.1", ibv, attr, mask);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_srq *srq = av_srq_find(ibv);
	int err = srq ? av_verb_err(ctx, AV_VERB_MODIFY_SRQ) : ENOENT;

	if (err == 0 && (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)))
		err = av_refuse(EINVAL, AV_CHECK_SRQ_MASK, (uint32_t)mask,
				IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
	if (err)
		return av_fail_errno(AV_VERB_MODIFY_SRQ, err);
	pthread_mutex_lock(&srq->users_mutex); /* one change at a time */
	err = modify_srq(ctx, srq, attr, mask);
	pthread_mutex_unlock(&srq->users_mutex);
	return err ? av_fail_errno(AV_VERB_MODIFY_SRQ, err) : 0;
}

AV_EXPORT int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	AV_OURS_OR_NEXT(av_fail_errno, QUERY_SRQ, ibv_query_srq, "IBVERBS_1.1", ibv, attr);
	AV_FAIL_ON_DEMAND(av_fail_errno, QUERY_SRQ, ibv->context, 0, 0);
	struct av_srq *srq = av_srq_find(ibv);

	if (!srq)
		return av_fail_errno(AV_VERB_QUERY_SRQ, ENOENT);
	if (av_device_failed(av_context_of(ibv->context)))
		return av_fail_errno(AV_VERB_QUERY_SRQ, EIO);
	pthread_mutex_lock(&srq->users_mutex);
	attr->max_wr = srq->shared->capacity;
	pthread_mutex_unlock(&srq->users_mutex);
	attr->max_sge = srq->shared->max_sge;
	attr->srq_limit = av_srq_limit(srq->shared);
	return 0;
}

AV_EXPORT int ibv_destroy_srq(struct ibv_srq *ibv)
{
	AV_OURS_OR_NEXT(av_fail_errno, DESTROY_SRQ, ibv_destroy_srq, "IBVERBS_1.1", ibv);
	AV_FAIL_ON_DEMAND(av_fail_errno, DESTROY_SRQ, ibv->context, 0, 0);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_srq *srq = av_srq_find(ibv);

	if (!srq)
		return av_fail_errno(AV_VERB_DESTROY_SRQ, ENOENT);
	if (atomic_load(&srq->user_count)) {
		(void)av_refuse(EBUSY, AV_CHECK_SRQ_BUSY, 0, 0);
		return av_misuse_busy(AV_VERB_DESTROY_SRQ,
				      AV_MISUSE_OF("SRQ", srq, srq->ibv.handle));
	}
	av_unlist(ctx, &ctx->srqs, ibv->handle);
	if (!ctx->forked) {
		av_event_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed,
			      &srq->async_delivered, AV_MISUSE_OF("SRQ", srq, srq->ibv.handle));
		end_shared_srq(ctx, srq->index);
	}
	count_srq_refs(srq, -1);
	atomic_fetch_sub(&ctx->srq_count, 1);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	pthread_mutex_destroy(&srq->users_mutex);
	free(srq);
	return 0;
}

#define WAKE_MAX 64

/* Queue pairs whose requesters wait. Their shared halves stay mapped. */
struct wake {
	const struct av_srq *srq;
	unsigned int count;
	unsigned int held; /* the first of them, with uses of their segments */
	struct av_qp_ref end[WAKE_MAX];
};

static void collect_xrc(uint32_t id, void *object, void *arg)
{
	const struct av_qp *qp = object;
	struct wake *w = arg;
	struct av_seg *seg;

	if (!qp->xrcd || qp->xrcd->number != w->srq->xrcd->number || w->count == WAKE_MAX)
		return;
	seg = av_seg_get(qp->end.seg->ref); /* NULL: of another process, which has ended */
	if (seg == qp->end.seg)
		w->end[w->count++] = qp->end;
	else
		av_seg_put(seg);
}

/*
 * Wakes the requesters that wait for a receive: the peers of queue pairs on the SRQ, or of our
 * XRC_RECV ones of its domain. Others, and those beyond WAKE_MAX, find it by their timers.
 */
static void wake_requesters(struct av_context *ctx, struct av_srq *srq)
{
	struct wake w = {.srq = srq};
	const struct av_qp *qp;

	if (srq->xrcd) {
		/* Nobody destroys a queue pair meanwhile: av_unlist(). */
		AV_LOCKED(&ctx->verbs.context.mutex);
		av_table_each(&ctx->qps, collect_xrc, &w);
		w.held = w.count;
	}
	pthread_mutex_lock(&srq->users_mutex);
	LIST_FOREACH(qp, &srq->users, on_srq)
		if (w.count < WAKE_MAX)
			w.end[w.count++] = qp->end;
	pthread_mutex_unlock(&srq->users_mutex);
	for (unsigned int i = 0; i < w.count; i++) {
		av_sq_progress_peer(&w.end[i]);
		if (i < w.held)
			av_seg_put(w.end[i].seg);
	}
}

static int post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_srq *srq = av_srq_find(ibv);
	int err;

	if (av_unlikely(!srq || av_is_unusual(ctx))) {
		err = srq ? av_post_injected(ctx, AV_VERB_POST_SRQ_RECV, 0)
			  : av_refuse(EINVAL, AV_CHECK_POST_OBJECT, 0, 0);
		if (err) {
			*bad_wr = wr;
			return av_fail_errno(AV_VERB_POST_SRQ_RECV, err);
		}
	}
	err = av_rq_post(ctx->seg, srq->shared, NULL, wr, bad_wr);
	if (av_unlikely(atomic_load_explicit(&srq->shared->waiting, memory_order_relaxed)) &&
	    atomic_exchange(&srq->shared->waiting, 0))
		wake_requesters(ctx, srq);
	return av_unlikely(err) ? av_fail_errno(AV_VERB_POST_SRQ_RECV, err) : 0;
}

void av_srq_fill_ops(struct verbs_context *verbs)
{
	verbs->create_srq_ex = av_create_srq_ex;
	verbs->get_srq_num = get_srq_num;
	verbs->context.ops.post_srq_recv = post_srq_recv;
}
