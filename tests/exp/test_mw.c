/* SPDX-License-Identifier: MIT */
/*
 * Memory windows through the experimental verbs, ibv_exp_bind_mw() for type 1 and work requests of
 * ibv_exp_post_send() for type 2: what can be bound and with which rights, rebinding, and each way
 * to end a binding. Another process, with plain verbs, accesses them.
 */
#include <errno.h>
#include <string.h>
#include <infiniband/verbs_exp.h>

#include "multi/windows/mw_fixture.h"

#define SIGNALED  IBV_EXP_SEND_SIGNALED
#define EXP_READ  IBV_EXP_ACCESS_REMOTE_READ
#define EXP_WRITE IBV_EXP_ACCESS_REMOTE_WRITE
#define EXP_ALL	  (EXP_READ | EXP_WRITE | IBV_EXP_ACCESS_REMOTE_ATOMIC)
#define MESSAGE	  0x300000u /* in the arenas: of messages that invalidate */
#define LATE	  0	    /* refused by its completion */
#define OK	  -1	    /* not refused */

/* --- the owner's requests -------------------------------------------------------- */

static struct ibv_exp_mw_bind_info exp_info(enum region r, uint64_t offset, uint64_t length,
					    uint64_t access)
{
	return (struct ibv_exp_mw_bind_info){
		.mr = region[r],
		.addr = r == R_NONE ? 0 : base_of(r) + offset,
		.length = length,
		.exp_mw_access_flags = access,
	};
}

/* The completion of what was posted on queue pair 0; after an error the queue pair is brought back.
 */
static enum ibv_wc_status exp_finish(enum ibv_exp_wc_opcode opcode)
{
	uint64_t end = now_ms() + PROBE_PATIENCE;
	struct ibv_exp_wc wc;
	int got;

	do
		got = ibv_exp_poll_cq(n->cq[0], 1, &wc, sizeof(wc));
	while (got == 0 && now_ms() < end);
	if (got != 1)
		DIE("no completion");
	EXPECT(wc.wr_id == 77 && wc.qp_num == n->qp[0]->qp_num, "fields of the completion");
	EXPECT(wc.status != SUCCESS || wc.exp_opcode == opcode, "opcode %d of the completion",
	       (int)wc.exp_opcode);
	if (wc.status != SUCCESS)
		probe_reconnect(&b, &a, 0);
	return wc.status;
}

static int call_exp_bind(struct ibv_mw *mw, const struct ibv_exp_mw_bind_info *info)
{
	struct ibv_exp_mw_bind bind = {.qp = n->qp[0],
				       .mw = mw,
				       .wr_id = 77,
				       .exp_send_flags = SIGNALED,
				       .bind_info = *info};

	errno = 0;
	return ibv_exp_bind_mw(&bind);
}

/* Fields that the request does not need are garbage: programs leave them so. */
static struct ibv_exp_send_wr exp_request(enum ibv_exp_wr_opcode opcode, uint64_t flags)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0xa5, sizeof(wr));
	wr.wr_id = 77;
	wr.next = NULL;
	wr.sg_list = NULL;
	wr.num_sge = 0;
	wr.exp_opcode = opcode;
	wr.exp_send_flags = flags | SIGNALED;
	return wr;
}

static int post_exp_bind(struct ibv_mw *mw, uint32_t rkey, const struct ibv_exp_mw_bind_info *info,
			 uint64_t flags)
{
	struct ibv_exp_send_wr wr = exp_request(IBV_EXP_WR_BIND_MW, flags), *bad = NULL;
	int ret;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = *info;
	errno = 0;
	ret = ibv_exp_post_send(n->qp[0], &wr, &bad);
	EXPECT(ret == 0 || (bad == &wr && errno == ret), "bad_wr or errno %d", errno);
	return ret;
}

