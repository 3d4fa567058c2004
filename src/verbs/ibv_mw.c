/* SPDX-License-Identifier: MIT */
/* Memory windows. */
#include <stdlib.h>

#include "base/uncancelled.h"
#include "memory/key.h"
#include "memory/window.h"
#include "transport/drive.h"
#include "verbs/between.h"
#include "verbs/fail.h"
#include "verbs/ops.h"
#include "verbs/post.h"

struct av_mw {
	struct ibv_mw ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	struct av_pd *pd;
};

AV_FIND(mw, mws)

struct ibv_mw *av_alloc_mw(struct ibv_pd *ibv_pd, enum ibv_mw_type type)
{
	AV_UNCANCELLED;
	struct av_context *ctx = av_context_of(ibv_pd->context);
	struct av_pd *pd = av_pd_find(ibv_pd);
	struct av_mw *mw;
	int err = av_verb_err(ctx, AV_FAIL_ALLOC_MW);

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		err = av_refuse(EINVAL, AV_CHECK_MW_TYPE, (uint64_t)(int)type, 0);
	else if (!pd)
		err = ENOENT;
	mw = av_object_new(AV_VERB_ALLOC_MW, err, sizeof(*mw));
	if (!mw)
		return NULL;
	mw->pd = pd;
	mw->ibv.context = ibv_pd->context;
	mw->ibv.pd = ibv_pd;
	mw->ibv.type = type;
	mw->ibv.rkey =
		av_window_create(ctx->seg, type, av_pd_id(pd), (uint32_t)ctx->dev->attr.max_mr);
	mw->ibv.handle = AV_KEY_INDEX(mw->ibv.rkey);
	if (!mw->ibv.rkey || av_table_set(&ctx->mws, mw->ibv.handle, mw)) {
		if (mw->ibv.rkey)
			(void)!av_window_destroy(ctx->seg, mw->ibv.rkey);
		free(mw);
		return av_fail_null(AV_VERB_ALLOC_MW, ENOMEM);
	}
	av_pd_get(pd, AV_PD_MW);
	atomic_fetch_add(&ctx->mw_count, 1);
	return &mw->ibv;
}

int av_dealloc_mw(struct ibv_mw *ibv)
{
	AV_UNCANCELLED;
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_mw *mw = av_mw_find(ibv);

	if (!mw)
		return av_fail_errno(AV_VERB_DEALLOC_MW, ENOENT);
	/* First the handle: another thread may get the key's index once it is free. */
	av_table_clear(&ctx->mws, ibv->handle);
	if (!ctx->forked && av_window_destroy(ctx->seg, ibv->handle << 8)) {
		(void)!av_table_set(&ctx->mws, ibv->handle, mw);
		return av_fail_errno(AV_VERB_DEALLOC_MW, EBUSY);
	}
	atomic_fetch_sub(&ctx->mw_count, 1);
	av_pd_put(mw->pd, AV_PD_MW);
	free(mw);
	return 0;
}

static bool may_bind(const struct ibv_mr *ibv)
{
	const struct av_mr *mr = av_mr_find(ibv);
	enum av_mr_sort sort;

	if (!mr)
		return true; /* an invalid region fails when the bind executes */
	sort = __atomic_load_n(&mr->sort, __ATOMIC_RELAXED); /* it may be re-registered meanwhile */
	return sort == AV_MR_PLAIN || sort == AV_MR_ALLOCATED;
}

/* Type 1: the bind is a work request, and posting it determines the window's new key. */
int av_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = {.mw = mw, .rkey = rkey, .bind_info = bind->bind_info},
	};
	struct ibv_send_wr *bad;

	if (!av_mw_find(mw))
		return av_fail_errno(AV_VERB_BIND_MW,
				     av_refuse(EINVAL, AV_CHECK_BIND_WINDOW, 0, 0));
	if (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return av_fail_errno(AV_VERB_BIND_MW, av_refuse(EINVAL, AV_CHECK_MW_ZERO_BASED,
								IBV_ACCESS_ZERO_BASED, 0));
	if (bind->bind_info.mr && !may_bind(bind->bind_info.mr))
		return av_fail_errno(AV_VERB_BIND_MW, av_refuse(ENOTSUP, AV_CHECK_MW_REGION, 0, 0));
	return av_post_send(qp, &wr, &bad);
}

/* A queue pair that ends. */
struct end {
	struct av_seg *seg;
	uint32_t number;
};

static void unbind_from(uint32_t id, void *object, void *arg)
{
	const struct end *qp = arg;

	av_window_queue_pair_ends(qp->seg, id << 8, qp->number);
}

void av_mw_queue_pair_ends(struct av_context *ctx, uint32_t qpn)
{
	struct end end = {ctx->seg, qpn};

	if (atomic_load(&ctx->mw_count))
		av_table_each(&ctx->mws, unbind_from, &end);
}
