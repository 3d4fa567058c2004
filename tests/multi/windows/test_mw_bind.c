/* SPDX-License-Identifier: MIT */
/* What memory windows may be bound to, what is then behind their keys, and which binds are refused.
 */
#include <errno.h>

#include "mw_fixture.h"

#define LATE 0	/* refused by its completion */
#define OK   -1 /* not refused */

struct bind_row {
	const char *name;
	enum region r;
	int64_t offset;
	uint64_t length;
	unsigned int access;
	int type1, type2; /* OK, LATE, or the errno value of ibv_bind_mw() */
};

static const struct bind_row bind_rows[] = {
	{"all of a region", R_PLAIN, 0, REGION_LEN, ALL_REMOTE, OK, OK},
	{"one byte", R_PLAIN, 77, 1, READ_RIGHT, OK, OK},
	{"the last byte", R_PLAIN, REGION_LEN - 1, 1, READ_RIGHT, OK, OK},
	{"no rights", R_PLAIN, 0, 64, 0, OK, OK},
	{"a region that cannot be written, for reads", R_BIND_ONLY, 0, 64, READ_RIGHT, OK, OK},
	{"a region that cannot be written, for writes", R_BIND_ONLY, 0, 64, IBV_ACCESS_REMOTE_WRITE,
	 LATE, LATE},
	{"a region that cannot be written, for atomics", R_BIND_ONLY, 0, 64,
	 IBV_ACCESS_REMOTE_ATOMIC, LATE, LATE},
	{"a region without MW_BIND", R_NO_BIND, 0, 64, READ_RIGHT, LATE, LATE},
	{"a region with addresses of its own", R_IOVA, 16, 64, ALL_REMOTE, OK, OK},
	{"a region of another domain", R_OTHER_PD, 0, 64, READ_RIGHT, EPERM, LATE},
	{"a zero-based region", R_ZERO_BASED, 0, 64, READ_RIGHT, LATE, LATE},
	{"device memory", R_DEVICE, 0, 64, READ_RIGHT, ENOTSUP, LATE},
	{"a null region", R_NULL, 0, 64, READ_RIGHT, ENOTSUP, LATE},
	{"a deregistered region", R_DEAD, 0, 64, READ_RIGHT, LATE, LATE},
	{"one byte too many", R_PLAIN, 0, REGION_LEN + 1, READ_RIGHT, LATE, LATE},
	{"behind the region", R_PLAIN, REGION_LEN, 1, READ_RIGHT, LATE, LATE},
	{"before the region", R_PLAIN, -1, 8, READ_RIGHT, LATE, LATE},
	{"a length that wraps", R_PLAIN, 8, UINT64_MAX - 7, READ_RIGHT, LATE, LATE},
	{"an address that wraps", R_PLAIN, INT64_MIN, 16, READ_RIGHT, LATE, LATE},
	{"MW_BIND for the window", R_PLAIN, 0, 64, IBV_ACCESS_MW_BIND, LATE, LATE},
	{"ON_DEMAND for the window", R_PLAIN, 0, 64, IBV_ACCESS_ON_DEMAND, LATE, LATE},
	{"an unknown right", R_PLAIN, 0, 64, 1u << 12, LATE, LATE},
	{"zero-based", R_PLAIN, 4096, 64, IBV_ACCESS_ZERO_BASED | ALL_REMOTE, EINVAL, OK},
	{"no region, but a length", R_NONE, 0, 64, READ_RIGHT, EINVAL, LATE},
};

static void expect_bound(int qp, const struct bind_row *r, const struct ibv_mw *mw)
{
	uint64_t base = r->access & IBV_ACCESS_ZERO_BASED ? 0 : base_of(r->r) + (uint64_t)r->offset;
	uint32_t bytes = r->length < 8 ? 1 : 8;
	bool readable = r->access & IBV_ACCESS_REMOTE_READ;
	enum ibv_wc_status want = readable ? SUCCESS : IBV_WC_REM_ACCESS_ERR,
			   no = IBV_WC_REM_ACCESS_ERR;

	pattern_fill(memory, REGION_LEN, 9, 0);
	EXPECT_PROBE(&b, &a, qp, IBV_WR_RDMA_READ, base, mw->rkey, bytes, want);
	if (readable)
		EXPECT(side_check(&b, PROBE_AT, bytes, 9, (uint64_t)r->offset) == -1,
		       "bytes of the READ");
	EXPECT_PROBE(&b, &a, qp, IBV_WR_RDMA_READ, base + r->length - bytes, mw->rkey, bytes, want);
	EXPECT_PROBE(&b, &a, qp, IBV_WR_RDMA_READ, base + r->length - bytes + 1, mw->rkey, bytes,
		     no);
	EXPECT_PROBE(&b, &a, qp, IBV_WR_RDMA_READ, base - 1, mw->rkey, bytes, no);
}