/* In the way of its type. For type 2 the key is the program's to keep. Return: as the call does */
static int exp_bind(struct ibv_mw *mw, const struct ibv_exp_mw_bind_info *info)
{
	uint32_t next = ibv_inc_rkey(mw->rkey);
	int ret = mw->type == TYPE1 ? call_exp_bind(mw, info) : post_exp_bind(mw, next, info, 0);

	if (ret == 0 && mw->type == TYPE2)
		mw->rkey = next;
	return ret;
}

static void need_exp_bind(struct ibv_mw *mw, enum region r, uint64_t access)
{
	struct ibv_exp_mw_bind_info info = exp_info(r, 0, REGION_LEN, access);
	enum ibv_wc_status got;

	if (!EXPECT(exp_bind(mw, &info) == 0, "refused: errno %d", errno))
		return;
	got = exp_finish(IBV_EXP_WC_BIND_MW);
	EXPECT(got == SUCCESS, "bind: '%s'", ibv_wc_status_str(got));
}

static enum ibv_wc_status exp_invalidate(uint32_t rkey, uint64_t flags)
{
	struct ibv_exp_send_wr wr = exp_request(IBV_EXP_WR_LOCAL_INV, flags), *bad;

	wr.ex.invalidate_rkey = rkey;
	if (!EXPECT(ibv_exp_post_send(n->qp[0], &wr, &bad) == 0, "LOCAL_INV is refused: errno %d",
		    errno))
		return IBV_WC_GENERAL_ERR;
	return exp_finish(IBV_EXP_WC_LOCAL_INV);
}

/* --- what can be bound ----------------------------------------------------------- */

static const struct bind_row {
	const char *name;
	enum region r;
	int64_t offset;
	uint64_t length, access;
	int type1, type2; /* OK, LATE, or the errno value of the call */
} bind_rows[] = {
	{"all of a region, all rights", R_PLAIN, 0, REGION_LEN, EXP_ALL, OK, OK},
	{"reads", R_PLAIN, 0, 64, EXP_READ, OK, OK},
	{"writes", R_PLAIN, 0, 64, EXP_WRITE, OK, OK},
	{"no rights", R_PLAIN, 0, 64, 0, OK, OK},
	{"the last bytes", R_PLAIN, REGION_LEN - 8, 8, EXP_ALL, OK, OK},
	{"a region with addresses of its own", R_IOVA, 16, 64, EXP_ALL, OK, OK},
	{"a region that cannot be written, for reads", R_BIND_ONLY, 0, 64, EXP_READ, OK, OK},
	{"a region that cannot be written, for writes", R_BIND_ONLY, 0, 64, EXP_WRITE, LATE, LATE},
	{"a region that cannot be written, for atomics", R_BIND_ONLY, 0, 64,
	 IBV_EXP_ACCESS_REMOTE_ATOMIC, LATE, LATE},
	{"a region without MW_BIND", R_NO_BIND, 0, 64, EXP_READ, LATE, LATE},
	{"a region of another domain", R_OTHER_PD, 0, 64, EXP_READ, EPERM, LATE},
	{"device memory", R_DEVICE, 0, 64, EXP_READ, ENOTSUP, LATE},
	{"a deregistered region", R_DEAD, 0, 64, EXP_READ, LATE, LATE},
	{"one byte too many", R_PLAIN, 0, REGION_LEN + 1, EXP_READ, LATE, LATE},
	{"a length that wraps", R_PLAIN, 8, UINT64_MAX - 7, EXP_READ, LATE, LATE},
	{"zero based", R_PLAIN, 4096, 64, IBV_EXP_ACCESS_MW_ZERO_BASED | EXP_ALL, EINVAL, OK},
	{"MW_BIND for the window", R_PLAIN, 0, 64, IBV_EXP_ACCESS_MW_BIND, LATE, LATE},
	{"ON_DEMAND for the window", R_PLAIN, 0, 64, IBV_EXP_ACCESS_ON_DEMAND, LATE, LATE},
	{"ALLOCATE_MR for the window", R_PLAIN, 0, 64, IBV_EXP_ACCESS_ALLOCATE_MR, EINVAL, EINVAL},
	{"an unknown right", R_PLAIN, 0, 64, 1ull << 60, EINVAL, EINVAL},
	{"no region, but a length", R_NONE, 0, 64, EXP_READ, EINVAL, LATE},
};

