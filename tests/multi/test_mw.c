/* SPDX-License-Identifier: MIT */
/*
 * Memory windows of types 1 and 2B: what may be bound to what, what another process can then do through them,
 * and that a window that is unbound, invalidated, freed, or whose queue pair is destroyed, is shut at once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/flood.h"
#include "lib/probe.h"
#include "lib/sandbox.h"

#define REGION_AT  0x200000u /* offsets in the arena */
#define REGION_LEN 0x10000u
#define TYPE1	   IBV_MW_TYPE_1
#define TYPE2	   IBV_MW_TYPE_2
#define SUCCESS	   IBV_WC_SUCCESS
#define BIND_ERR   IBV_WC_MW_BIND_ERR
#define READ_RIGHT IBV_ACCESS_REMOTE_READ
#define ALL_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define BINDABLE   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
#define IOVA	   0x500000000ull

#define QP_EX	 2 /* number of the queue pair with the functions ibv_wr_...() */
#define QP_FLOOD 3
#define QP_SPARE 4

static struct side a, b; /* the windows are a's, in this process; b accesses them */
static struct node *n;
static uint8_t *memory; /* REGION_LEN bytes of the arena */

/* --- regions of all kinds --- */

enum region {
	R_NONE,
	R_PLAIN,     /* may be bound and written, nothing remote */
	R_REMOTE,    /* the same with all remote rights */
	R_BIND_ONLY, /* may be bound, not written */
	R_NO_BIND,   /* all rights but MW_BIND */
	R_OTHER_PD,
	R_ZERO_BASED,
	R_IOVA,
	R_DEVICE,
	R_NULL,
	R_DEAD, /* deregistered: a copy of what it was */
	R_N
};

static struct ibv_mr *region[R_N];
static struct ibv_dm *device_memory;
static struct ibv_mr dead;

static void open_regions(void)
{
	struct ibv_alloc_dm_attr attr = {.length = REGION_LEN};
	struct ibv_mr *mr = ibv_reg_mr(n->pd, memory, REGION_LEN, BINDABLE);

	dead = *mr;
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	device_memory = ibv_alloc_dm(n->ctx, &attr);
	region[R_PLAIN] = ibv_reg_mr(n->pd, memory, REGION_LEN, BINDABLE);
	region[R_REMOTE] = ibv_reg_mr(n->pd, memory, REGION_LEN, BINDABLE | ALL_REMOTE);
	region[R_BIND_ONLY] = ibv_reg_mr(n->pd, memory, REGION_LEN, IBV_ACCESS_MW_BIND);
	region[R_NO_BIND] = ibv_reg_mr(n->pd, memory, REGION_LEN, PROBE_ALL);
	region[R_OTHER_PD] = ibv_reg_mr(n->other_pd, memory, REGION_LEN, BINDABLE);
	region[R_ZERO_BASED] = ibv_reg_mr(n->pd, memory, REGION_LEN, BINDABLE | IBV_ACCESS_ZERO_BASED);
	region[R_IOVA] = ibv_reg_mr_iova(n->pd, memory, REGION_LEN, IOVA, BINDABLE);
	region[R_DEVICE] =
		ibv_reg_dm_mr(n->pd, device_memory, 0, REGION_LEN, PROBE_ALL | IBV_ACCESS_ZERO_BASED);
	region[R_NULL] = ibv_alloc_null_mr(n->pd);
	region[R_DEAD] = &dead;
	for (int i = R_NONE + 1; i < R_N; i++)
		if (!region[i])
			DIE("region %d", i);
}

static void close_regions(void)
{
	row("all regions can be deregistered in the end");
	for (int i = R_NONE + 1; i < R_DEAD; i++)
		EXPECT(ibv_dereg_mr(region[i]) == 0, "region %d: errno %d", i, errno);
	EXPECT(ibv_free_dm(device_memory) == 0, "ibv_free_dm");
}

static uint64_t base_of(enum region r)
{
	return r == R_IOVA ? IOVA : r == R_ZERO_BASED || r == R_DEVICE || r == R_NULL ? 0 : (uintptr_t)memory;
}

/* --- requests of the owner --- */

static struct ibv_mw *window(enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, type);

	if (!mw)
		DIE("ibv_alloc_mw: errno %d", errno);
	return mw;
}

static void free_window(struct ibv_mw *mw)
{
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw: errno %d", errno);
}

