/* SPDX-License-Identifier: MIT */
/* Memory regions. */
#include <stdlib.h>

#include "front/context.h"
#include "memory/key.h"
#include "memory/region.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static struct ibv_mr *publish(struct av_context *ctx, struct av_mr *mr, const struct av_region_request *req)
{
	uint32_t key = av_region_create(ctx->seg, req);
	struct ibv_mr *ibv = &mr->ibv;

	if (!key)
		return NULL;
	ibv->context = &ctx->verbs.context;
	ibv->pd = &mr->pd->ibv;
	ibv->addr = (void *)(uintptr_t)req->addr;
	ibv->length = req->length;
	ibv->handle = AV_KEY_INDEX(key);
	ibv->lkey = ibv->rkey = key;
	if (av_table_set(&ctx->mrs, ibv->handle, mr)) {
		av_key_destroy(ctx->seg, key);
		return av_fail_null(ENOMEM);
	}
	return ibv;
}

static struct ibv_mr *reg_mr(struct ibv_pd *ibv_pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct av_context *ctx = av_context_of(ibv_pd->context);
	struct av_pd *pd = av_pd_find(ibv_pd);
	struct av_region_request req = {
		.addr = (uintptr_t)addr,
		.length = length,
		.iova = iova,
		.access = access,
		.pd = ibv_pd->handle,
		.limit = (uint32_t)ctx->dev->attr.max_mr,
	};
	struct av_mr *mr;

	if (!pd)
		return av_fail_null(ENOENT);
	if (length > ctx->dev->attr.max_mr_size)
		return av_fail_null(EINVAL);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return av_fail_null(ENOMEM);
	mr->pd = pd;
	atomic_fetch_add(&pd->users, 1);
	if (!publish(ctx, mr, &req)) {
		atomic_fetch_sub(&pd->users, 1);
		free(mr);
		return NULL;
	}
	return &mr->ibv;
}

AV_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (!av_ours(pd->context))
		return AV_NEXT(ibv_reg_mr, "IBVERBS_1.1")(pd, addr, length, access);
	return reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

AV_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	if (!av_ours(pd->context))
		return AV_NEXT(ibv_reg_mr_iova, "IBVERBS_1.7")(pd, addr, length, iova, access);
	return reg_mr(pd, addr, length, iova, (unsigned int)access);
}

AV_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
					  unsigned int access)
{
	if (!av_ours(pd->context))
		return AV_NEXT(ibv_reg_mr_iova2, "IBVERBS_1.8")(pd, addr, length, iova, access);
	return reg_mr(pd, addr, length, iova, access);
}

AV_EXPORT int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct av_context *ctx;
	struct av_mr *mr;

	if (!av_ours(ibv->context))
		return AV_NEXT(ibv_dereg_mr, "IBVERBS_1.1")(ibv);
	ctx = av_context_of(ibv->context);
	mr = av_mr_find(ibv);
	if (!mr)
		return av_fail_errno(ENOENT);
	av_table_clear(&ctx->mrs, ibv->handle);
	if (!ctx->forked)
		av_key_destroy(ctx->seg, ibv->lkey);
	atomic_fetch_sub(&mr->pd->users, 1);
	free(mr);
	return 0;
}