/* 8 bytes at @addr, by each operation: permitted as the rights have it, if it is within the window
 * at all. */
static void expect_rights(uint64_t addr, uint32_t rkey, uint64_t access, bool within)
{
	expect_access(0, IBV_WR_RDMA_READ, addr, rkey, within && (access & EXP_READ));
	expect_access(0, IBV_WR_RDMA_WRITE, addr, rkey, within && (access & EXP_WRITE));
	expect_access(0, IBV_WR_ATOMIC_FETCH_AND_ADD, addr, rkey,
		      within && (access & IBV_EXP_ACCESS_REMOTE_ATOMIC));
}

static void bind_row(const struct bind_row *r, enum ibv_mw_type type)
{
	struct ibv_exp_mw_bind_info info =
		exp_info(r->r, (uint64_t)r->offset, r->length, r->access);
	uint64_t base = r->access & IBV_EXP_ACCESS_MW_ZERO_BASED ? 0 : info.addr;
	int want = type == TYPE1 ? r->type1 : r->type2, ret;
	struct ibv_mw *mw = window(type);
	uint32_t before = mw->rkey;
	enum ibv_wc_status got;

	row("type %d: %s", (int)type, r->name);
	ret = exp_bind(mw, &info);
	EXPECT(ret == (want > 0 ? want : 0) && errno == ret, "%d, errno %d", ret, errno);
	if (want > 0) {
		EXPECT(mw->rkey == before, "the key has changed");
	} else {
		got = exp_finish(IBV_EXP_WC_BIND_MW);
		EXPECT(got == (want == OK ? SUCCESS : BIND_ERR), "'%s'", ibv_wc_status_str(got));
		EXPECT(mw->rkey == ibv_inc_rkey(before), "key 0x%x after 0x%x", mw->rkey, before);
	}
	if (want == OK) {
		expect_rights(base, mw->rkey, r->access, true);
		expect_rights(base + r->length - 8, mw->rkey, r->access, true);
		expect_rights(base + r->length, mw->rkey, r->access, false);
		expect_rights(base - 8, mw->rkey, r->access, false);
	} else {
		expect_shut(0, mw->rkey);
	}
	free_window(mw);
}

