/* SPDX-License-Identifier: MIT */
/*
 * The rkeys of a strict device: a region's rkey is that of a window onto all of it, and not its
 * lkey. So neither of the two is good for what the other one is.
 */
#include "observe/freedom.h"
#include "verbs/objects.h"

#define REMOTE_RIGHTS                                                                             \
	((uint32_t)(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
		    AV_ACCESS_FLUSH_GLOBAL))

/* Windows of other memory do not know where it is. */
static bool has_own_rkey(const struct av_seg *seg, uint8_t kind)
{
	return seg->head->strict & AV_FREEDOM_BIT(AV_FREEDOM_KEYS) && !seg->head->origin &&
	       av_kind_of(kind)->is & AV_KIND_BINDABLE;
}

uint32_t av_lkey_rights(const struct av_seg *seg, const struct av_key *what)
{
	return has_own_rkey(seg, what->kind) ? what->access & ~REMOTE_RIGHTS : what->access;
}

static bool bind_rkey(const struct av_context *ctx, const struct av_mr *mr, uint32_t rights)
{
	const struct av_key *k = av_key_entry(ctx->seg, mr->ibv.lkey);
	const struct av_window_bind all = {
		.window = mr->rkey,
		.rkey = mr->rkey,
		.region = mr->ibv.lkey,
		.access = rights & REMOTE_RIGHTS,
		.pd = k->pd,
		.addr = k->base,
		.length = k->length,
		.is_rkey = true,
	};

	return av_window_bind(ctx->seg, &all) == AV_CHECK_NONE;
}

bool av_rkey_make(const struct av_context *ctx, struct av_mr *mr, uint32_t rights)
{
	const struct av_key *k = av_key_entry(ctx->seg, mr->ibv.lkey);

	mr->ibv.rkey = mr->ibv.lkey;
	if (!has_own_rkey(ctx->seg, k->kind))
		return true;
	mr->rkey =
		av_window_create(ctx->seg, AV_WINDOW_RKEY, k->pd, (uint32_t)ctx->dev->attr.max_mr);
	mr->ibv.rkey = mr->rkey;
	if (!mr->rkey || bind_rkey(ctx, mr, rights))
		return mr->rkey != 0;
	(void)!av_window_destroy(ctx->seg, mr->rkey);
	mr->rkey = 0;
	return false;
}

bool av_rkey_withdraw(const struct av_context *ctx, const struct av_mr *mr)
{
	const struct av_key *k = av_key_entry(ctx->seg, mr->ibv.lkey);
	const struct av_window_bind none = {
		.window = mr->rkey, .rkey = mr->rkey, .pd = k->pd, .is_rkey = true};

	return !mr->rkey || av_window_bind(ctx->seg, &none) == AV_CHECK_NONE;
}

void av_rkey_restore(const struct av_context *ctx, const struct av_mr *mr, uint32_t rights)
{
	if (mr->rkey)
		(void)bind_rkey(ctx, mr, rights);
}

void av_rkey_free(const struct av_context *ctx, const struct av_mr *mr)
{
	if (mr->rkey)
		(void)!av_window_destroy(ctx->seg, mr->rkey);
}
