/* SPDX-License-Identifier: MIT */
/*
 * The key of a memory window from bind to bind: for type 1 each bind shuts the last key; type 2 has
 * the key that the program chose, on one queue pair, until it is invalidated.
 */
#include "mw_fixture.h"

static void type1_rows(void)
{
	struct ibv_mw *mw = window(TYPE1);
	uint32_t first, second;

	row("type 1: rebound on the same queue pair, the old key is shut");
	need_bind(0, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	first = mw->rkey;
	need_bind(0, mw, R_REMOTE, 0, REGION_LEN, ALL_REMOTE);
	EXPECT(mw->rkey == ibv_inc_rkey(first), "key");
	expect_open(0, mw->rkey);
	expect_shut(0, first);
	row("type 1: rebound on another queue pair, usable through both");
	second = mw->rkey;
	need_bind(1, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	expect_open(0, mw->rkey);
	expect_open(1, mw->rkey);
	expect_shut(1, second);
	row("type 1: a rebind that fails changes the key and not the binding");
	first = mw->rkey;
	EXPECT(bind_window(0, mw, R_NO_BIND, 0, 64, READ_RIGHT) == BIND_ERR, "bound");
	EXPECT(mw->rkey == ibv_inc_rkey(first), "key");
	expect_open(1, first);
	expect_shut(0, mw->rkey);
	row("type 1: unbound by length 0, twice");
	unbind(0, mw);
	expect_shut(0, mw->rkey);
	expect_shut(0, first);
	unbind(1, mw);
	row("type 1: unbound by length 0 of a region");
	need_bind(0, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	need_bind(0, mw, R_PLAIN, 0, 0, 0);
	expect_shut(0, mw->rkey);
	row("type 1: bound again after that");
	need_bind(0, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	expect_open(0, mw->rkey);
	free_window(mw);
}

/* 300 rebinds: the key's low byte goes around, and only the newest key is good. */
static void type1_keys_row(void)
{
	struct ibv_mw *mw = window(TYPE1);
	uint32_t before;

	row("type 1: 300 rebinds");
	for (int i = 0; i < 300; i++) {
		before = mw->rkey;
		need_bind(i & 1, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
		EXPECT(mw->rkey == ibv_inc_rkey(before), "key %d", i);
		expect_access(0, IBV_WR_RDMA_READ, (uintptr_t)memory, mw->rkey, true);
		if (i % 10 == 0)
			expect_access(0, IBV_WR_RDMA_READ, (uintptr_t)memory, before, false);
	}
	free_window(mw);
}

static void type2_rebind_row(int qp, int on, uint32_t rkey, const char *name)
{
	struct ibv_mw *mw = window(TYPE2);
	struct ibv_mw_bind_info info = info_of(R_PLAIN, 64, 64, ALL_REMOTE);
	uint32_t first;

	row("type 2: bound on %d, bound again on %d with %s key", qp, on, name);
	need_bind(qp, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	first = mw->rkey;
	EXPECT(post_bind(on, mw, rkey ? rkey : first, &info) == 0, "the post is refused");
	EXPECT(finish(on, IBV_WC_BIND_MW) == BIND_ERR, "bound twice");
	expect_open(qp, first);
	row("type 2: after invalidation bound again");
	EXPECT(invalidate(qp, first) == SUCCESS, "LOCAL_INV");
	expect_shut(qp, first);
	mw->rkey = first;
	need_bind(on, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	expect_open(on, mw->rkey);
	expect_shut(on, first);
	free_window(mw);
}

static void type2_length_rows(int qp)
{
	struct ibv_mw *mw = window(TYPE2);

	row("type 2 on queue pair %d: length 0", qp);
	EXPECT(bind_window(qp, mw, R_PLAIN, 0, 0, ALL_REMOTE) == BIND_ERR, "bound");
	row("type 2 on queue pair %d: no region, length 0", qp);
	EXPECT(bind_window(qp, mw, R_NONE, 0, 0, 0) == BIND_ERR, "bound");
	row("type 2 on queue pair %d: length 0 while bound", qp);
	need_bind(qp, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	expect_open(qp, mw->rkey);
	free_window(mw);
}

/* The low byte of the key is the program's choice, the rest is the window's. */
static void type2_keys_row(void)
{
	struct ibv_mw_bind_info info = info_of(R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	struct ibv_mw *mw = window(TYPE2);
	uint32_t index = mw->rkey & ~0xffu;

	for (uint32_t tag = 0; tag < 256; tag += 5) {
		row("type 2: key with low byte %u", tag);
		EXPECT(post_bind(0, mw, 0x40400u + tag, &info) == 0, "the post is refused");
		EXPECT(mw->rkey == (index | tag), "key 0x%x after the post", mw->rkey);
		EXPECT(finish(0, IBV_WC_BIND_MW) == SUCCESS, "bind");
		expect_access(0, IBV_WR_RDMA_READ, (uintptr_t)memory, mw->rkey, true);
		expect_access(0, IBV_WR_RDMA_READ, (uintptr_t)memory, index | ((tag + 1) & 0xff),
			      false);
		EXPECT(invalidate(0, mw->rkey) == SUCCESS, "LOCAL_INV");
		expect_access(0, IBV_WR_RDMA_READ, (uintptr_t)memory, mw->rkey, false);
	}
	row("type 2: the same key again after invalidation");
	EXPECT(post_bind(0, mw, mw->rkey, &info) == 0 && finish(0, IBV_WC_BIND_MW) == SUCCESS,
	       "bind");
	expect_open(0, mw->rkey);
	free_window(mw);
}

static void cross_rows(void)
{
	struct ibv_mw *mw = window(TYPE2);

	row("type 2: through another queue pair than the one it is bound on");
	need_bind(0, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	expect_shut(1, mw->rkey);
	expect_open(0, mw->rkey);
	row("type 2: invalidated on another queue pair");
	EXPECT(invalidate(1, mw->rkey) == BIND_ERR, "invalidated");
	expect_open(0, mw->rkey);
	free_window(mw);
}

static void type2_rows(void)
{
	type2_rebind_row(0, 0, 0, "the same");
	type2_rebind_row(0, 0, 0x55, "another");
	type2_rebind_row(0, 1, 0, "the same");
	type2_rebind_row(0, 1, 0x55, "another");
	type2_rebind_row(QP_EX, QP_EX, 0x55, "another");
	type2_length_rows(0);
	type2_length_rows(QP_EX);
	type2_keys_row();
	cross_rows();
}

static void run(void)
{
	type1_rows();
	type1_keys_row();
	type2_rows();
}

int main(int argc, char **argv)
{
	return mw_test(argc, argv, run);
}
