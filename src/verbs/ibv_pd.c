/* SPDX-License-Identifier: MIT */
/*
 * Protection domains, and thread and parent domains around them. A parent protects exactly like
 * what it contains. Its allocators are never called: rings must be where peers reach them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/newer_verbs.h"
#include "base/uncancelled.h"
#include "verbs/between.h"
#include "verbs/misuse.h"
#include "verbs/next.h"
#include "verbs/ops.h"

#define AV_PD_FORGOTTEN 0x80000000u /* added to the users of a domain */

/* Set or clear the bit that shows importing contexts whether the domain exists. */
static void announce(struct av_context *ctx, uint32_t handle, bool exists)
{
	uint64_t bit = 1ull << (handle % 64);

	if (handle > AV_MAX_PD || ctx->forked)
		return;
	if (exists)
		atomic_fetch_or(&ctx->seg->head->pds[handle / 64], bit);
	else
		atomic_fetch_and(&ctx->seg->head->pds[handle / 64], ~bit);
}

struct ibv_pd *av_pd_import(struct av_context *ctx, uint32_t handle)
{
	struct av_seg *origin = ctx->seg->head->origin ? av_seg_origin(ctx->seg) : NULL;
	struct av_pd *pd;
	int err;

	if (!origin || handle == 0 || handle > AV_MAX_PD ||
	    !(atomic_load(&origin->head->pds[handle / 64]) & 1ull << (handle % 64)))
		return av_fail_null(AV_VERB_IMPORT_PD, ENOENT);
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return av_fail_null(AV_VERB_IMPORT_PD, ENOMEM);
	pd->imported = true;
	pd->ibv.context = &ctx->verbs.context;
	pd->ibv.handle = handle;
	err = av_table_add(&ctx->pds.table, handle, pd);
	if (err == 0)
		return &pd->ibv;
	free(pd);
	return av_fail_null(AV_VERB_IMPORT_PD, err);
}

static void drop(struct av_pd *pd)
{
	if (atomic_fetch_sub(&pd->users, 1) == AV_PD_FORGOTTEN + 1)
		free(pd);
}

void av_pd_forget(struct av_pd *pd)
{
	av_table_clear(&av_context_of(pd->ibv.context)->pds.table, pd->ibv.handle);
	atomic_fetch_add(&pd->users, AV_PD_FORGOTTEN + 1);
	drop(pd);
}

void av_pd_put(struct av_pd *pd, enum av_pd_user kind)
{
	atomic_fetch_sub(&pd->user[kind], 1);
	drop(pd);
}

static struct ibv_pd *create_pd(struct av_context *ctx, struct av_pd *contains, struct av_td *td)
{
	/* A forked child may create domains, though it can put nothing into them. */
	int err = ctx->forked ? 0 : av_verb_err(ctx, AV_FAIL_ALLOC_PD);
	struct av_pd *pd;

	pd = av_object_new(AV_VERB_ALLOC_PD, err, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->ibv.context = &ctx->verbs.context;
	pd->contains = contains;
	pd->td = td;
	pd->ibv.handle = av_handles_add(&ctx->pds, pd, (uint32_t)ctx->dev->attr.max_pd);
	if (!pd->ibv.handle) {
		free(pd);
		return NULL;
	}
	if (!contains)
		announce(ctx, pd->ibv.handle, true);
	if (contains)
		av_pd_get(contains, AV_PD_PARENT);
	if (td)
		atomic_fetch_add(&td->users, 1);
	return &pd->ibv;
}

AV_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	AV_UNCANCELLED;

	if (!av_ours(context))
		return AV_NEXT(ibv_alloc_pd, "IBVERBS_1.1")(context);
	return AV_MADE_HERE(struct av_pd, create_pd(av_context_of(context), NULL, NULL));
}

/* Note what is left on a domain: "2 MRs, 1 QP". */
static void note_users(const struct av_pd *pd)
{
	static const char *const names[AV_PD_USERS] = {
		[AV_PD_MR] = "MR",   [AV_PD_MW] = "MW", [AV_PD_QP] = "QP",
		[AV_PD_SRQ] = "SRQ", [AV_PD_AH] = "AH", [AV_PD_PARENT] = "parent domain"};
	const struct av_seg *origin =
		pd->imported ? av_seg_origin(av_context_of(pd->ibv.context)->seg) : NULL;
	char text[128] = "";
	size_t len = 0;

	for (int i = 0; i < AV_PD_USERS; i++) {
		uint32_t count = atomic_load(&pd->user[i]);

		if (count)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u %s%s",
						len ? ", " : "", count, names[i],
						count > 1 ? "s" : "");
	}
	(void)av_refuse(EBUSY, pd->imported ? AV_CHECK_PD_BUSY_IMPORTED : AV_CHECK_PD_BUSY,
			atomic_load(&pd->users) & ~AV_PD_FORGOTTEN,
			origin ? (uint64_t)origin->head->pid : 0);
	av_diag_detail("%s", text);
}