/* What the header of the verb says beside the window itself. */
static void call_rows(void)
{
	const struct {
		const char *name;
		enum ibv_mw_type type;
		uint64_t flags;
		uint32_t comp_mask;
		int want;
	} rows[] = {
		{"fenced and solicited", TYPE1,
		 SIGNALED | IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SOLICITED, 0, 0},
		{"mask of the page's example", TYPE1, SIGNALED, IBV_EXP_BIND_MW_RESERVED - 1, 0},
		{"a window of type 2", TYPE2, SIGNALED, 0, EINVAL},
		{"inline", TYPE1, SIGNALED | IBV_EXP_SEND_INLINE, 0, EINVAL},
		{"an unknown flag", TYPE1, SIGNALED | 1ull << 50, 0, EINVAL},
		{"an unknown mask", TYPE1, SIGNALED, IBV_EXP_BIND_MW_RESERVED, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mw *mw = window(rows[i].type);
		struct ibv_exp_mw_bind bind = {
			.qp = n->qp[0],
			.mw = mw,
			.wr_id = 77,
			.exp_send_flags = rows[i].flags,
			.bind_info = exp_info(R_PLAIN, 0, REGION_LEN, EXP_ALL),
			.comp_mask = rows[i].comp_mask,
		};
		int ret;

		row("ibv_exp_bind_mw: %s", rows[i].name);
		errno = 0;
		ret = ibv_exp_bind_mw(&bind);
		EXPECT(ret == rows[i].want && errno == ret, "%d, errno %d", ret, errno);
		if (ret == 0 && exp_finish(IBV_EXP_WC_BIND_MW) == SUCCESS)
			expect_open(0, mw->rkey);
		free_window(mw);
	}
}

/* --- from bind to bind ----------------------------------------------------------- */

static void type1_rows(void)
{
	struct ibv_exp_mw_bind_info none = exp_info(R_NONE, 0, 0, 0),
				    bad = exp_info(R_NO_BIND, 0, 64, EXP_READ);
	struct ibv_mw *mw = window(TYPE1);
	uint32_t first, second;

	row("type 1: rebound, and the old key is shut");
	need_exp_bind(mw, R_PLAIN, EXP_ALL);
	first = mw->rkey;
	need_exp_bind(mw, R_REMOTE, EXP_ALL);
	second = mw->rkey;
	EXPECT(second == ibv_inc_rkey(first), "key");
	expect_open(0, second);
	expect_shut(0, first);
	row("type 1: rebound by the plain verb and again by the experimental one");
	need_bind(1, mw, R_PLAIN, 0, REGION_LEN, ALL_REMOTE);
	expect_shut(0, second);
	need_exp_bind(mw, R_PLAIN, EXP_ALL);
	expect_open(0, mw->rkey);
	row("type 1: a rebind that fails; the program restores the old key");
	first = mw->rkey;
	EXPECT(exp_bind(mw, &bad) == 0 && exp_finish(IBV_EXP_WC_BIND_MW) == BIND_ERR, "bound");
	expect_shut(0, mw->rkey);
	mw->rkey = first;
	expect_open(0, first);
	row("type 1: unbound by length 0");
	EXPECT(exp_bind(mw, &none) == 0 && exp_finish(IBV_EXP_WC_BIND_MW) == SUCCESS, "refused");
	expect_shut(0, mw->rkey);
	expect_shut(0, first);
	row("type 1: bound again after that");
	need_exp_bind(mw, R_PLAIN, EXP_ALL);
	expect_open(0, mw->rkey);
	free_window(mw);
}

static void type2_rows(void)
{
	struct ibv_exp_mw_bind_info info = exp_info(R_PLAIN, 0, REGION_LEN, EXP_ALL);
	struct ibv_mw *mw = window(TYPE2);
	uint32_t first;

	row("type 2: bound again without invalidation");
	need_exp_bind(mw, R_PLAIN, EXP_ALL);
	first = mw->rkey;
	EXPECT(post_exp_bind(mw, ibv_inc_rkey(first), &info, 0) == 0 &&
		       exp_finish(IBV_EXP_WC_BIND_MW) == BIND_ERR,
	       "bound");
	expect_open(0, first);
	row("type 2: LOCAL_INV, fenced, and bound again");
	EXPECT(exp_invalidate(first, IBV_EXP_SEND_FENCE) == SUCCESS, "invalidation");
	expect_shut(0, first);
	need_exp_bind(mw, R_PLAIN, EXP_ALL);
	expect_open(0, mw->rkey);
	expect_shut(0, first);
	row("type 2: LOCAL_INV of an older key");
	EXPECT(exp_invalidate(first, 0) == BIND_ERR, "invalidated");
	expect_open(0, mw->rkey);
	row("type 2: LOCAL_INV of a region's key");
	EXPECT(exp_invalidate(region[R_REMOTE]->rkey, 0) == IBV_WC_LOC_QP_OP_ERR, "invalidated");
	row("type 2: bound with a key whose index is another's");
	EXPECT(post_exp_bind(mw, mw->rkey ^ 0x5500, &info, 0) == 0 &&
		       exp_finish(IBV_EXP_WC_BIND_MW) != SUCCESS,
	       "bound");
	free_window(mw);
}

/* Bind, invalidate and bind in one list, of which only the last is signalled. */
static void list_row(void)
{
	struct ibv_mw *mw = window(TYPE2);
	uint32_t first = ibv_inc_rkey(mw->rkey), second = ibv_inc_rkey(first);
	struct ibv_exp_send_wr wr[3], *bad;

	row("type 2: bound, invalidated and bound in one list");
	for (int i = 0; i < 3; i++) {
		wr[i] = exp_request(i == 1 ? IBV_EXP_WR_LOCAL_INV : IBV_EXP_WR_BIND_MW, 0);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
		wr[i].exp_send_flags = i < 2 ? 0 : SIGNALED;
		wr[i].bind_mw.mw = mw;
		wr[i].bind_mw.rkey = i == 0 ? first : second;
		wr[i].bind_mw.bind_info = exp_info(R_PLAIN, 0, REGION_LEN, EXP_ALL);
	}
	wr[1].ex.invalidate_rkey = first;
	EXPECT(ibv_exp_post_send(n->qp[0], wr, &bad) == 0 &&
		       exp_finish(IBV_EXP_WC_BIND_MW) == SUCCESS,
	       "refused");
	expect_shut(0, first);
	expect_open(0, second);
	free_window(mw);
}

/* --- SEND_WITH_INV --------------------------------------------------------------- */

/* The other side sends, and the experimental completion here tells which key it took. */
static void invalidated_row(uint32_t bytes)
{
	struct ibv_mw *mw = window(TYPE2);
	struct node_send s = {
		.opcode = IBV_WR_SEND_WITH_INV, .flags = IBV_SEND_SIGNALED, .num_sge = 1};
	uint64_t end = now_ms() + PROBE_PATIENCE;
	struct ibv_exp_wc wc;
	struct ibv_wc sent;
	int got;

	row("SEND_WITH_INV of %u bytes: the receiver's completion", bytes);
	need_exp_bind(mw, R_PLAIN, EXP_ALL);
	s.imm = mw->rkey; /* one field with invalidate_rkey */
	s.sge[0] = side_sge(&b, KEY_FULL, PROBE_AT, bytes);
	side_fill(&b, PROBE_AT, bytes, 6, 0);
	side_recv_one(&a, 0, 5, MESSAGE, bytes);
	EXPECT(side_post_send(&b, 0, &s, 1).ret == 0 &&
		       side_poll(&b, 0, 1, PROBE_PATIENCE, &sent) == 1 && sent.status == SUCCESS,
	       "sender");
	memset(&wc, 0xa5, sizeof(wc));
	do
		got = ibv_exp_poll_cq(n->cq[1], 1, &wc, sizeof(wc));
	while (got == 0 && now_ms() < end);
	EXPECT(got == 1 && wc.status == SUCCESS && wc.wr_id == 5 && wc.byte_len == bytes &&
		       wc.exp_opcode == IBV_EXP_WC_RECV,
	       "completion");
	EXPECT((wc.exp_wc_flags & (IBV_EXP_WC_WITH_INV | IBV_EXP_WC_WITH_IMM)) ==
		       IBV_EXP_WC_WITH_INV,
	       "flags 0x%llx", (unsigned long long)wc.exp_wc_flags);
	EXPECT(wc.imm_data == mw->rkey, "key 0x%x, not 0x%x", wc.imm_data, mw->rkey);
	EXPECT(side_check(&a, MESSAGE, bytes, 6, 0) == -1, "bytes of the message");
	expect_shut(0, mw->rkey);
	free_window(mw);
}

enum { THEIRS_BIND, THEIRS_FREE };

/* In the other process: a window on its arena, bound by plain verbs. Return: its key */
static uint64_t their_window(struct node *them, const struct side_job *job)
{
	static struct ibv_mw *mw;
	static struct ibv_mr *mr;
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;

	if (job->arg[0] == THEIRS_FREE)
		return (uint64_t)(ibv_dealloc_mw(mw) | ibv_dereg_mr(mr));
	mw = ibv_alloc_mw(them->pd, TYPE2);
	mr = ibv_reg_mr(them->pd, them->arena + MESSAGE, 4096, BINDABLE);
	if (!mw || !mr)
		return 0;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)mr->addr, mr->length,
							 IBV_ACCESS_REMOTE_READ};
	if (ibv_post_send(them->qp[0], &wr, &bad) ||
	    node_poll(them, 0, 1, PROBE_PATIENCE, &wc) != 1 || wc.status != SUCCESS)
		return 0;
	return wr.bind_mw.rkey;
}