/* The completion of what was posted on @qp; after an error the queue pair is brought back. */
static enum ibv_wc_status finish(int qp, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	if (node_poll(n, 0, 1, PROBE_PATIENCE, &wc) != 1)
		DIE("no completion");
	EXPECT(wc.opcode == opcode, "opcode %d of the completion", (int)wc.opcode);
	EXPECT(wc.qp_num == n->qp[qp]->qp_num && wc.wr_id == 77, "fields of the completion");
	if (wc.status != SUCCESS)
		probe_reconnect(&b, &a, qp);
	return wc.status;
}

static struct ibv_mw_bind_info info_of(enum region r, uint64_t offset, uint64_t length, unsigned int access)
{
	return (struct ibv_mw_bind_info){
		.mr = region[r],
		.addr = r == R_NONE ? 0 : base_of(r) + offset,
		.length = length,
		.mw_access_flags = access,
	};
}

static int call_bind(int qp, struct ibv_mw *mw, const struct ibv_mw_bind_info *info)
{
	struct ibv_mw_bind bind = {.wr_id = 77, .send_flags = IBV_SEND_SIGNALED, .bind_info = *info};

	errno = 0;
	return ibv_bind_mw(n->qp[qp], mw, &bind);
}

static int post_bind(int qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr wr = {.wr_id = 77, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_qp_ex *ex = qp == QP_EX ? ibv_qp_to_qp_ex(n->qp[qp]) : NULL;

	if (ex) {
		ibv_wr_start(ex);
		ex->wr_id = 77;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_bind_mw(ex, mw, rkey, info);
		mw->rkey = (mw->rkey & ~0xffu) | (rkey & 0xff); /* here it is the program's task */
		return ibv_wr_complete(ex);
	}
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = *info;
	return ibv_post_send(n->qp[qp], &wr, &bad);
}

/* Bind in the way of its type, type 2 with the next key. */
static enum ibv_wc_status bind_info(int qp, struct ibv_mw *mw, const struct ibv_mw_bind_info *info)
{
	int ret =
		mw->type == TYPE1 ? call_bind(qp, mw, info) : post_bind(qp, mw, ibv_inc_rkey(mw->rkey), info);

	if (!EXPECT(ret == 0, "the bind is refused: %d", ret))
		return IBV_WC_GENERAL_ERR;
	return finish(qp, IBV_WC_BIND_MW);
}

static enum ibv_wc_status bind(int qp, struct ibv_mw *mw, enum region r, uint64_t offset, uint64_t length,
			       unsigned int access)
{
	struct ibv_mw_bind_info info = info_of(r, offset, length, access);

	return bind_info(qp, mw, &info);
}

static void need_bind(int qp, struct ibv_mw *mw, enum region r, uint64_t offset, uint64_t length,
		      unsigned int access)
{
	enum ibv_wc_status got = bind(qp, mw, r, offset, length, access);

	EXPECT(got == SUCCESS, "bind: '%s'", ibv_wc_status_str(got));
}

static enum ibv_wc_status invalidate(int qp, uint32_t rkey)
{
	struct ibv_send_wr wr = {.wr_id = 77,
				 .opcode = IBV_WR_LOCAL_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = rkey},
			   *bad;
	struct ibv_qp_ex *ex = qp == QP_EX ? ibv_qp_to_qp_ex(n->qp[qp]) : NULL;
	int ret;

	if (ex) {
		ibv_wr_start(ex);
		ex->wr_id = 77;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_local_inv(ex, rkey);
		ret = ibv_wr_complete(ex);
	} else {
		ret = ibv_post_send(n->qp[qp], &wr, &bad);
	}
	if (!EXPECT(ret == 0, "LOCAL_INV is refused: %d", ret))
		return IBV_WC_GENERAL_ERR;
	return finish(qp, IBV_WC_LOCAL_INV);
}

static void unbind(int qp, struct ibv_mw *mw)
{
	enum ibv_wc_status got = mw->type == TYPE1 ? bind(qp, mw, R_NONE, 0, 0, 0) : invalidate(qp, mw->rkey);

	EXPECT(got == SUCCESS, "unbind: '%s'", ibv_wc_status_str(got));
}

/* --- what the other process finds --- */

static void expect_access(int qp, enum ibv_wr_opcode op, uint64_t addr, uint32_t rkey, bool good)
{
	EXPECT_PROBE(&b, &a, qp, op, addr, rkey, 8, good ? SUCCESS : IBV_WC_REM_ACCESS_ERR);
}

static void expect_open(int qp, uint32_t rkey)
{
	memset(memory, 0, 8);
	expect_access(qp, IBV_WR_RDMA_WRITE, (uintptr_t)memory, rkey, true);
	EXPECT(pattern_check(memory, 8, PROBE_SEED, 0) == -1, "bytes of the WRITE");
	expect_access(qp, IBV_WR_RDMA_READ, (uintptr_t)memory, rkey, true);
}

static void expect_shut(int qp, uint32_t rkey)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD};

	memset(memory, 0x5a, 8);
	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		expect_access(qp, ops[i], (uintptr_t)memory, rkey, false);
		expect_access(qp, ops[i], 0, rkey, false);
	}
	EXPECT(memory[0] == 0x5a && memory[7] == 0x5a, "bytes changed");
}