AV_EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	AV_UNCANCELLED;
	struct av_pd *pd;

	AV_OURS_OR_NEXT(av_fail_errno, DEALLOC_PD, ibv_dealloc_pd, "IBVERBS_1.1", ibv);
	pd = av_pd_find(ibv);
	if (!pd)
		return av_fail_errno(AV_VERB_DEALLOC_PD, ENOENT);
	if (atomic_load(&pd->users)) {
		note_users(pd);
		return av_misuse_busy(AV_VERB_DEALLOC_PD, av_context_of(ibv->context), "PD",
				      ibv->handle, pd->made_at);
	}
	if (pd->imported) {
		av_pd_forget(pd);
		return 0;
	}
	if (!pd->contains)
		announce(av_context_of(ibv->context), ibv->handle, false);
	av_handles_remove(&av_context_of(ibv->context)->pds, ibv->handle);
	if (pd->contains)
		av_pd_put(pd->contains, AV_PD_PARENT);
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	free(pd);
	return 0;
}

struct av_td *av_td_find(struct ibv_td *ibv)
{
	struct av_td *td = av_container_of(ibv, struct av_td, ibv);

	return av_table_get(&av_context_of(ibv->context)->tds.table, td->handle) == td ? td : NULL;
}

struct ibv_td *av_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	AV_UNCANCELLED;
	struct av_context *ctx = av_context_of(context);
	struct av_td *td;
	int err;

	if (attr->comp_mask)
		err = av_refuse(EINVAL, AV_CHECK_COMP_MASK, attr->comp_mask, 0);
	else
		err = ctx->forked ? 0 : av_verb_err(ctx, AV_FAIL_ALLOC_TD);
	td = av_object_new(AV_VERB_ALLOC_TD, err, sizeof(*td));
	if (!td)
		return NULL;
	td->ibv.context = context;
	td->handle = av_handles_add(&ctx->tds, td, (uint32_t)ctx->dev->attr.max_pd);
	if (!td->handle) {
		free(td);
		return NULL;
	}
	return &td->ibv;
}

int av_dealloc_td(struct ibv_td *ibv)
{
	AV_UNCANCELLED;
	struct av_td *td = av_td_find(ibv);

	if (!td)
		return av_fail_errno(AV_VERB_DEALLOC_TD, ENOENT);
	if (atomic_load(&td->users))
		return av_misuse_busy(AV_VERB_DEALLOC_TD, av_context_of(ibv->context), "TD",
				      td->handle, NULL);
	av_handles_remove(&av_context_of(ibv->context)->tds, td->handle);
	free(td);
	return 0;
}

struct ibv_pd *av_alloc_parent_domain(struct ibv_context *context,
				      struct ibv_parent_domain_init_attr *attr)
{
	AV_UNCANCELLED;
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
			       AV_PARENT_DOMAIN_MAY_BE_UNPROTECTED; /* any memory suits us */
	struct av_pd *pd = av_pd_in(context, attr->pd);
	struct av_td *td = attr->td && attr->td->context == context ? av_td_find(attr->td) : NULL;

	if (attr->comp_mask & ~known)
		return av_fail_null(
			AV_VERB_ALLOC_PARENT_DOMAIN,
			av_refuse(EOPNOTSUPP, AV_CHECK_COMP_MASK, attr->comp_mask, known));
	if (!pd)
		return av_fail_null(AV_VERB_ALLOC_PARENT_DOMAIN,
				    av_refuse(EINVAL, AV_CHECK_PD_UNKNOWN, 0, 0));
	if (attr->td && !td)
		return av_fail_null(AV_VERB_ALLOC_PARENT_DOMAIN,
				    av_refuse(EINVAL, AV_CHECK_TD_UNKNOWN, 0, 0));
	return AV_MADE_HERE(struct av_pd, create_pd(av_context_of(context), pd, td));
}
