/* SPDX-License-Identifier: MIT */
/*
 * Work requests of ibv_exp_post_send() between two processes, by opcode, and their completions
 * through ibv_exp_poll_cq(); over regions of each kind that ibv_exp_reg_mr() makes. The other
 * process uses plain verbs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs_exp.h>

#include "lib/exp_objects.h"
#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define AT	 0x20000u /* of messages, in the arenas of both sides */
#define BYTES	 5000u
#define ROOM	 61u /* requests in a queue; ends within a batch of translation */
#define SEED	 0x657870u
#define PATIENCE 20000u
#define SHORT_WC 88u /* size of a work completion before tag matching */
#define SIGNALED IBV_EXP_SEND_SIGNALED
#define RIGHTS                                                                                   \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | \
	 IBV_EXP_ACCESS_REMOTE_ATOMIC | IBV_EXP_ACCESS_MW_BIND)

static struct node *n;

/* --- posting and polling --------------------------------------------------------- */

static int poll_one(struct ibv_cq *cq, struct ibv_exp_wc *wc, uint32_t wc_size)
{
	uint64_t end = now_ms() + PATIENCE;
	int ret;

	do
		ret = ibv_exp_poll_cq(cq, 1, wc, wc_size);
	while (ret == 0 && now_ms() < end);
	return ret;
}

/* Post one request and take its completion. */
static void expect_done(struct ibv_exp_send_wr *wr, enum ibv_wc_status status,
			enum ibv_exp_wc_opcode opcode)
{
	struct ibv_exp_send_wr *bad = NULL;
	struct ibv_exp_wc wc;
	int ret;

	wr->wr_id = 0x1122334455667788;
	wr->exp_send_flags |= SIGNALED;
	ret = ibv_exp_post_send(n->qp[0], wr, &bad);
	if (!EXPECT(ret == 0, "ibv_exp_post_send: %d", ret))
		return;
	ret = poll_one(n->cq[0], &wc, sizeof(wc));
	if (!EXPECT(ret == 1, "ibv_exp_poll_cq: %d", ret))
		return;
	EXPECT(wc.wr_id == wr->wr_id && wc.status == status, "'%s'", ibv_wc_status_str(wc.status));
	EXPECT(status != IBV_WC_SUCCESS || wc.exp_opcode == opcode, "opcode %d", wc.exp_opcode);
	EXPECT(wc.qp_num == n->qp[0]->qp_num, "queue pair %u", wc.qp_num);
	EXPECT(wc.exp_wc_flags == 0, "flags 0x%llx", (unsigned long long)wc.exp_wc_flags);
}

static struct ibv_exp_send_wr request(enum ibv_exp_wr_opcode opcode, struct ibv_sge *sge)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = opcode;
	wr.sg_list = sge;
	wr.num_sge = sge != NULL;
	return wr;
}

static struct ibv_exp_send_wr rdma(enum ibv_exp_wr_opcode opcode, struct ibv_sge *sge)
{
	struct ibv_exp_send_wr wr = request(opcode, sge);

	wr.wr.rdma.remote_addr = b.info.base[KEY_FULL] + AT;
	wr.wr.rdma.rkey = b.info.key[KEY_FULL];
	return wr;
}

static void expect_bytes(struct side *s, uint64_t seed)
{
	int64_t wrong = side_check(s, AT, BYTES, seed, 0);

	EXPECT(wrong == -1, "byte %lld of the message is wrong", (long long)wrong);
}

/* --- opcodes --------------------------------------------------------------------- */

static const struct message_row {
	const char *name;
	enum ibv_exp_wr_opcode opcode;
	uint64_t flags;
	bool receives;
	enum ibv_exp_wc_opcode done;
	uint64_t wc_flags; /* of the receiver's completion */
} messages[] = {
	{"SEND", IBV_EXP_WR_SEND, 0, true, IBV_EXP_WC_SEND, 0},
	{"SEND, fenced and solicited", IBV_EXP_WR_SEND, IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SOLICITED,
	 true, IBV_EXP_WC_SEND, 0},
	{"SEND_WITH_IMM", IBV_EXP_WR_SEND_WITH_IMM, 0, true, IBV_EXP_WC_SEND, IBV_EXP_WC_WITH_IMM},
	{"RDMA_WRITE", IBV_EXP_WR_RDMA_WRITE, 0, false, IBV_EXP_WC_RDMA_WRITE, 0},
	{"RDMA_WRITE_WITH_IMM", IBV_EXP_WR_RDMA_WRITE_WITH_IMM, 0, true, IBV_EXP_WC_RDMA_WRITE,
	 IBV_EXP_WC_WITH_IMM},
};