/* --- allocation --- */

static void alloc_rows(void)
{
	static const struct {
		int type, error;
	} rows[] = {{1, 0}, {2, 0}, {0, EINVAL}, {3, EINVAL}, {-1, EINVAL}, {255, EINVAL}, {257, EINVAL}};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mw *mw;

		row("ibv_alloc_mw of type %d", rows[i].type);
		errno = 0;
		mw = ibv_alloc_mw(n->pd, (enum ibv_mw_type)rows[i].type);
		EXPECT(!mw == !!rows[i].error && (mw || errno == rows[i].error), "errno %d", errno);
		if (!mw)
			continue;
		EXPECT(mw->context == n->ctx && mw->pd == n->pd && (int)mw->type == rows[i].type, "fields");
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
	EXPECT(ibv_dealloc_pd(pd) == EBUSY && errno == EBUSY, "errno %d", errno);
	row("damaged handle of a window");
	handle = mw->handle;
	mw->handle ^= 0x777777;
	EXPECT(ibv_dealloc_mw(mw) == ENOENT && errno == ENOENT, "errno %d", errno);
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

/* --- what may be bound to what --- */

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
	{"a region that cannot be written, for writes", R_BIND_ONLY, 0, 64, IBV_ACCESS_REMOTE_WRITE, LATE,
	 LATE},
	{"a region that cannot be written, for atomics", R_BIND_ONLY, 0, 64, IBV_ACCESS_REMOTE_ATOMIC, LATE,
	 LATE},
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
	enum ibv_wc_status want = readable ? SUCCESS : IBV_WC_REM_ACCESS_ERR, no = IBV_WC_REM_ACCESS_ERR;

	pattern_fill(memory, REGION_LEN, 9, 0);
	EXPECT_PROBE(&b, &a, qp, IBV_WR_RDMA_READ, base, mw->rkey, bytes, want);
	if (readable)
		EXPECT(side_check(&b, PROBE_AT, bytes, 9, (uint64_t)r->offset) == -1, "bytes of the READ");
	EXPECT_PROBE(&b, &a, qp, IBV_WR_RDMA_READ, base + r->length - bytes, mw->rkey, bytes, want);
	EXPECT_PROBE(&b, &a, qp, IBV_WR_RDMA_READ, base + r->length - bytes + 1, mw->rkey, bytes, no);
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

/* The window's rights count, whatever the region grants. */
static void rights_row(enum ibv_mw_type type, enum region r, unsigned int access)
{
	struct ibv_mw *mw = window(type);

	row("type %d: rights 0x%x on a region %s remote rights", (int)type, access,
	    r == R_REMOTE ? "with" : "without");
	need_bind(0, mw, r, 0, REGION_LEN, access);
	expect_access(0, IBV_WR_RDMA_WRITE, (uintptr_t)memory, mw->rkey, access & IBV_ACCESS_REMOTE_WRITE);
	expect_access(0, IBV_WR_RDMA_READ, (uintptr_t)memory, mw->rkey, access & IBV_ACCESS_REMOTE_READ);
	expect_access(0, IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)memory, mw->rkey,
		      access & IBV_ACCESS_REMOTE_ATOMIC);
	expect_access(0, IBV_WR_ATOMIC_CMP_AND_SWP, (uintptr_t)memory, mw->rkey,
		      access & IBV_ACCESS_REMOTE_ATOMIC);
	free_window(mw);
}

static void rights_table(void)
{
	for (unsigned int i = 0; i < 8; i++) {
		unsigned int access = (i & 1 ? IBV_ACCESS_REMOTE_WRITE : 0) | (i & 2 ? READ_RIGHT : 0) |
				      (i & 4 ? IBV_ACCESS_REMOTE_ATOMIC : 0);

		rights_row(TYPE1, R_PLAIN, access);
		rights_row(TYPE2, R_PLAIN, access);
		rights_row(TYPE2, R_REMOTE, access);
	}
}

