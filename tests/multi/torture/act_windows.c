/* SPDX-License-Identifier: MIT */
/* Binding windows and invalidating them. */
#include "torture/actions.h"

#include "torture/object.h"
#include "torture/peer.h"
#include "torture/random_run.h"

static bool may_bind(const struct object *w, const struct object *o,
		     const struct ibv_mw_bind_info *info)
{
	bool type1 = w->kind->window == IBV_MW_TYPE_1;

	if (w->pd || info->mw_access_flags & IBV_ACCESS_MW_BIND)
		return false;
	if (type1 && info->length == 0)
		return true;
	if (!o || info->length == 0 || (!type1 && w->key))
		return false;
	if (o->pd || !o->kind->bindable || !(o->access & IBV_ACCESS_MW_BIND) ||
	    o->access & IBV_ACCESS_ZERO_BASED)
		return false;
	if (info->mw_access_flags & CHANGE && !(o->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	return inside(info->addr, info->length, o);
}

/* What ibv_bind_mw() itself refuses. */
static int call_error(const struct object *w, const struct object *o,
		      const struct ibv_mw_bind_info *info)
{
	if (!o && (info->addr || info->length))
		return EINVAL;
	if (o && o->pd != w->pd)
		return EPERM;
	if (info->mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return EINVAL;
	return o && (is_null(o) || o->store != &pages) ? ENOTSUP : 0;
}

static void random_bind(const struct object *w, const struct object *o,
			struct ibv_mw_bind_info *info)
{
	uint64_t base, length;

	*info = (struct ibv_mw_bind_info){.mw_access_flags = REMOTE};
	if (chance(30))
		info->mw_access_flags &= (unsigned int)rnd(REMOTE + 1);
	if (chance(w->kind->window == IBV_MW_TYPE_1 ? 3 : 20))
		info->mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	if (chance(1))
		info->mw_access_flags |= IBV_ACCESS_MW_BIND;
	if (!o)
		return;
	info->mr = o->mr;
	target(o, &base, &length);
	info->addr = base + rnd(length);
	info->length = chance(2) ? 0 : 1 + rnd(is_null(o) ? 64 : base + length - info->addr);
	if (chance(3))
		info->length += rnd(9000);
}

static int post_bind(int qp, struct object *w, uint32_t key, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = *info};

	if (w->kind->window == IBV_MW_TYPE_1)
		return ibv_bind_mw(n->qp[qp], w->mw, &bind);
	wr.bind_mw.mw = w->mw;
	wr.bind_mw.rkey = key;
	wr.bind_mw.bind_info = *info;
	return ibv_post_send(n->qp[qp], &wr, &bad);
}

static void bound(struct object *w, struct object *o, const struct ibv_mw_bind_info *info, int qp)
{
	bool type1 = w->kind->window == IBV_MW_TYPE_1;

	forget_binding(w);
	if (info->length == 0)
		return;
	w->key = w->mw->rkey;
	be_born(w->key, true);
	w->access = info->mw_access_flags;
	w->base = w->access & IBV_ACCESS_ZERO_BASED ? 0 : info->addr;
	w->length = info->length;
	w->store = o->store;
	w->at = o->at + (info->addr - o->base);
	w->qp = type1 ? -1 : qp;
	w->under = o;
	o->windows++;
}

void act_bind(void)
{
	struct object *w = pick(is_window), *o = chance(95) ? pick(is_region) : NULL;
	int qp = (int)rnd(QPS), ret, refused;
	struct ibv_mw_bind_info info;
	enum ibv_wc_status got, want;
	bool type1;
	uint32_t key;

	if (!w)
		return say("no window to bind");
	type1 = w->kind->window == IBV_MW_TYPE_1;
	random_bind(w, o, &info);
	say("bind %s on %d to %s, 0x%lx + 0x%lx, access 0x%x", name_of(w), qp,
	    o ? name_of(o) : "nothing", info.addr, info.length, info.mw_access_flags);
	key = type1 ? ibv_inc_rkey(w->mw->rkey) : (w->mw->rkey & ~0xffu) | (uint32_t)rnd(256);
	refused = type1 ? call_error(w, o, &info) : 0;
	ret = post_bind(qp, w, key, &info);
	MUST(ret == refused, "the bind returned %d, not %d", ret, refused);
	if (ret)
		return;
	MUST(w->mw->rkey == key, "key 0x%x of the window, not 0x%x", w->mw->rkey, key);
	want = may_bind(w, o, &info) ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
	got = own_completion(qp);
	MUST(got == want, "'%s', not '%s'", ibv_wc_status_str(got), ibv_wc_status_str(want));
	if (got == IBV_WC_SUCCESS)
		bound(w, o, &info, qp);
}

void act_invalidate(void)
{
	struct object *w = pick(is_window);
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;
	enum ibv_wc_status got, want;
	bool good;
	int qp;

	if (!w)
		return say("no window to invalidate");
	qp = w->key && w->qp >= 0 && chance(90) ? w->qp : (int)rnd(QPS);
	wr.invalidate_rkey = w->key && chance(95) ? w->key : w->mw->rkey;
	good = w->key && w->kind->window == IBV_MW_TYPE_2 && w->qp == qp &&
	       wr.invalidate_rkey == w->key;
	want = good ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
	say("invalidate 0x%x of %s on %d", wr.invalidate_rkey, name_of(w), qp);
	MUST(ibv_post_send(n->qp[qp], &wr, &bad) == 0, "ibv_post_send");
	got = own_completion(qp);
	MUST(got == want, "'%s', not '%s'", ibv_wc_status_str(got), ibv_wc_status_str(want));
	if (good)
		forget_binding(w);
}

static bool is_bound_type2(const struct object *o)
{
	return is_window(o) && o->key && o->qp >= 0;
}

void act_send_inv(void)
{
	struct object *w = pick(is_bound_type2);
	struct node_recv r = {.num_sge = 0};
	struct ibv_wc wc;

	if (!w)
		return say("no window for SEND_WITH_INV");
	say("SEND_WITH_INV of %s on %d", name_of(w), w->qp);
	MUST(node_post_recv(n, w->qp, &r, 1).ret == 0, "ibv_post_recv");
	order.qp = w->qp;
	order.opcode = IBV_WR_SEND_WITH_INV;
	order.key = w->key;
	order.bytes = 0;
	ask(SEND_INV);
	MUST(answer.status == IBV_WC_SUCCESS, "'%s'", ibv_wc_status_str(answer.status));
	MUST(node_poll(n, 1, 1, 20000, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "receive");
	MUST(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == w->key,
	     "invalidated key 0x%x", wc.invalidated_rkey);
	forget_binding(w);
}
