/* SPDX-License-Identifier: MIT */
/* Regions with memory allocated by the library, and shared regions. */
#include "verbs/between.h"
#include "verbs/fail.h"

struct av_page_policy av_mr_pages(const struct av_context *ctx)
{
	static const struct av_page_object regions = {.name = "MR", .fallback = AV_ALLOC_ALL};

	return av_environment_pages(ctx, &regions);
}

static int check(struct ibv_pd *pd)
{
	return av_pd_find(pd) ? av_verb_err(av_context_of(pd->context), AV_FAIL_REG_MR) : ENOENT;
}

/* Create the region for allocated memory; frees the memory on failure. */
static struct ibv_mr *publish_allocated(struct ibv_pd *pd, struct av_allocated *memory,
					struct av_key *what)
{
	struct ibv_mr *ibv = av_mr_publish(pd, what, memory->map, NULL);
	struct av_mr *mr;

	if (!ibv) {
		av_allocated_end(memory, false);
		return av_fail_null(AV_VERB_EXP_REG_MR, ENOMEM);
	}
	mr = av_mr_find(ibv);
	mr->memory = *memory;
	mr->sort = AV_MR_ALLOCATED;
	mr->iova = (uintptr_t)memory->map;
	if (memory->shared)
		mr->handle = ibv->handle = av_shared_handle(memory->seg, ibv->lkey);
	return ibv;
}

struct ibv_mr *av_mr_allocate(struct ibv_pd *pd, struct av_allocate_request *req)
{
	struct av_context *ctx = av_context_of(pd->context);
	struct av_allocated memory;
	struct av_key what;
	int err = check(pd);

	if (err == 0 && req->length > ctx->dev->attr.max_mr_size)
		err = av_refuse(EINVAL, AV_CHECK_MR_LENGTH, req->length,
				ctx->dev->attr.max_mr_size);
	if (err)
		return av_fail_null(AV_VERB_EXP_REG_MR, err);
	req->policy = av_mr_pages(ctx);
	err = av_allocated_make(ctx->seg, req, &memory, &what);
	return err ? av_fail_null(AV_VERB_EXP_REG_MR, err) : publish_allocated(pd, &memory, &what);
}

struct ibv_mr *av_mr_attach(struct ibv_pd *pd, const struct av_attach_request *req)
{
	struct av_context *ctx = av_context_of(pd->context);
	struct av_allocated memory;
	struct av_key what;
	int err = check(pd);

	if (err == 0)
		err = av_allocated_attach(ctx->seg, req, &memory, &what);
	return err ? av_fail_null(AV_VERB_EXP_REG_SHARED_MR, err)
		   : publish_allocated(pd, &memory, &what);
}
