/* SPDX-License-Identifier: MIT */
/*
 * What memory windows are bound to and by: a region is busy until the last window is gone from it,
 * and the destruction of a queue pair shuts its windows of type 2.
 */
#include <errno.h>

#include "mw_fixture.h"

enum end { END_UNBIND, END_FREE, END_REBIND, END_DESTROY };

static void spare_open(void)
{
	probe_open(&b, &a, QP_SPARE);
}

static void dereg_row(enum ibv_mw_type type, enum end end)
{
	static const char *const names[] = {"unbound", "freed", "bound to another region",
					    "without its queue pair"};
	struct ibv_mr *mr = ibv_reg_mr(n->pd, memory, REGION_LEN, BINDABLE | ALL_REMOTE);
	struct ibv_mw *mw = window(type);
	struct ibv_mw_bind_info info = {mr, (uintptr_t)memory, REGION_LEN, ALL_REMOTE};

	row("type %d: a region is busy while a window is bound to it, until that is %s", (int)type,
	    names[end]);
	spare_open();
	EXPECT(bind_info(QP_SPARE, mw, &info) == SUCCESS, "bind");
	EXPECT_RET(ibv_dereg_mr(mr), EBUSY);
	expect_open(QP_SPARE, mw->rkey);
	EXPECT_PROBE(&b, &a, QP_SPARE, IBV_WR_RDMA_READ, (uintptr_t)memory, mr->rkey, 8, SUCCESS);
	if (end == END_UNBIND)
		unbind(QP_SPARE, mw);
	else if (end == END_FREE)
		free_window(mw);
	else if (end == END_REBIND)
		need_bind(QP_SPARE, mw, R_PLAIN, 0, 64, READ_RIGHT);
	probe_close(&b, &a, QP_SPARE);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
	if (end != END_FREE)
		free_window(mw);
}

static void dereg_rows(void)
{
	for (enum end end = END_UNBIND; end <= END_DESTROY; end++) {
		if (end != END_DESTROY)
			dereg_row(TYPE1, end);
		if (end != END_REBIND)
			dereg_row(TYPE2, end);
	}
}

static void many_windows_row(void)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, memory, REGION_LEN, BINDABLE);
	struct ibv_mw_bind_info info = {mr, (uintptr_t)memory, REGION_LEN, ALL_REMOTE};
	struct ibv_mw *mw[20];

	row("20 windows on one region: busy until the last is gone");
	for (size_t i = 0; i < COUNT_OF(mw); i++) {
		mw[i] = window(i & 1 ? TYPE1 : TYPE2);
		EXPECT(bind_info(0, mw[i], &info) == SUCCESS, "bind %zu", i);
	}
	for (size_t i = 0; i < COUNT_OF(mw); i++) {
		EXPECT_RET(ibv_dereg_mr(mr), EBUSY);
		expect_open(0, mw[i]->rkey);
		free_window(mw[i]);
	}
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
}

static void destroyed_rows(void)
{
	struct ibv_mw *one = window(TYPE1), *two = window(TYPE2);

	row("type 2: its queue pair is destroyed");
	spare_open();
	need_bind(QP_SPARE, one, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	need_bind(QP_SPARE, two, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	probe_close(&b, &a, QP_SPARE);
	expect_shut(0, two->rkey);
	need_bind(0, two, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	expect_open(0, two->rkey);
	row("type 1: the queue pair it was bound by is destroyed");
	expect_open(0, one->rkey);
	free_window(one);
	free_window(two);
}

static void run(void)
{
	dereg_rows();
	many_windows_row();
	destroyed_rows();
}

int main(int argc, char **argv)
{
	return mw_test(argc, argv, run);
}