static void bind_row(int qp, enum ibv_mw_type type, const struct bind_row *r)
{
	int want = type == TYPE1 ? r->type1 : r->type2, ret;
	struct ibv_mw_bind_info info = info_of(r->r, (uint64_t)r->offset, r->length, r->access);
	struct ibv_mw *mw = window(type);
	uint32_t rkey = mw->rkey;
	enum ibv_wc_status got;

	row("type %d on queue pair %d: bind to %s", (int)type, qp, r->name);
	if (want > 0) {
		ret = call_bind(qp, mw, &info);
		EXPECT(ret == want, "%d, not %d", ret, want);
		EXPECT(mw->rkey == rkey, "the key has changed");
		EXPECT(node_poll(n, 0, 1, 0, &(struct ibv_wc){.wr_id = 0}) == 0, "a completion");
	} else {
		got = bind_info(qp, mw, &info);
		EXPECT(got == (want == OK ? SUCCESS : BIND_ERR), "'%s'", ibv_wc_status_str(got));
		EXPECT(mw->rkey == ibv_inc_rkey(rkey), "key 0x%x after 0x%x", mw->rkey, rkey);
	}
	if (want == OK)
		expect_bound(qp, r, mw);
	else
		expect_shut(qp, mw->rkey);
	free_window(mw);
}

static void bind_table(void)
{
	for (size_t i = 0; i < COUNT_OF(bind_rows); i++) {
		bind_row(0, TYPE1, &bind_rows[i]);
		bind_row(0, TYPE2, &bind_rows[i]);
		bind_row(QP_EX, TYPE2, &bind_rows[i]);
	}
}

static void refused_calls(void)
{
	struct ibv_mw_bind_info good = info_of(R_PLAIN, 0, 64, READ_RIGHT), odd = {.addr = 1};
	struct ibv_mw *one = window(TYPE1), *two = window(TYPE2);
	uint32_t handle;

	row("ibv_bind_mw: a window of type 2");
	EXPECT(call_bind(0, two, &good) == EINVAL, "accepted");
	row("ibv_bind_mw: no region, but an address");
	EXPECT(call_bind(0, one, &odd) == EINVAL, "accepted");
	row("ibv_bind_mw: damaged handle of the window");
	handle = one->handle;
	one->handle ^= 0x555555;
	EXPECT(call_bind(0, one, &good) != 0, "accepted");
	one->handle = handle;
	row("ibv_bind_mw: damaged handle of the queue pair");
	handle = n->qp[0]->handle;
	n->qp[0]->handle ^= 0x555555;
	EXPECT(call_bind(0, one, &good) != 0, "accepted");
	n->qp[0]->handle = handle;
	row("after refused calls the window can be bound");
	need_bind(0, one, R_PLAIN, 0, 64, READ_RIGHT);
	free_window(one);
	free_window(two);
}

/* Damaged objects: an error or a binding of no use, never a crash. */
static void damaged_rows(void)
{
	struct ibv_mw *mw = window(TYPE2), gone = *mw;
	struct ibv_mw_bind_info info = info_of(R_PLAIN, 0, 64, READ_RIGHT);
	struct ibv_mr broken = *region[R_PLAIN];
	enum ibv_wc_status got;

	row("bind to a region with a damaged key");
	broken.lkey ^= 0x0f0f00;
	info.mr = &broken;
	EXPECT(bind_info(0, mw, &info) == BIND_ERR, "bound");
	row("bind to a region with a damaged handle");
	broken = *region[R_PLAIN];
	broken.handle ^= 0x0f0f0f;
	got = bind_info(0, mw, &info);
	EXPECT(got == BIND_ERR || got == SUCCESS, "'%s'", ibv_wc_status_str(got));
	free_window(mw);
	row("bind of a window that has been freed");
	info.mr = region[R_PLAIN];
	EXPECT(bind_info(0, &gone, &info) == BIND_ERR, "bound");
	expect_shut(0, gone.rkey);
	row("bind of a window with a damaged key");
	mw = window(TYPE2);
	gone = *mw;
	gone.rkey ^= 0x333300;
	EXPECT(bind_info(0, &gone, &info) == BIND_ERR, "bound");
	row("bind of a key that is a region's");
	gone.rkey = region[R_PLAIN]->lkey;
	EXPECT(bind_info(0, &gone, &info) == BIND_ERR, "bound");
	free_window(mw);
}

static void foreign_window_rows(void)
{
	struct ibv_mw *one = ibv_alloc_mw(n->other_pd, TYPE1),
		      *two = ibv_alloc_mw(n->other_pd, TYPE2);
	struct ibv_mw_bind_info mine = info_of(R_PLAIN, 0, 64, READ_RIGHT),
				its = info_of(R_OTHER_PD, 0, 64, READ_RIGHT);

	row("type 1 of another domain, region of the queue pair's");
	EXPECT(call_bind(0, one, &mine) == EPERM, "accepted");
	row("type 1 and region of another domain than the queue pair's");
	EXPECT(bind_info(0, one, &its) == BIND_ERR, "bound");
	row("type 2 of another domain, region of the queue pair's");
	EXPECT(bind_info(0, two, &mine) == BIND_ERR, "bound");
	row("type 2 and region of another domain than the queue pair's");
	EXPECT(bind_info(0, two, &its) == BIND_ERR, "bound");
	free_window(one);
	free_window(two);
}

static void run(void)
{
	bind_table();
	refused_calls();
	damaged_rows();
	foreign_window_rows();
}

int main(int argc, char **argv)
{
	return mw_test(argc, argv, run);
}