/* We send, by the experimental verb; the other side's window is shut. */
static void invalidating_row(void)
{
	struct side_job job = {.arg = {THEIRS_BIND}};
	struct ibv_exp_send_wr wr = exp_request(IBV_EXP_WR_SEND_WITH_INV, 0), *bad;
	struct ibv_sge sge = side_sge(&a, KEY_FULL, MESSAGE, 512);
	uint64_t at = b.info.base[KEY_FULL] + MESSAGE;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	uint32_t rkey;

	row("SEND_WITH_INV by ibv_exp_post_send");
	side_begin(&b, &job);
	rkey = (uint32_t)side_end(&b);
	if (!EXPECT(rkey, "no window"))
		return;
	EXPECT_PROBE(&a, &b, 0, IBV_WR_RDMA_READ, at, rkey, 8, SUCCESS);
	side_fill(&a, MESSAGE, 512, 6, 0);
	side_recv_one(&b, 0, 5, MESSAGE, 512);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.ex.invalidate_rkey = rkey;
	EXPECT(ibv_exp_post_send(n->qp[0], &wr, &bad) == 0 &&
		       exp_finish(IBV_EXP_WC_SEND) == SUCCESS,
	       "refused");
	EXPECT(side_poll(&b, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == SUCCESS &&
		       wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == rkey,
	       "receiver: '%s', key 0x%x", ibv_wc_status_str(wc.status), wc.invalidated_rkey);
	EXPECT(side_check(&b, MESSAGE, 512, 6, 0) == -1, "bytes of the message");
	EXPECT_PROBE(&a, &b, 0, IBV_WR_RDMA_READ, at, rkey, 8, IBV_WC_REM_ACCESS_ERR);
	job.arg[0] = THEIRS_FREE;
	side_begin(&b, &job);
	EXPECT(side_end(&b) == 0, "ending the window there");
}

/* As the page has it: are there windows at all? */
static void capability_row(void)
{
	struct ibv_exp_device_attr device_attr = {
		.comp_mask = (uint32_t)(IBV_EXP_DEVICE_ATTR_RESERVED - 1)};

	row("ibv_exp_query_device: windows");
	EXPECT(ibv_exp_query_device(n->ctx, &device_attr) == 0, "refused");
	EXPECT(device_attr.exp_device_cap_flags & IBV_EXP_DEVICE_MEM_WINDOW, "type 1");
	EXPECT(device_attr.exp_device_cap_flags & IBV_EXP_DEVICE_MW_TYPE_2B, "type 2B");
	EXPECT(!(device_attr.exp_device_cap_flags & IBV_EXP_DEVICE_MW_TYPE_2A), "type 2A");
}

static void run(void)
{
	capability_row();
	for (size_t i = 0; i < COUNT_OF(bind_rows); i++) {
		bind_row(&bind_rows[i], TYPE1);
		bind_row(&bind_rows[i], TYPE2);
	}
	call_rows();
	type1_rows();
	type2_rows();
	list_row();
	invalidated_row(8);
	invalidated_row(5000);
	invalidating_row();
}

int main(int argc, char **argv)
{
	side_work = their_window;
	return mw_test(argc, argv, run);
}
