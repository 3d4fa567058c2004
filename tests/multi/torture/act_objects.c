/* SPDX-License-Identifier: MIT */
/* Making, changing and destroying regions and windows. */
#include "torture/actions.h"

#include <errno.h>

#include "torture/object.h"
#include "torture/peer.h"
#include "torture/random_run.h"

void act_create(void)
{
	struct object *o = pick(is_free);

	if (!o)
		return say("no place for another object");
	*o = (struct object){.kind = random_kind(), .pd = chance(90) ? 0 : 1};
	o->kind->create(o);
}

static void destroy_region(struct object *o)
{
	int ret = ibv_dereg_mr(o->mr), want = o->windows ? EBUSY : 0;

	MUST(ret == want, "ibv_dereg_mr: %d, not %d", ret, want);
	if (ret)
		return;
	bury(o->key);
	if (o->store)
		o->store->users--;
	o->kind = NULL;
}

void act_destroy(void)
{
	struct object *o = pick(is_any);

	if (!o)
		return say("nothing to destroy");
	say("destroy %s", name_of(o));
	if (o->mr)
		return destroy_region(o);
	MUST(ibv_dealloc_mw(o->mw) == 0, "ibv_dealloc_mw: errno %d", errno);
	forget_binding(o);
	o->kind = NULL;
}

/* What it will be if it is done. Return: error of the device, 0: good */
static int after_change(struct object *next, int flags)
{
	const struct object *o = next;
	bool moved = flags & IBV_REREG_MR_CHANGE_TRANSLATION, whole = is_implicit(o);
	unsigned int was = o->access;
	unsigned int zero = o->access & IBV_ACCESS_ZERO_BASED; /* that flag stays as it is */

	if (moved) {
		random_range(next->kind, &next->at, &next->length);
		next->base = zero ? 0 : SPACE_AT + next->at;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		next->pd = chance(80) ? 0 : 1;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		next->access = random_rights() | zero | o->kind->extra;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS && chance(5))
		next->access ^= IBV_ACCESS_ON_DEMAND;
	if (flags == 0 || !o->kind->changeable)
		return EINVAL;
	/* What is paged on demand stays so, and the implicit region where it is. */
	if ((next->access ^ was) & IBV_ACCESS_ON_DEMAND || (moved && whole))
		return EOPNOTSUPP;
	if (bad_rights(next->access))
		return EINVAL;
	/* Pages are asked for when there are new ones, or when they must permit more than before.
	 */
	if (!moved && !(next->access & WRITER && !(was & WRITER)))
		return 0;
	next->asked = moment();
	return range_error(o->kind, next->at, next->length, next->access);
}

void act_change(void)
{
	struct object *o = pick(is_region), next;
	int flags = (int)rnd(8), error, ret, want, err;

	if (!o)
		return say("nothing to re-register");
	next = *o;
	error = after_change(&next, flags);
	say("re-register %s with flags %d: %s", name_of(o), flags, name_of(&next));
	errno = 0;
	ret = ibv_rereg_mr(o->mr, flags, pd_of(next.pd), (void *)(SPACE_AT + next.at), next.length,
			   flags & IBV_REREG_MR_CHANGE_ACCESS ? (int)next.access : 0);
	err = errno;
	want = is_null(o) ? IBV_REREG_MR_ERR_INPUT : error || o->windows ? IBV_REREG_MR_ERR_CMD : 0;
	MUST(ret == want, "ibv_rereg_mr: %d, errno %d, instead of %d, errno %d", ret, err, want,
	     error);
	if (want)
		MUST(err == (is_null(o) ? EINVAL : error) || (o->windows && err == EBUSY),
		     "errno %d", err);
	else
		*o = next;
	MUST(o->mr->lkey == o->key && o->mr->rkey == (is_null(o) ? 0 : o->key), "keys");
	MUST(o->mr->pd == pd_of(o->pd) && o->mr->length == o->length, "fields");
}
