/* SPDX-License-Identifier: MIT */
/* ibv_advise_mr(3). What it brings in changes no byte; what it refuses, and when, is all there is
 * to predict.
 */
#include "torture/actions.h"

#include <errno.h>

#include "torture/object.h"
#include "torture/peer.h"
#include "torture/random_run.h"

#define ELEMENTS 4
#define FLUSH	 IBV_ADVISE_MR_FLAG_FLUSH
#define UNKNOWN	 (IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT + 1)
#define KEY_TAG	 8 /* bits of a key that tell the holders of its place from each other */

struct advice {
	int pd, advice;
	uint32_t flags, count;
	struct ibv_sge sge[ELEMENTS];
	const struct object *on[ELEMENTS]; /* NULL: the key is nobody's */
};

static bool is_on_demand(const struct object *o)
{
	return is_region(o) && o->access & IBV_ACCESS_ON_DEMAND;
}

static const struct object *owner_of(uint32_t key)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (object[i].kind && key && object[i].key == key)
			return &object[i];
	return NULL;
}

static void random_element(struct ibv_sge *sge, const struct object **o)
{
	uint64_t base = SPACE_AT, length = SPACE;

	*o = chance(94) ? pick(is_on_demand) : chance(60) ? pick(is_any) : NULL;
	sge->lkey = !*o ? dead[rnd(DEAD_KEYS)] : (*o)->mw ? (*o)->mw->rkey : (*o)->key;
	if (!*o)
		*o = owner_of(sge->lkey);
	if (*o && (*o)->length)
		target(*o, &base, &length);
	sge->addr = base + rnd(length);
	sge->length = (uint32_t)rnd(3 * PAGE);
	if (sge->length > base + length - sge->addr && chance(95))
		sge->length = (uint32_t)(base + length - sge->addr);
	if (chance(2))
		sge->addr = base - 1 - rnd(64);
}

static void random_advice(struct advice *v)
{
	*v = (struct advice){
		.pd = chance(95) ? 0 : 1,
		.advice = chance(98) ? (int)rnd(UNKNOWN) : UNKNOWN,
		.flags = (chance(60) ? FLUSH : 0u) | (chance(2) ? FLUSH << 1 : 0u),
		.count = chance(98) ? 1 + (uint32_t)rnd(ELEMENTS) : 0,
	};
	for (uint32_t i = 0; i < v->count; i++)
		random_element(&v->sge[i], &v->on[i]);
}

/* A window's place holds no key while it is not bound: its keys are known by the place, whatever
 * their tag.
 */
static bool is_window_key(uint32_t key)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (is_window(&object[i]) && object[i].mw->rkey >> KEY_TAG == key >> KEY_TAG)
			return true;
	return false;
}

static int key_error(const struct advice *v, uint32_t i)
{
	const struct object *o = v->on[i];

	if (is_window_key(v->sge[i].lkey))
		return EINVAL;
	if (!o || !is_on_demand(o))
		return ENOENT;
	if (o->pd != v->pd)
		return EPERM;
	return v->advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && !(o->access & WRITER) ? EPERM
											 : 0;
}

static uint64_t offset(const struct advice *v, uint32_t i)
{
	return v->on[i]->at + (v->sge[i].addr - v->on[i]->base);
}

static int pages_error(const struct advice *v, uint32_t i)
{
	bool write = v->advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint64_t good;

	if (!inside(v->sge[i].addr, v->sge[i].length, v->on[i]))
		return EFAULT;
	return present(&pages, offset(v, i), v->sge[i].length, write, &good) ? 0 : EFAULT;
}

/* Keys are looked at before anything is done, memory only by a call that waits for what becomes of
 * it. */
static int predict(const struct advice *v)
{
	int err = v->flags & ~(uint32_t)FLUSH || v->count == 0 ? EINVAL
		  : v->advice == UNKNOWN		       ? EOPNOTSUPP
							       : 0;

	for (uint32_t i = 0; i < v->count && err == 0; i++)
		err = key_error(v, i);
	for (uint32_t i = 0; i < v->count && err == 0 && v->flags & FLUSH; i++)
		err = pages_error(v, i);
	return err;
}

void act_advise(void)
{
	struct advice v;
	int want, ret;

	random_advice(&v);
	want = predict(&v);
	say("advice %d, flags %u, %u elements, the first 0x%lx + %u under 0x%x of %s: errno %d",
	    v.advice, v.flags, v.count, v.sge[0].addr, v.sge[0].length, v.sge[0].lkey,
	    v.on[0] ? name_of(v.on[0]) : "nobody", want);
	ret = ibv_advise_mr(pd_of(v.pd), (enum ibv_advise_mr_advice)v.advice, v.flags, v.sge,
			    v.count);
	MUST(ret == want, "ibv_advise_mr: %d, not %d", ret, want);
	for (uint32_t i = 0; i < v.count && ret == 0 && v.flags & FLUSH; i++)
		check_store(&pages, offset(&v, i), v.sge[i].length);
}
