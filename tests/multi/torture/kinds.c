/* SPDX-License-Identifier: MIT */
/* What regions and windows can be made, with which rights, and what their making must come to. */
#include "torture/object.h"

#include <errno.h>

#include "torture/peer.h"
#include "torture/random_run.h"

#define IOVA 0x600000000000ull

unsigned int random_rights(void)
{
	unsigned int access = FULL;

	if (chance(30))
		access &= (unsigned int)rnd(FULL + 1);
	if (chance(80) && access & CHANGE)
		access |= IBV_ACCESS_LOCAL_WRITE;
	return access;
}

bool bad_rights(unsigned int access)
{
	return access & CHANGE && !(access & IBV_ACCESS_LOCAL_WRITE);
}

void random_range(const struct kind *k, uint64_t *at, uint64_t *length)
{
	*length = 1 + rnd(chance(50) ? 4 * PAGE : 1000);
	*at = rnd(SPACE - *length);
	if (chance(50))
		*at &= ~7ul;
	if (chance(20))
		*at &= ~(uint64_t)(PAGE - 1);
}

int range_error(const struct kind *k, uint64_t at, uint64_t length, unsigned int access)
{
	uint64_t first = at & ~(uint64_t)(PAGE - 1), good;

	if (bad_rights(access))
		return EINVAL;
	if (k->asks_for_pages &&
	    !present(&pages, first, at + length - first, access & WRITER, &good))
		return EFAULT;
	return 0;
}

static void region_made(struct object *o, struct ibv_mr *mr, int want)
{
	int err = errno;

	MUST(!mr == !!want && (mr || err == want), "errno %d instead of %d", mr ? 0 : err, want);
	if (!mr) {
		o->kind = NULL;
		return;
	}
	o->mr = mr;
	o->key = mr->lkey;
	be_born(o->key, false);
	MUST(mr->length == o->length && mr->pd == pd_of(o->pd) && mr->context == n->ctx,
	     "fields of the region");
	if (o->store)
		o->store->users++;
}

static void create_region(struct object *o)
{
	enum {
		VIRTUAL,
		ZERO_BASED,
		CHOSEN
	} form = chance(60)   ? VIRTUAL
		 : chance(50) ? ZERO_BASED
			      : CHOSEN;
	struct ibv_mr *mr;
	uint64_t iova;

	o->store = &pages;
	random_range(o->kind, &o->at, &o->length);
	o->access = random_rights() | o->kind->extra |
		    (form == ZERO_BASED ? IBV_ACCESS_ZERO_BASED : 0u);
	o->base = form == ZERO_BASED ? 0 : form == CHOSEN ? IOVA + o->at : SPACE_AT + o->at;
	iova = form == CHOSEN ? o->base : SPACE_AT + o->at;
	say("register %s", name_of(o));
	errno = 0;
	o->asked = moment();
	mr = ibv_reg_mr_iova(pd_of(o->pd), space + o->at, o->length, iova, o->access);
	region_made(o, mr, range_error(o->kind, o->at, o->length, o->access));
}

/* The whole address space: at its place in the store is what has the address SPACE_AT. */
static void create_implicit(struct object *o)
{
	int want;

	o->store = &pages;
	o->at = -(uint64_t)SPACE_AT;
	o->length = SIZE_MAX;
	o->access = random_rights() | o->kind->extra;
	want = bad_rights(o->access) ? EINVAL : 0;
	say("register %s", name_of(o));
	errno = 0;
	region_made(o, ibv_reg_mr(pd_of(o->pd), NULL, SIZE_MAX, o->access), want);
}

static void create_device(struct object *o)
{
	struct store *s = &block[rnd(BLOCKS)];
	bool good;
	int want;

	if (!s->dm) {
		say("no device memory");
		o->kind = NULL;
		return;
	}
	o->store = s;
	o->at = rnd(s->size + 1) & ~3ul;
	o->length = rnd(s->size - o->at + 1) + (chance(5) ? 1 : 0);
	o->access = (random_rights() & ~(unsigned int)IBV_ACCESS_MW_BIND) | o->kind->extra;
	if (chance(5))
		o->access |= IBV_ACCESS_MW_BIND;
	good = o->length <= s->size - o->at && !bad_rights(o->access) &&
	       !(o->access & IBV_ACCESS_MW_BIND);
	want = good ? 0 : EINVAL;
	say("register %s of block %ld", name_of(o), s - block);
	errno = 0;
	region_made(o, ibv_reg_dm_mr(pd_of(o->pd), s->dm, o->at, o->length, o->access), want);
}

static void create_null(struct object *o)
{
	o->length = SIZE_MAX;
	o->access = IBV_ACCESS_LOCAL_WRITE;
	say("allocate %s", name_of(o));
	region_made(o, ibv_alloc_null_mr(pd_of(o->pd)), 0);
}

static void create_window(struct object *o)
{
	say("allocate %s", name_of(o));
	o->mw = ibv_alloc_mw(pd_of(o->pd), o->kind->window);
	MUST(o->mw, "ibv_alloc_mw: errno %d", errno);
	be_born(o->mw->rkey, false);
}

static const struct kind kinds[] = {
	{"region", 25, 0, 0, true, true, true, create_region},
	{"ODP region", 30, 0, IBV_ACCESS_ON_DEMAND, false, true, true, create_region},
	{"implicit region", 5, 0, IBV_ACCESS_ON_DEMAND, false, true, true, create_implicit},
	{"device region", 15, 0, IBV_ACCESS_ZERO_BASED, false, false, false, create_device},
	{"null region", 3, 0, 0, false, false, false, create_null},
	{"window of type 1", 15, IBV_MW_TYPE_1, 0, false, false, false, create_window},
	{"window of type 2", 20, IBV_MW_TYPE_2, 0, false, false, false, create_window},
};

const struct kind *random_kind(void)
{
	unsigned int sum = 0;
	uint64_t at;

	for (size_t i = 0; i < COUNT_OF(kinds); i++)
		sum += kinds[i].weight;
	at = rnd(sum);
	for (size_t i = 0;; i++) {
		if (at < kinds[i].weight)
			return &kinds[i];
		at -= kinds[i].weight;
	}
}
