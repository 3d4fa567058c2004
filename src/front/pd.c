/* SPDX-License-Identifier: MIT */
/* Protection domains. */
#include <stdlib.h>

#include "front/context.h"

AV_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct av_context *ctx;
	struct av_pd *pd;

	if (!av_ours(context))
		return AV_NEXT(ibv_alloc_pd, "IBVERBS_1.1")(context);
	ctx = av_context_of(context);
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return av_fail_null(ENOMEM);
	pd->ibv.context = context;
	pd->ibv.handle = av_handles_add(&ctx->pds, pd, (uint32_t)ctx->dev->attr.max_pd);
	if (!pd->ibv.handle) {
		free(pd);
		return NULL;
	}
	return &pd->ibv;
}

AV_EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct av_pd *pd;

	if (!av_ours(ibv->context))
		return AV_NEXT(ibv_dealloc_pd, "IBVERBS_1.1")(ibv);
	pd = av_pd_find(ibv);
	if (!pd)
		return av_fail_errno(ENOENT);
	if (atomic_load(&pd->users))
		return av_fail_errno(EBUSY);
	av_handles_remove(&av_context_of(ibv->context)->pds, ibv->handle);
	free(pd);
	return 0;
}