static void message_rows(void)
{
	for (size_t i = 0; i < COUNT_OF(messages); i++) {
		const struct message_row *r = &messages[i];
		struct ibv_sge sge = side_sge(&a, KEY_FULL, AT, BYTES);
		struct ibv_exp_send_wr wr = rdma(r->opcode, &sge);
		struct ibv_wc wc;

		row("%s", r->name);
		if (r->opcode == IBV_EXP_WR_SEND || r->opcode == IBV_EXP_WR_SEND_WITH_IMM)
			memset(&wr.wr, 0, sizeof(wr.wr));
		wr.ex.imm_data = htonl(0xfeed + (uint32_t)i);
		wr.exp_send_flags = r->flags;
		side_fill(&a, AT, BYTES, SEED + i, 0);
		side_fill(&b, AT, BYTES, PROBE_SEED, 0);
		if (r->receives)
			side_recv_one(&b, 0, 7, AT, BYTES);
		expect_done(&wr, IBV_WC_SUCCESS, r->done);
		if (r->receives &&
		    EXPECT(side_poll(&b, 1, 1, PATIENCE, &wc) == 1, "nothing received")) {
			EXPECT(wc.status == IBV_WC_SUCCESS && wc.byte_len == BYTES, "'%s'",
			       ibv_wc_status_str(wc.status));
			EXPECT(!r->wc_flags || wc.imm_data == htonl(0xfeed + (uint32_t)i),
			       "immediate data");
		}
		expect_bytes(&b, SEED + i);
	}
}

static void read_row(void)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, AT, BYTES);
	struct ibv_exp_send_wr wr = rdma(IBV_EXP_WR_RDMA_READ, &sge);

	row("RDMA_READ");
	side_fill(&b, AT, BYTES, SEED, 0);
	side_fill(&a, AT, BYTES, PROBE_SEED, 0);
	expect_done(&wr, IBV_WC_SUCCESS, IBV_EXP_WC_RDMA_READ);
	expect_bytes(&a, SEED);
}

static void atomic_rows(void)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, AT, 8);
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, &sge);

	wr.wr.atomic.remote_addr = b.info.base[KEY_FULL] + AT;
	wr.wr.atomic.rkey = b.info.key[KEY_FULL];
	row("ATOMIC_FETCH_AND_ADD");
	side_poke(&b, AT, 40);
	wr.wr.atomic.compare_add = 2;
	expect_done(&wr, IBV_WC_SUCCESS, IBV_EXP_WC_FETCH_ADD);
	EXPECT(side_peek(&a, AT) == 40 && side_peek(&b, AT) == 42, "values");
	row("ATOMIC_CMP_AND_SWP");
	wr.exp_opcode = IBV_EXP_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 99;
	expect_done(&wr, IBV_WC_SUCCESS, IBV_EXP_WC_COMP_SWAP);
	EXPECT(side_peek(&a, AT) == 42 && side_peek(&b, AT) == 99, "values");
}

static void inline_row(void)
{
	uint8_t text[32];
	struct ibv_sge sge = {.addr = (uintptr_t)text, .length = sizeof(text)}; /* no key */
	struct ibv_exp_send_wr wr = rdma(IBV_EXP_WR_RDMA_WRITE, &sge);

	row("inline data");
	pattern_fill(text, sizeof(text), SEED, 0);
	wr.exp_send_flags = IBV_EXP_SEND_INLINE;
	side_poke(&b, AT, 0);
	expect_done(&wr, IBV_WC_SUCCESS, IBV_EXP_WC_RDMA_WRITE);
	EXPECT(side_check(&b, AT, sizeof(text), SEED, 0) == -1, "payload");
}

/* --- lists and refusals ---------------------------------------------------------- */

