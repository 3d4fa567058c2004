/* SPDX-License-Identifier: MIT */
/* ibv_advise_mr(3): checks the call. memory/odp.h carries out the advice. */
#include "verbs/next.h"

#define WRITERS                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | \
	 IBV_ACCESS_MW_BIND)

static int check_call(const struct av_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		      const struct ibv_sge *sge, uint32_t count)
{
	if (!pd)
		return av_refuse(EINVAL, AV_CHECK_PD_UNKNOWN, 0, 0);
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
		return av_refuse(EINVAL, AV_CHECK_FLAGS, flags, IBV_ADVISE_MR_FLAG_FLUSH);
	if (!sge || count == 0)
		return av_refuse(EINVAL, AV_CHECK_ADVISE_CALL, count, 0);
	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return av_refuse(EOPNOTSUPP, AV_CHECK_ADVISE_ADVICE, (uint64_t)(int)advice, 0);
	return 0;
}

static int refuse_key(int err, enum av_check check, uint32_t lkey)
{
	av_refuse(err, check, 0, 0);
	av_diag_pending()->key = lkey;
	av_diag_pending()->has |= AV_HAS_ACCESS;
	return err;
}

/*
 * Adapters have one table of keys, so a key unknown here may be another context's: then EPERM, not
 * ENOENT. @k: NULL: no region has it. @pd: NULL: any. Context: the lock of @k is held
 */
static int check_key(const struct av_context *ctx, const struct av_key *k, uint32_t lkey,
		     const struct av_pd *pd, enum ibv_advise_mr_advice advice)
{
	const struct av_key *entry = av_key_entry(ctx->seg, lkey);

	if (!k && entry && atomic_load(&entry->kind) == AV_KEY_WINDOW && AV_KEY_INDEX(lkey))
		return refuse_key(EINVAL, AV_CHECK_ADVISE_KEY, lkey);
	if (!k)
		return refuse_key(av_context_other_has(ctx, lkey) ? EPERM : ENOENT,
				  AV_CHECK_ADVISE_KEY, lkey);
	if (k->kind != AV_KEY_ODP)
		return refuse_key(ENOENT, AV_CHECK_ADVISE_KEY, lkey);
	if (pd && k->pd != av_pd_id(pd))
		return refuse_key(EPERM, AV_CHECK_ADVISE_PD, lkey);
	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && !(k->access & WRITERS))
		return refuse_key(EPERM, AV_CHECK_ADVISE_RIGHT, lkey);
	return 0;
}

/* Copies the region's key if the advice suits it. Waits while a thread re-registers it. */
static int lookup_advised_region(struct av_context *ctx, uint32_t lkey, const struct av_pd *pd,
				 enum ibv_advise_mr_advice advice, struct av_key *what)
{
	struct av_key *k = av_key_lock_region(ctx->seg, lkey);
	int err = check_key(ctx, k, lkey, pd, advice);

	if (!k)
		return err;
	av_key_describe(k, what);
	av_lock_release(&k->lock);
	return err;
}

/* A range outside the region fails like unmapped memory: only a call that waits reports it. */
static int resolve_advised_range(struct av_context *ctx, const struct av_pd *pd,
				 enum ibv_advise_mr_advice advice, const struct ibv_sge *sge,
				 struct av_odp_range *range)
{
	struct av_key region = {.kind = AV_KEY_NONE};
	int err = lookup_advised_region(ctx, sge->lkey, pd, advice, &region);

	if (err)
		return err;
	range->length = AV_ODP_NOWHERE;
	if (!av_range_within(sge->addr, sge->length, region.base, region.length))
		return 0;
	range->addr = region.addr + (sge->addr - region.base);
	range->length = sge->length;
	return 0;
}

static int advise_mr_ranges(struct av_context *ctx, const struct av_pd *pd,
			    enum ibv_advise_mr_advice advice, bool flush, const struct ibv_sge *sge,
			    uint32_t count)
{
	struct av_odp_range *range = calloc(count, sizeof(*range));
	int err = 0;

	if (!range)
		return ENOMEM;
	for (uint32_t i = 0; i < count && err == 0; i++)
		err = resolve_advised_range(ctx, pd, advice, &sge[i], &range[i]);
	if (err == 0) /* a bad element refuses the call before anything is done */
		err = av_odp_advise(ctx->seg, range, count, (enum ib_uverbs_advise_mr_advice)advice,
				    flush);
	free(range);
	return err;
}

int av_advise_mr(struct ibv_pd *ibv, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sge, uint32_t count)
{
	AV_BEGIN(av_fail_errno, ADVISE_MR, ibv->context);
	struct av_context *ctx = av_context_of(ibv->context);
	const struct av_pd *pd = av_pd_find(ibv);
	int err = av_context_err(ctx);

	if (err == 0)
		err = av_verb_injected(ctx, AV_VERB_ADVISE_MR, 0, sge && count ? sge->lkey : 0);
	if (err == 0)
		err = check_call(pd, advice, flags, sge, count);
	if (err == 0)
		err = advise_mr_ranges(ctx, pd, advice, flags & IBV_ADVISE_MR_FLAG_FLUSH, sge,
				       count);
	return err ? av_fail_errno(AV_VERB_ADVISE_MR, err) : 0;
}

int av_advise_region(struct av_context *ctx, uint32_t lkey, enum ibv_advise_mr_advice advice,
		     const struct av_odp_range *range)
{
	struct av_key region = {.kind = AV_KEY_NONE};
	int err = av_context_err(ctx);

	if (err == 0)
		err = lookup_advised_region(ctx, lkey, NULL, advice, &region);
	if (err)
		return err;
	if (!av_range_within(range->addr, range->length, region.addr, region.length))
		return av_refuse(EFAULT, AV_CHECK_ADVISE_RANGE, 0, 0);
	return av_odp_advise(ctx->seg, range, 1, (enum ib_uverbs_advise_mr_advice)advice, true);
}