/* --- the ends of a binding --- */

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
	struct ibv_mw *one = ibv_alloc_mw(n->other_pd, TYPE1), *two = ibv_alloc_mw(n->other_pd, TYPE2);
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
	EXPECT(bind(0, mw, R_NO_BIND, 0, 64, READ_RIGHT) == BIND_ERR, "bound");
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
	EXPECT(bind(qp, mw, R_PLAIN, 0, 0, ALL_REMOTE) == BIND_ERR, "bound");
	row("type 2 on queue pair %d: no region, length 0", qp);
	EXPECT(bind(qp, mw, R_NONE, 0, 0, 0) == BIND_ERR, "bound");
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
		expect_access(0, IBV_WR_RDMA_READ, (uintptr_t)memory, index | ((tag + 1) & 0xff), false);
		EXPECT(invalidate(0, mw->rkey) == SUCCESS, "LOCAL_INV");
		expect_access(0, IBV_WR_RDMA_READ, (uintptr_t)memory, mw->rkey, false);
	}
	row("type 2: the same key again after invalidation");
	EXPECT(post_bind(0, mw, mw->rkey, &info) == 0 && finish(0, IBV_WC_BIND_MW) == SUCCESS, "bind");
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

/* --- LOCAL_INV of what cannot be invalidated --- */

static void invalidate_row(const char *name, uint32_t rkey, enum ibv_wc_status want)
{
	enum ibv_wc_status got;

	row("LOCAL_INV of %s", name);
	got = invalidate(0, rkey);
	EXPECT(got == want, "'%s', not '%s'", ibv_wc_status_str(got), ibv_wc_status_str(want));
	row("LOCAL_INV of %s, posted by ibv_wr_local_inv", name);
	got = invalidate(QP_EX, rkey);
	EXPECT(got == want, "'%s', not '%s'", ibv_wc_status_str(got), ibv_wc_status_str(want));
}

static void invalidate_rows(void)
{
	struct ibv_mw *one = window(TYPE1), *two = window(TYPE2), *bound = window(TYPE2),
		      *gone = window(TYPE2);
	uint32_t freed = gone->rkey;

	need_bind(0, one, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	need_bind(1, bound, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	free_window(gone);
	invalidate_row("key 0", 0, IBV_WC_LOC_QP_OP_ERR);
	invalidate_row("a key never given out", 0x7fffff00, IBV_WC_LOC_QP_OP_ERR);
	invalidate_row("a region's key", region[R_REMOTE]->rkey, IBV_WC_LOC_QP_OP_ERR);
	invalidate_row("a freed window's key", freed, IBV_WC_LOC_QP_OP_ERR);
	invalidate_row("a window of type 1", one->rkey, BIND_ERR);
	invalidate_row("a window that is not bound", two->rkey, BIND_ERR);
	invalidate_row("a window bound on another queue pair", bound->rkey, BIND_ERR);
	invalidate_row("an older key of a bound window", (bound->rkey & ~0xffu) | ((bound->rkey - 1) & 0xff),
		       BIND_ERR);
	row("after refused invalidations all is as before");
	expect_open(0, one->rkey);
	expect_open(1, bound->rkey);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)memory, region[R_REMOTE]->rkey, 8, SUCCESS);
	free_window(one);
	free_window(two);
	free_window(bound);
}

/* --- SEND_WITH_INV --- */

static struct node_send send_inv(uint32_t rkey, uint32_t bytes)
{
	return (struct node_send){.opcode = IBV_WR_SEND_WITH_INV,
				  .flags = IBV_SEND_SIGNALED,
				  .imm = rkey, /* one field with invalidate_rkey */
				  .num_sge = bytes > 0,
				  .sge = {side_sge(&b, KEY_FULL, PROBE_AT, bytes)}};
}