/* More requests than are translated at once; only the last is signalled. */
static void list_row(void)
{
	enum { COUNT = 37, EACH = 64 };
	struct ibv_exp_send_wr wr[COUNT], *bad = NULL;
	struct ibv_sge sge[COUNT];
	struct ibv_exp_wc wc;

	row("a list of %d requests", COUNT);
	side_fill(&a, AT, COUNT * EACH, SEED, 0);
	side_fill(&b, AT, COUNT * EACH, PROBE_SEED, 0);
	for (int i = 0; i < COUNT; i++) {
		sge[i] = side_sge(&a, KEY_FULL, AT + (uint64_t)i * EACH, EACH);
		wr[i] = rdma(IBV_EXP_WR_RDMA_WRITE, &sge[i]);
		wr[i].wr.rdma.remote_addr += (uint64_t)i * EACH;
		wr[i].next = i + 1 < COUNT ? &wr[i + 1] : NULL;
		wr[i].exp_send_flags = i + 1 < COUNT ? 0 : SIGNALED;
	}
	EXPECT(ibv_exp_post_send(n->qp[0], wr, &bad) == 0, "refused");
	EXPECT(poll_one(n->cq[0], &wc, sizeof(wc)) == 1 && wc.status == IBV_WC_SUCCESS,
	       "no completion");
	EXPECT(side_check(&b, AT, COUNT * EACH, SEED, 0) == -1, "payload");
}

static void refusal_rows(void)
{
	enum { COUNT = 20, BAD = 17 }; /* in the second batch */
	static const struct {
		const char *name;
		int opcode, num_sge;
		uint64_t flags;
		int want;
	} rows[] = {
		{"opcode 10", 10, 1, SIGNALED, EINVAL},
		{"UMR_FILL", IBV_EXP_WR_UMR_FILL, 1, SIGNALED, EINVAL},
		{"masked atomic", IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, 1, SIGNALED, EINVAL},
		{"opcode -1", -1, 1, SIGNALED, EINVAL},
		{"calculation", IBV_EXP_WR_SEND, 1, SIGNALED | IBV_EXP_SEND_WITH_CALC, EINVAL},
		{"unknown flag", IBV_EXP_WR_RDMA_WRITE, 1, SIGNALED | 16, EINVAL},
		{"too many elements", IBV_EXP_WR_RDMA_WRITE, 1000, SIGNALED, ENOMEM},
		{"window NULL", IBV_EXP_WR_BIND_MW, 0, SIGNALED, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_sge sge = side_sge(&a, KEY_FULL, AT, 8);
		struct ibv_exp_send_wr wr[COUNT], *bad = NULL;
		struct ibv_exp_wc wc[COUNT];
		int ret;

		row("refused in a list: %s", rows[i].name);
		for (int k = 0; k < COUNT; k++) {
			wr[k] = rdma(IBV_EXP_WR_RDMA_WRITE, &sge);
			wr[k].exp_send_flags = SIGNALED;
			wr[k].next = k + 1 < COUNT ? &wr[k + 1] : NULL;
		}
		wr[BAD].exp_opcode = (enum ibv_exp_wr_opcode)rows[i].opcode;
		wr[BAD].num_sge = rows[i].num_sge;
		wr[BAD].exp_send_flags = rows[i].flags;
		memset(&wr[BAD].task, 0, sizeof(wr[BAD].task));
		errno = 0;
		ret = ibv_exp_post_send(n->qp[0], wr, &bad);
		EXPECT(ret == rows[i].want && errno == ret, "%d, errno %d", ret, errno);
		EXPECT(bad == &wr[BAD], "bad_wr is number %td", bad ? bad - wr : -1);
		EXPECT(ibv_exp_poll_cq(n->cq[0], COUNT, wc, sizeof(wc[0])) == BAD,
		       "others were posted");
	}
}

/* A full queue refuses in the middle of what was translated. */
static void full_row(void)
{
	enum { COUNT = 200 };
	static struct ibv_exp_send_wr wr[COUNT];
	struct ibv_sge sge = side_sge(&a, KEY_FULL, AT, 8);
	struct ibv_exp_send_wr *bad = NULL;
	struct ibv_exp_wc wc;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t room;

	row("a full queue");
	EXPECT(ibv_query_qp(n->qp[0], &attr, IBV_QP_CAP, &init) == 0, "ibv_query_qp");
	room = init.cap.max_send_wr;
	if (!EXPECT(room < COUNT, "%u requests", room))
		return;
	for (int k = 0; k < COUNT; k++) {
		wr[k] = rdma(IBV_EXP_WR_RDMA_WRITE, &sge);
		wr[k].next = k + 1 < COUNT ? &wr[k + 1] : NULL;
		wr[k].exp_send_flags = (uint32_t)k + 1 == room ? SIGNALED : 0;
	}
	EXPECT(ibv_exp_post_send(n->qp[0], wr, &bad) == ENOMEM, "accepted");
	EXPECT(bad == &wr[room], "bad_wr is number %td", bad ? bad - wr : -1);
	EXPECT(poll_one(n->cq[0], &wc, sizeof(wc)) == 1, "no completion");
}

/* Posting to a queue pair with another handle, and in a forked child. */
static void stranger_rows(void)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, AT, 8);
	struct ibv_exp_send_wr wr = rdma(IBV_EXP_WR_RDMA_WRITE, &sge), *bad = NULL;
	int status = -1;
	pid_t child;

	row("ibv_exp_post_send: a queue pair with another handle");
	n->qp[0]->handle++;
	EXPECT(ibv_exp_post_send(n->qp[0], &wr, &bad) == EINVAL && bad == &wr, "accepted");
	n->qp[0]->handle--;
	row("ibv_exp_post_send: in a forked child");
	child = fork();
	if (child == 0)
		_exit(ibv_exp_post_send(n->qp[0], &wr, &bad) == EINVAL ? 0 : 1);
	EXPECT(waitpid(child, &status, 0) == child && status == 0, "accepted");
}

