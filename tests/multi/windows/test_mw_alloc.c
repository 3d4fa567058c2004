/* SPDX-License-Identifier: MIT */
/*
 * Allocation of memory windows: of which types, what an allocated one keeps busy, and that the key
 * of a freed one is not given to what comes next in its place.
 */
#include <errno.h>

#include "mw_fixture.h"

static void alloc_rows(void)
{
	static const struct {
		int type, error;
	} rows[] = {{1, 0},	  {2, 0},	 {0, EINVAL},  {3, EINVAL},
		    {-1, EINVAL}, {255, EINVAL}, {257, EINVAL}};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mw *mw;

		row("ibv_alloc_mw of type %d", rows[i].type);
		errno = 0;
		mw = ibv_alloc_mw(n->pd, (enum ibv_mw_type)rows[i].type);
		EXPECT(!mw == !!rows[i].error && (mw || errno == rows[i].error), "errno %d", errno);
		if (!mw)
			continue;
		EXPECT(mw->context == n->ctx && mw->pd == n->pd && (int)mw->type == rows[i].type,
		       "fields");
		expect_shut(0, mw->rkey);
		free_window(mw);
	}
}

static void object_rows(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(n->ctx);
	struct ibv_mw *mw = ibv_alloc_mw(pd, TYPE1), *other;
	uint32_t handle;

	row("a domain with a window is busy");
	EXPECT_RET(ibv_dealloc_pd(pd), EBUSY);
	row("damaged handle of a window");
	handle = mw->handle;
	mw->handle ^= 0x777777;
	EXPECT_RET(ibv_dealloc_mw(mw), ENOENT);
	mw->handle = handle;
	free_window(mw);
	row("damaged handle of a domain");
	handle = pd->handle;
	pd->handle ^= 0x777777;
	errno = 0;
	other = ibv_alloc_mw(pd, TYPE2);
	EXPECT(!other && errno == ENOENT, "errno %d", errno);
	pd->handle = handle;
	EXPECT(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd: errno %d", errno);
}

/*
 * A freed window's last key must not be the key of what comes to lie in its place.
 * The place is found by making and freeing windows until it has come around.
 */
static void reuse_row(enum ibv_mw_type type, bool region_next)
{
	struct ibv_mw *mw = window(type);
	uint32_t index = mw->rkey >> 8, last, got = 0;

	row("type %d: the key it was bound with is not given to the next %s in its place",
	    (int)type, region_next ? "region" : "window");
	need_bind(0, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	last = mw->rkey;
	free_window(mw);
	for (int i = 0; i < 200000 && got >> 8 != index; i++) {
		struct ibv_mr *mr = region_next ? ibv_reg_mr(n->pd, memory, 64, PROBE_ALL) : NULL;

		mw = region_next ? NULL : window(type);
		got = mr ? mr->rkey : mw ? mw->rkey : 0;
		if (got >> 8 == index && mr)
			EXPECT(got != last, "a stale key 0x%x is good again", got);
		if (mr)
			EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
		if (mw && got >> 8 == index) {
			need_bind(0, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
			EXPECT(mw->rkey != last, "a stale key 0x%x is good again", got);
		}
		if (mw)
			free_window(mw);
	}
}

static void run(void)
{
	alloc_rows();
	object_rows();
	reuse_row(TYPE1, true);
	reuse_row(TYPE2, true);
	reuse_row(TYPE1, false);
	reuse_row(TYPE2, false);
}

int main(int argc, char **argv)
{
	return mw_test(argc, argv, run);
}