static void send_inv_row(uint32_t bytes)
{
	struct ibv_mw *mw = window(TYPE2);
	struct node_send s;
	struct ibv_wc sent, wc = {.status = IBV_WC_GENERAL_ERR};

	row("SEND_WITH_INV of %u bytes shuts the window before its receive completes", bytes);
	need_bind(0, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	s = send_inv(mw->rkey, bytes);
	side_fill(&b, PROBE_AT, bytes, 6, 0);
	side_recv_one(&a, 0, 5, 0x300000, bytes);
	EXPECT(side_post_send(&b, 0, &s, 1).ret == 0, "ibv_post_send");
	EXPECT(side_poll(&b, 0, 1, PROBE_PATIENCE, &sent) == 1 && sent.status == SUCCESS &&
		       sent.opcode == IBV_WC_SEND,
	       "sender: '%s'", ibv_wc_status_str(sent.status));
	EXPECT(node_poll(n, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == SUCCESS, "receiver: '%s'",
	       ibv_wc_status_str(wc.status));
	EXPECT(wc.opcode == IBV_WC_RECV && wc.wc_flags == IBV_WC_WITH_INV &&
		       wc.invalidated_rkey == mw->rkey && wc.byte_len == bytes && wc.wr_id == 5,
	       "completion: opcode %d, flags %u, key 0x%x", (int)wc.opcode, (unsigned int)wc.wc_flags,
	       wc.invalidated_rkey);
	EXPECT(side_check(&a, 0x300000, bytes, 6, 0) == -1, "bytes of the message");
	expect_shut(0, mw->rkey);
	need_bind(1, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	expect_open(1, mw->rkey);
	free_window(mw);
}

/* WRITE, SEND_WITH_INV, WRITE in one list: the second WRITE comes too late. */
static void send_inv_order_row(void)
{
	struct ibv_mw *mw = window(TYPE2);
	struct node_send list[3];
	struct ibv_wc wc[3];

	row("WRITE, SEND_WITH_INV and WRITE in one list");
	need_bind(0, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	list[1] = send_inv(mw->rkey, 0);
	list[0] = list[2] = (struct node_send){.opcode = IBV_WR_RDMA_WRITE,
					       .flags = IBV_SEND_SIGNALED,
					       .remote_addr = (uintptr_t)memory,
					       .rkey = mw->rkey,
					       .num_sge = 1,
					       .sge = {side_sge(&b, KEY_FULL, PROBE_AT, 64)}};
	list[2].remote_addr += 64;
	memset(memory, 0, 128);
	side_fill(&b, PROBE_AT, 64, 8, 0);
	side_recv_one(&a, 0, 5, 0x300000, 64);
	EXPECT(side_post_send(&b, 0, list, 3).ret == 0, "ibv_post_send");
	EXPECT(side_poll(&b, 0, 3, PROBE_PATIENCE, wc) == 3, "completions");
	EXPECT(wc[0].status == SUCCESS && wc[1].status == SUCCESS && wc[2].status == IBV_WC_REM_ACCESS_ERR,
	       "%d %d %d", (int)wc[0].status, (int)wc[1].status, (int)wc[2].status);
	EXPECT(pattern_check(memory, 64, 8, 0) == -1 && memory[64] == 0, "bytes");
	probe_reconnect(&b, &a, 0);
	free_window(mw);
}

/* What cannot be invalidated: the receive fails, and the sender hears nothing until its retries are spent. */
static void bad_send_inv_row(const char *name, int qp, uint32_t rkey)
{
	struct node_send s = send_inv(rkey, 8);
	struct ibv_wc sent = {.status = SUCCESS}, wc = {.status = SUCCESS};

	row("SEND_WITH_INV of %s", name);
	side_recv_one(&a, qp, 5, 0x300000, 64);
	EXPECT(side_post_send(&b, qp, &s, 1).ret == 0, "ibv_post_send");
	EXPECT(node_poll(n, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.status != SUCCESS && wc.wr_id == 5,
	       "receiver: '%s'", ibv_wc_status_str(wc.status));
	EXPECT(side_poll(&b, 0, 1, PROBE_PATIENCE, &sent) == 1 && sent.status == IBV_WC_RETRY_EXC_ERR,
	       "sender: '%s'", ibv_wc_status_str(sent.status));
	probe_reconnect(&b, &a, qp);
}

static void bad_send_inv_rows(void)
{
	struct ibv_mw *one = window(TYPE1), *two = window(TYPE2);

	need_bind(0, one, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	need_bind(0, two, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	bad_send_inv_row("key 0", 0, 0);
	bad_send_inv_row("a key never given out", 0, 0x7fffff00);
	bad_send_inv_row("a region's key", 0, region[R_REMOTE]->rkey);
	bad_send_inv_row("a window of type 1", 0, one->rkey);
	bad_send_inv_row("a window bound on another queue pair", 1, two->rkey);
	bad_send_inv_row("an older key of the window", 0, (two->rkey & ~0xffu) | ((two->rkey - 1) & 0xff));
	row("after refused invalidations both windows are open");
	expect_open(0, one->rkey);
	expect_open(0, two->rkey);
	free_window(one);
	free_window(two);
}

/* Posted through ibv_wr_send_inv() by the owner to the other side, whose key nothing is known of: refused
 * there. */
static void wr_send_inv_row(void)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(n->qp[QP_EX]);
	struct ibv_wc wc = {.status = SUCCESS}, theirs = {.status = SUCCESS};

	row("ibv_wr_send_inv of a key that is not a window's");
	side_recv_one(&b, QP_EX, 5, 0x300000, 64);
	ibv_wr_start(ex);
	ex->wr_id = 77;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_inv(ex, b.info.key[KEY_FULL]);
	ibv_wr_set_sge(ex, n->mr[KEY_FULL]->lkey, (uintptr_t)n->arena, 8);
	EXPECT(ibv_wr_complete(ex) == 0, "ibv_wr_complete");
	EXPECT(side_poll(&b, 1, 1, PROBE_PATIENCE, &theirs) == 1 && theirs.status != SUCCESS, "receiver");
	EXPECT(node_poll(n, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == IBV_WC_RETRY_EXC_ERR,
	       "sender: '%s'", ibv_wc_status_str(wc.status));
	probe_reconnect(&b, &a, QP_EX);
}

/* --- keys are for what they are --- */

static void key_rows(void)
{
	struct ibv_mw *mw = window(TYPE2);
	struct node_send s = {.opcode = IBV_WR_RDMA_WRITE,
			      .flags = IBV_SEND_SIGNALED,
			      .remote_addr = b.info.base[KEY_FULL] + PROBE_AT,
			      .rkey = b.info.key[KEY_FULL],
			      .num_sge = 1};

	row("a window's key is no lkey");
	need_bind(0, mw, R_REMOTE, 0, REGION_LEN, ALL_REMOTE);
	s.sge[0] = (struct ibv_sge){.addr = (uintptr_t)memory, .length = 8, .lkey = mw->rkey};
	EXPECT(probe_request(&a, &b, 0, &s) == IBV_WC_LOC_PROT_ERR, "used");
	row("the region's own key permits what the region permits, not the window");
	expect_shut(0, region[R_PLAIN]->rkey);
	expect_open(0, region[R_REMOTE]->rkey);
	free_window(mw);
}

/*
 * A freed window's last key must not be the key of what comes to lie in its place.
 * The place is found by making and freeing windows until it has come around.
 */
static void reuse_row(enum ibv_mw_type type, bool region_next)
{
	struct ibv_mw *mw = window(type);
	uint32_t index = mw->rkey >> 8, last, got = 0;

	row("type %d: the key it was bound with is not given to the next %s in its place", (int)type,
	    region_next ? "region" : "window");
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

/* --- order of requests --- */

static void list_rows(void)
{
	struct ibv_mw *mw = window(TYPE2);
	struct ibv_send_wr send = {.wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_send_wr bindwr = {.wr_id = 1, .next = &send, .opcode = IBV_WR_BIND_MW};
	struct ibv_wc wc[2];

	row("an unsignalled bind and a SEND: whoever has the message can use the key");
	bindwr.bind_mw.mw = mw;
	bindwr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bindwr.bind_mw.bind_info = info_of(R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	side_recv_one(&b, 0, 5, 0x300000, 64);
	EXPECT(ibv_post_send(n->qp[0], &bindwr, &bad) == 0, "ibv_post_send");
	EXPECT(side_poll(&b, 1, 1, PROBE_PATIENCE, wc) == 1, "receive");
	expect_open(0, mw->rkey);
	EXPECT(node_poll(n, 0, 1, PROBE_PATIENCE, wc) == 1 && wc[0].wr_id == 2 && wc[0].status == SUCCESS,
	       "completion");
	EXPECT(node_poll(n, 0, 1, 0, wc) == 0, "a completion of the unsignalled bind");
	row("an unsignalled bind that fails completes, and the SEND behind it is flushed");
	side_recv_one(&b, 0, 5, 0x300000, 64);
	EXPECT(ibv_post_send(n->qp[0], &bindwr, &bad) == 0, "ibv_post_send");
	EXPECT(node_poll(n, 0, 2, PROBE_PATIENCE, wc) == 2, "completions");
	EXPECT(wc[0].wr_id == 1 && wc[0].status == BIND_ERR && wc[0].opcode == IBV_WC_BIND_MW, "bind");
	EXPECT(wc[1].wr_id == 2 && wc[1].status == IBV_WC_WR_FLUSH_ERR, "SEND");
	EXPECT(side_poll(&b, 1, 1, 0, wc) == 0, "a message behind a failed bind");
	EXPECT(node_state(n, 0) == IBV_QPS_ERR, "state %d", (int)node_state(n, 0));
	probe_reconnect(&b, &a, 0);
	free_window(mw);
}

static void flushed_row(void)
{
	struct ibv_mw *one = window(TYPE1), *two = window(TYPE2);

	row("bind and LOCAL_INV on a queue pair in error");
	EXPECT(node_set_state(n, 0, IBV_QPS_ERR) == 0, "to ERR");
	EXPECT(bind(0, one, R_PLAIN, 0, REGION_LEN, ALL_REMOTE) == IBV_WC_WR_FLUSH_ERR, "type 1");
	EXPECT(node_set_state(n, 0, IBV_QPS_ERR) == 0, "to ERR");
	EXPECT(bind(0, two, R_PLAIN, 0, REGION_LEN, ALL_REMOTE) == IBV_WC_WR_FLUSH_ERR, "type 2");
	EXPECT(node_set_state(n, 0, IBV_QPS_ERR) == 0, "to ERR");
	EXPECT(invalidate(0, two->rkey) == IBV_WC_WR_FLUSH_ERR, "LOCAL_INV");
	expect_shut(0, one->rkey);
	expect_shut(0, two->rkey);
	free_window(one);
	free_window(two);
}

static void full_row(void)
{
	struct ibv_mw *mw = window(TYPE1);
	struct ibv_mw_bind bind = {.wr_id = 77, .bind_info = info_of(R_PLAIN, 0, REGION_LEN, ALL_REMOTE)};
	uint32_t rkey;
	int ret = 0, i;

	row("ibv_bind_mw with a full send queue");
	for (i = 0; i < 1000 && ret == 0; i++) {
		rkey = mw->rkey;
		ret = ibv_bind_mw(n->qp[0], mw, &bind);
	}
	EXPECT(ret == ENOMEM && i == 17, "%d after %d", ret, i);
	EXPECT(mw->rkey == rkey, "the key has changed");
	expect_open(0, rkey);
	probe_reconnect(&b, &a, 0);
	free_window(mw);
}

/* --- regions with windows --- */

static void expect_busy(struct ibv_mr *mr)
{
	int ret;

	errno = 0;
	ret = ibv_dereg_mr(mr);
	EXPECT(ret == EBUSY && errno == EBUSY, "ibv_dereg_mr: %d, errno %d", ret, errno);
}

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
	expect_busy(mr);
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
		expect_busy(mr);
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

/* --- shut at once, while another process writes without pause --- */

#define FLOOD_BYTES 16384u

static struct flood flood;

enum shut { SHUT_UNBIND, SHUT_INVALIDATE, SHUT_FREE_1, SHUT_FREE_2, SHUT_REBIND, SHUT_N };

static void shut(enum shut how, struct ibv_mw *mw)
{
	switch (how) {
	case SHUT_UNBIND:
	case SHUT_INVALIDATE:
		unbind(QP_FLOOD, mw);
		break;
	case SHUT_REBIND:
		need_bind(QP_FLOOD, mw, R_PLAIN, FLOOD_BYTES, FLOOD_BYTES, ALL_REMOTE);
		break;
	default:
		free_window(mw);
	}
}

static bool only(uint64_t value)
{
	for (uint64_t i = 0; i < FLOOD_BYTES / 8; i++)
		if (((volatile uint64_t *)memory)[i] != value)
			return false;
	return true;
}

/* The bind's completion must be taken before the flood begins, and the end's while it runs: same send CQ. */
static void shut_row(enum shut how)
{
	static const char *const names[] = {"unbound", "invalidated", "freed (type 1)", "freed (type 2)",
					    "bound elsewhere"};
	bool type2 = how == SHUT_INVALIDATE || how == SHUT_FREE_2;

	row("a window is %s while another process writes through it", names[how]);
	for (int i = 0; i < 15; i++) {
		struct ibv_mw *mw = window(type2 ? TYPE2 : TYPE1);
		struct flood_report report;

		need_bind(QP_FLOOD, mw, R_PLAIN, 0, FLOOD_BYTES, ALL_REMOTE);
		flood_go(&flood,
			 &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)memory, mw->rkey, FLOOD_BYTES});
		shut(how, mw);
		memset(memory, 0xff, FLOOD_BYTES);
		report = flood_until_failure(&flood);
		EXPECT(report.status == IBV_WC_REM_ACCESS_ERR, "'%s'", ibv_wc_status_str(report.status));
		EXPECT(report.done > 0, "nothing was written before");
		EXPECT(only(UINT64_MAX), "written after it was shut");
		flood_reconnect(&flood);
		if (how != SHUT_FREE_1 && how != SHUT_FREE_2)
			free_window(mw);
	}
}

static void destroy_row(void)
{
	struct flood_report report;
	struct ibv_mw *mw = window(TYPE2);
	struct node_qp_spec spec = spec_default();

	row("the queue pair of a window is destroyed while another process writes through it");
	need_bind(QP_FLOOD, mw, R_PLAIN, 0, FLOOD_BYTES, ALL_REMOTE);
	flood_go(&flood, &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)memory, mw->rkey, FLOOD_BYTES});
	EXPECT(node_destroy_qp(n, QP_FLOOD) == 0, "ibv_destroy_qp");
	memset(memory, 0xff, FLOOD_BYTES);
	report = flood_until_failure(&flood);
	EXPECT(report.status == IBV_WC_RETRY_EXC_ERR, "'%s'", ibv_wc_status_str(report.status));
	EXPECT(only(UINT64_MAX), "written after the queue pair was destroyed");
	free_window(mw);
	EXPECT(node_create_qp(n, QP_FLOOD, &spec) == 0, "ibv_create_qp");
	flood_reconnect(&flood);
}

static void steady_row(void)
{
	struct ibv_mw *mw = window(TYPE1), *other = window(TYPE2);
	struct flood_report report;

	row("a window is untouched by what happens to others of its region");
	need_bind(0, mw, R_PLAIN, 0, FLOOD_BYTES, ALL_REMOTE);
	flood_go(&flood, &(struct flood_work){IBV_WR_RDMA_WRITE, (uintptr_t)memory, mw->rkey, FLOOD_BYTES});
	for (int i = 0; i < 1000 && !flood_failed(&flood); i++) {
		need_bind(0, other, R_PLAIN, 0, FLOOD_BYTES, ALL_REMOTE);
		unbind(0, other);
	}
	report = flood_stop(&flood);
	EXPECT(report.status == SUCCESS, "'%s'", ibv_wc_status_str(report.status));
	free_window(mw);
	free_window(other);
}

static void flood_rows(void)
{
	flood_start(&flood, &a, QP_FLOOD);
	for (enum shut how = SHUT_UNBIND; how < SHUT_N; how++)
		shut_row(how);
	destroy_row();
	steady_row();
	flood_end(&flood);
}

/* --- */

static void open_ex(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = n,
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = spec_default().cap,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = n->pd,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
				  IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_SEND,
	};
	struct node_qp_spec spec = spec_default();

	n->qp[QP_EX] = ibv_create_qp_ex(n->ctx, &attr);
	if (!n->qp[QP_EX] || side_create_qp(&b, QP_EX, &spec, NULL))
		DIE("ibv_create_qp_ex: errno %d", errno);
	pair_connect(&b, QP_EX, NULL, &a, QP_EX, NULL);
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
	alloc_rows();
	object_rows();
	bind_table();
	rights_table();
	refused_calls();
	damaged_rows();
	foreign_window_rows();
	type1_rows();
	type1_keys_row();
	type2_rows();
	invalidate_rows();
	send_inv_row(0);
	send_inv_row(8);
	send_inv_row(5000);
	send_inv_row(40000);
	send_inv_order_row();
	bad_send_inv_rows();
	wr_send_inv_row();
	key_rows();
	reuse_row(TYPE1, true);
	reuse_row(TYPE2, true);
	reuse_row(TYPE1, false);
	reuse_row(TYPE2, false);
	list_rows();
	flushed_row();
	full_row();
	dereg_rows();
	many_windows_row();
	destroyed_rows();
	flood_rows();
}

int main(int argc, char **argv)
{
	time_limit(90);
	flood_agent_main(argc, argv);
	side_agent_main(argc, argv);
	sandbox_enter();
	side_open(&a, NULL);
	side_start(&b);
	n = a.node;
	memory = n->arena + REGION_AT;
	open_regions();
	probe_open(&b, &a, 0);
	probe_open(&b, &a, 1);
	open_ex();
	run();
	for (int qp = 0; qp <= QP_EX; qp++)
		probe_close(&b, &a, qp);
	close_regions();
	side_stop(&b);
	side_stop(&a);
	sandbox_leave();
	return summary();
}