/* --- windows --------------------------------------------------------------------- */

static void expect_read(uint32_t rkey, enum ibv_wc_status want)
{
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)n->arena + AT, rkey, 64, want);
}

static struct ibv_exp_mw_bind_info window_on(struct ibv_mr *mr, uint64_t length)
{
	return (struct ibv_exp_mw_bind_info){
		.mr = mr,
		.addr = (uintptr_t)n->arena + AT,
		.length = length,
		.exp_mw_access_flags = IBV_EXP_ACCESS_REMOTE_READ,
	};
}

static void type_1_rows(struct ibv_mr *mr)
{
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1),
		      *two = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2);
	struct ibv_exp_mw_bind bind = {.qp = n->qp[0],
				       .mw = mw,
				       .wr_id = 5,
				       .exp_send_flags = SIGNALED,
				       .bind_info = window_on(mr, 64)};
	uint32_t old = mw->rkey;
	struct ibv_exp_wc wc;

	row("ibv_exp_bind_mw");
	EXPECT(ibv_exp_bind_mw(&bind) == 0 && mw->rkey != old, "refused, or the same key");
	EXPECT(poll_one(n->cq[0], &wc, sizeof(wc)) == 1 && wc.status == IBV_WC_SUCCESS &&
		       wc.exp_opcode == IBV_EXP_WC_BIND_MW && wc.wr_id == 5,
	       "completion");
	expect_read(mw->rkey, IBV_WC_SUCCESS);
	row("ibv_exp_bind_mw: unbind");
	old = mw->rkey;
	bind.bind_info = (struct ibv_exp_mw_bind_info){.length = 0};
	EXPECT(ibv_exp_bind_mw(&bind) == 0 && poll_one(n->cq[0], &wc, sizeof(wc)) == 1, "refused");
	expect_read(old, IBV_WC_REM_ACCESS_ERR);
	row("ibv_exp_bind_mw: refusals");
	bind.bind_info = window_on(mr, 64);
	bind.bind_info.exp_mw_access_flags |= IBV_EXP_ACCESS_MW_ZERO_BASED;
	EXPECT(ibv_exp_bind_mw(&bind) == EINVAL, "zero based");
	bind.bind_info = window_on(mr, 64);
	bind.comp_mask = IBV_EXP_BIND_MW_RESERVED;
	EXPECT(ibv_exp_bind_mw(&bind) == EINVAL, "unknown mask");
	bind.comp_mask = IBV_EXP_BIND_MW_RESERVED - 1;
	bind.exp_send_flags = IBV_EXP_SEND_INLINE;
	EXPECT(ibv_exp_bind_mw(&bind) == EINVAL, "inline");
	bind.exp_send_flags = 0;
	bind.mw = two;
	EXPECT(ibv_exp_bind_mw(&bind) == EINVAL, "a window of type 2");
	bind.mw = mw;
	bind.qp = NULL;
	EXPECT(ibv_exp_bind_mw(&bind) == EINVAL, "no queue pair");
	EXPECT(ibv_dealloc_mw(mw) == 0 && ibv_dealloc_mw(two) == 0, "ibv_dealloc_mw");
}

/* @cast: the request filled as programs do that know where libmlx5 looks. */
static void type_2_row(struct ibv_mr *mr, bool cast)
{
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2);
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_BIND_MW, NULL);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);

	row("BIND_MW and LOCAL_INV%s", cast ? ", through a cast" : "");
	if (cast) {
		struct ibv_send_wr *plain = (struct ibv_send_wr *)(void *)&wr;

		plain->bind_mw.mw = mw;
		plain->bind_mw.rkey = rkey;
		plain->bind_mw.bind_info.mr = mr;
		plain->bind_mw.bind_info.addr = (uintptr_t)n->arena + AT;
		plain->bind_mw.bind_info.length = 64;
		plain->bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	} else {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = rkey;
		wr.bind_mw.bind_info = window_on(mr, 64);
	}
	expect_done(&wr, IBV_WC_SUCCESS, IBV_EXP_WC_BIND_MW);
	expect_read(rkey, IBV_WC_SUCCESS);
	wr = request(IBV_EXP_WR_LOCAL_INV, NULL);
	wr.ex.invalidate_rkey = rkey;
	expect_done(&wr, IBV_WC_SUCCESS, IBV_EXP_WC_LOCAL_INV);
	expect_read(rkey, IBV_WC_REM_ACCESS_ERR);
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
}

/* --- regions --------------------------------------------------------------------- */

/* The other process writes to and reads from a region of ours, and we send from it. */
static void region_row(const char *name, struct ibv_mr *mr, uint64_t base)
{
	struct ibv_sge sge = {.addr = base, .length = 64, .lkey = mr->lkey};
	struct ibv_exp_send_wr wr = rdma(IBV_EXP_WR_RDMA_WRITE, &sge);
	uint32_t rkey = mr->rkey;

	row("%s region", name);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, base, rkey, 64, IBV_WC_SUCCESS);
	side_fill(&b, AT, 64, SEED, 0);
	expect_done(&wr, IBV_WC_SUCCESS, IBV_EXP_WC_RDMA_WRITE);
	EXPECT(side_check(&b, AT, 64, PROBE_SEED, 0) == -1, "payload");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, base, rkey, 64, IBV_WC_SUCCESS);
	EXPECT(side_check(&b, PROBE_AT, 64, PROBE_SEED, 0) == -1, "payload of the READ");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, base, rkey, 64, IBV_WC_REM_ACCESS_ERR);
}

static void region_rows(void)
{
	const uint64_t odp = RIGHTS | IBV_EXP_ACCESS_ON_DEMAND;
	uint8_t *at = n->arena + AT;
	struct ibv_exp_alloc_dm_attr alloc = {.length = 256};
	struct ibv_exp_dm *dm = ibv_exp_alloc_dm(n->ctx, &alloc);
	struct ibv_mr *mr;

	mr = exp_need_mr((struct ibv_exp_reg_mr_in){
		.pd = n->pd, .addr = at, .length = 64, .exp_access = RIGHTS});
	region_row("a plain", mr, (uintptr_t)at);
	mr = exp_need_mr((struct ibv_exp_reg_mr_in){
		.pd = n->pd, .addr = at, .length = 64, .exp_access = odp});
	region_row("an on-demand", mr, (uintptr_t)at);
	mr = exp_need_mr((struct ibv_exp_reg_mr_in){
		.pd = n->pd, .length = IBV_EXP_IMPLICIT_MR_SIZE, .exp_access = odp});
	region_row("the implicit", mr, (uintptr_t)at);
	mr = exp_need_mr(
		(struct ibv_exp_reg_mr_in){.pd = n->pd,
					   .addr = (void *)128,
					   .length = 64,
					   .exp_access = RIGHTS & ~(uint64_t)IBV_EXP_ACCESS_MW_BIND,
					   .comp_mask = IBV_EXP_REG_MR_DM,
					   .dm = dm});
	region_row("a device memory", mr, 0);
	EXPECT(ibv_exp_free_dm(dm) == 0, "ibv_exp_free_dm");
}

/* --- polling --------------------------------------------------------------------- */

/* Messages that arrive here, with their numbers. */
static void receive(int count)
{
	for (int i = 0; i < count; i++) {
		struct node_send send = {
			.opcode = IBV_WR_SEND_WITH_IMM, .imm = htonl((uint32_t)i), .num_sge = 1};

		send.sge[0] = side_sge(&b, KEY_FULL, AT, 8);
		side_recv_one(&a, 0, (uint64_t)i + 100, AT, BYTES);
		send.flags = IBV_SEND_SIGNALED;
		EXPECT(side_post_send(&b, 0, &send, 1).ret == 0, "sending");
		EXPECT(side_poll(&b, 0, 1, PATIENCE, &(struct ibv_wc){.wr_id = 0}) == 1,
		       "not sent");
	}
}

/* They are taken with elements of @wc_size bytes; @count of them in one call. */
static void poll_row(uint32_t wc_size, int count)
{
	static uint64_t room[64][sizeof(struct ibv_exp_wc) / 8 + 4];
	uint8_t *bytes = (uint8_t *)room;

	row("ibv_exp_poll_cq: %d elements of %u bytes", count, wc_size);
	memset(room, 0xee, sizeof(room));
	receive(count);
	EXPECT(ibv_exp_poll_cq(n->cq[1], count + 1, (struct ibv_exp_wc *)room, wc_size) == count,
	       "number");
	for (int i = 0; i < count; i++) {
		struct ibv_exp_wc wc;

		memset(&wc, 0xee, sizeof(wc));
		memcpy(&wc, bytes + (size_t)i * wc_size,
		       wc_size < sizeof(wc) ? wc_size : sizeof(wc));
		EXPECT(wc.wr_id == (uint64_t)i + 100 && wc.status == IBV_WC_SUCCESS &&
			       wc.byte_len == 8,
		       "element %d", i);
		EXPECT(wc.exp_opcode == IBV_EXP_WC_RECV && wc.qp_num == n->qp[0]->qp_num,
		       "element %d", i);
		EXPECT((wc.exp_wc_flags & IBV_EXP_WC_WITH_IMM) && wc.imm_data == htonl((uint32_t)i),
		       "element %d", i);
		EXPECT(!(wc.exp_wc_flags & IBV_EXP_WC_WITH_TIMESTAMP), "a time stamp");
	}
	for (size_t i = (size_t)count * wc_size; i < sizeof(room); i++)
		if (!EXPECT(bytes[i] == 0xee, "byte %zu behind the elements was written", i))
			break;
}

/* Fewer than there are: the rest stays for the next call. */
static void poll_some_row(int want, int there)
{
	struct ibv_exp_wc wc[64];

	row("ibv_exp_poll_cq: %d elements of %d", want, there);
	memset(wc, 0xee, sizeof(wc));
	receive(there);
	EXPECT(ibv_exp_poll_cq(n->cq[1], want, wc, sizeof(wc[0])) == want, "number");
	EXPECT(wc[want].wr_id == 0xeeeeeeeeeeeeeeee, "one too many");
	EXPECT(ibv_exp_poll_cq(n->cq[1], there, wc, sizeof(wc[0])) == there - want, "the rest");
	EXPECT(wc[0].wr_id == (uint64_t)want + 100, "the first of the rest");
}

static void poll_rows(void)
{
	struct ibv_exp_wc wc;
	int status = -1;
	pid_t child;

	poll_row(sizeof(struct ibv_exp_wc), 1);
	poll_row(sizeof(struct ibv_exp_wc), 16);
	poll_row(sizeof(struct ibv_exp_wc), 20);
	poll_row(sizeof(struct ibv_exp_wc) + 16, 3);
	poll_row(SHORT_WC, 17);
	for (int want = 1; want < 20; want++)
		poll_some_row(want, 20 + want);
	row("ibv_exp_poll_cq: nothing there, nothing wanted");
	EXPECT(ibv_exp_poll_cq(n->cq[1], 1, &wc, sizeof(wc)) == 0, "something");
	EXPECT(ibv_exp_poll_cq(n->cq[1], 0, &wc, sizeof(wc)) == 0, "something");
	EXPECT(ibv_exp_poll_cq(n->cq[1], -1, &wc, sizeof(wc)) == -EINVAL, "a negative number");
	row("ibv_exp_poll_cq: with another handle");
	n->cq[1]->handle++;
	EXPECT(ibv_exp_poll_cq(n->cq[1], 1, &wc, sizeof(wc)) == -EINVAL, "polled");
	n->cq[1]->handle--;
	row("ibv_exp_poll_cq: in a forked child");
	child = fork();
	if (child == 0)
		_exit(ibv_exp_poll_cq(n->cq[1], 1, &wc, sizeof(wc)) == -EINVAL ? 0 : 1);
	EXPECT(waitpid(child, &status, 0) == child && status == 0, "polled");
}

/* A queue records when completions were appended if that was asked for, by the flag and its bit. */
static void stamp_row(uint32_t comp_mask)
{
	struct ibv_exp_cq_init_attr attr = {.comp_mask = comp_mask, .flags = IBV_EXP_CQ_TIMESTAMP};
	struct ibv_cq *cq = ibv_exp_create_cq(n->ctx, 4, NULL, NULL, 0, &attr);
	struct ibv_exp_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 2},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = n->pd,
	};
	struct ibv_qp *qp = cq ? ibv_exp_create_qp(n->ctx, &init) : NULL;
	struct ibv_exp_qp_attr begin = {.qp_state = IBV_QPS_INIT, .port_num = 1},
			       error = {.qp_state = IBV_QPS_ERR};
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_RDMA_WRITE, NULL), *bad;
	struct ibv_exp_values before, after;
	struct ibv_exp_wc wc;

	row("time stamps, mask %u", comp_mask);
	if (!EXPECT(qp, "errno %d", errno))
		return;
	EXPECT(ibv_exp_modify_qp(qp, &begin,
				 IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT |
					 IBV_EXP_QP_ACCESS_FLAGS) == 0,
	       "to INIT");
	EXPECT(ibv_exp_modify_qp(qp, &error, IBV_EXP_QP_STATE) == 0, "to ERR");
	EXPECT(ibv_exp_query_values(n->ctx, IBV_EXP_VALUES_HW_CLOCK, &before) == 0,
	       "ibv_exp_query_values");
	EXPECT(ibv_exp_post_send(qp, &wr, &bad) == 0, "refused");
	EXPECT(ibv_exp_query_values(n->ctx, IBV_EXP_VALUES_HW_CLOCK, &after) == 0,
	       "ibv_exp_query_values");
	EXPECT(poll_one(cq, &wc, sizeof(wc)) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR,
	       "not flushed");
	if (comp_mask) {
		EXPECT(wc.exp_wc_flags & IBV_EXP_WC_WITH_TIMESTAMP, "no time stamp");
		EXPECT(wc.timestamp >= before.hwclock && wc.timestamp <= after.hwclock,
		       "of another time");
	} else {
		EXPECT(!(wc.exp_wc_flags & IBV_EXP_WC_WITH_TIMESTAMP), "a time stamp");
	}
	EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0, "destroying");
}

/* --- */

static void open_pair(void)
{
	struct node_qp_spec spec = spec_default();
	struct ibv_exp_qp_init_attr init = {.comp_mask = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS};

	spec.cap.max_send_wr = spec.cap.max_recv_wr = ROOM;
	init.cap = spec.cap;
	exp_need_rc(n, 0, &init);
	NEED(side_create_qp(&b, 0, &spec, NULL) == 0);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
}

int main(int argc, char **argv)
{
	struct ibv_mr *mr;

	two_sides_open(argc, argv);
	n = a.node;
	open_pair();
	message_rows();
	read_row();
	atomic_rows();
	inline_row();
	list_row();
	refusal_rows();
	full_row();
	stranger_rows();
	poll_rows();
	stamp_row(IBV_EXP_CQ_INIT_ATTR_FLAGS);
	stamp_row(0);
	mr = exp_need_mr((struct ibv_exp_reg_mr_in){
		.pd = n->pd, .addr = n->arena, .length = NODE_ARENA, .exp_access = RIGHTS});
	type_1_rows(mr);
	type_2_row(mr, false);
	type_2_row(mr, true);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	region_rows();
	pair_destroy(&a, 0, &b, 0);
	return two_sides_close();
}
