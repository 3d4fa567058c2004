/* SPDX-License-Identifier: MIT */
/*
 * ibv_wr_flush() between two processes, as a program built with a newer header calls it: what it
 * needs the right for, what it refuses, and that what was written before it is there when it
 * completes. This process is the target; another one asks.
 */
#include <errno.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/newer_verbs.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define QP_EX	2
#define AT	0x200000u
#define LEN	0x3000u
#define BASIC	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define SUCCESS IBV_WC_SUCCESS
#define ROUNDS	1000u

static struct node *n;

/* --- in the asking process ------------------------------------------------------- */

enum job { JOB_OPEN, JOB_FLUSH, JOB_BAD, JOB_POST };

static struct ibv_qp *create_ex(struct node *me, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.send_cq = me->cq[0],
		.recv_cq = me->cq[1],
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = me->pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(me->ctx, &attr);
}

static void begin(struct ibv_qp_ex *ex, uint64_t wr_id, unsigned int flags)
{
	ibv_wr_start(ex);
	ex->wr_id = wr_id;
	ex->wr_flags = flags;
}

/* Return: the completion's status, + 100 if its other fields are wrong */
static uint64_t finish(struct node *me)
{
	struct ibv_wc wc;

	if (node_poll(me, 0, 1, PROBE_PATIENCE, &wc) != 1)
		DIE("no completion");
	if (wc.wr_id != 7 ||
	    (wc.status == SUCCESS && ((int)wc.opcode != WC_FLUSH || wc.byte_len != 0)))
		return 100 + wc.status;
	return wc.status;
}

/* How a FLUSH is asked for, in one number. */
#define FLUSH_OF(type, level, write) \
	((uint64_t)JOB_FLUSH | (type) << 8 | (level) << 16 | (write) << 24)

/* A WRITE of the arena's first word, unsignalled, and a FLUSH behind it. */
static uint64_t flush(struct node *me, const struct side_job *job)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(me->qp[QP_EX]);
	uint8_t type = (uint8_t)(job->arg[0] >> 8), level = (uint8_t)(job->arg[0] >> 16);

	begin(ex, 1, 0);
	if (job->arg[0] >> 24) {
		*(uint64_t *)(void *)me->arena = job->arg[0] >> 24;
		ibv_wr_rdma_write(ex, (uint32_t)job->arg[1], job->arg[2]);
		ibv_wr_set_sge(ex, me->info.lkey[KEY_FULL], (uintptr_t)me->arena, 8);
	}
	ex->wr_id = 7;
	ex->wr_flags = IBV_SEND_SIGNALED;
	flush_of(ex)(ex, (uint32_t)job->arg[1], job->arg[2], job->arg[3], type, level);
	return ibv_wr_complete(ex) ? 200 : finish(me);
}

/* What the builders refuse. Return: what they did not */
static uint64_t bad(struct node *me)
{
	static const uint8_t kind[][2] = {{0, RANGE}, {4, RANGE}, {GLOBAL | 4, RANGE}, {GLOBAL, 2}};
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(me->qp[QP_EX]);
	uint64_t faults = 0;

	for (unsigned int i = 0; i < COUNT_OF(kind); i++) {
		begin(ex, 7, IBV_SEND_SIGNALED);
		flush_of(ex)(ex, 1, 0, 8, kind[i][0], kind[i][1]);
		faults |= (ibv_wr_complete(ex) == EINVAL ? 0ull : 1ull) << i;
	}
	begin(ex, 7, IBV_SEND_SIGNALED);
	flush_of(ex)(ex, 1, 0, 8, GLOBAL, RANGE);
	ibv_wr_set_sge(ex, me->info.lkey[KEY_FULL], (uintptr_t)me->arena, 8);
	faults |= (ibv_wr_complete(ex) == EINVAL ? 0ull : 1ull) << 8;
	begin(ex, 7, IBV_SEND_SIGNALED);
	for (int i = 0; i < 5; i++)
		flush_of(ex)(ex, 1, 0, 8, GLOBAL, RANGE);
	faults |= (ibv_wr_complete(ex) == ENOMEM ? 0ull : 1ull) << 9;
	return faults;
}

static uint64_t open_ex(struct node *me)
{
	struct ibv_qp *plain = create_ex(me, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);

	me->qp[QP_EX] = create_ex(me, IBV_QPT_RC, QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_RDMA_WRITE);
	if (!me->qp[QP_EX] || !plain)
		DIE("ibv_create_qp_ex: errno %d", errno);
	/* The builder is there for who asked for it. */
	if (!flush_of(ibv_qp_to_qp_ex(me->qp[QP_EX])) || flush_of(ibv_qp_to_qp_ex(plain)))
		return 1;
	if (create_ex(me, IBV_QPT_UC, QP_EX_WITH_FLUSH) ||
	    create_ex(me, IBV_QPT_UD, QP_EX_WITH_FLUSH))
		return 2;
	return (uint64_t)ibv_destroy_qp(plain);
}

/* struct ibv_send_wr has no fields for it. */
static uint64_t post(struct node *me)
{
	struct node_send s = {.opcode = (enum ibv_wr_opcode)WR_FLUSH};

	return (uint64_t)node_post_send(me, QP_EX, &s, 1).ret;
}

static uint64_t asker(struct node *me, const struct side_job *job)
{
	switch (job->arg[0] & 0xff) {
	case JOB_OPEN:
		return open_ex(me);
	case JOB_FLUSH:
		return flush(me, job);
	case JOB_BAD:
		return bad(me);
	default:
		return post(me);
	}
}

/* --- here ------------------------------------------------------------------------ */

static uint64_t ask(uint64_t what, uint32_t rkey, uint64_t addr, uint64_t length)
{
	struct side_job job = {{what, rkey, addr, length}};

	side_begin(&b, &job);
	return side_end(&b);
}

static void connect_with(unsigned int access, uint8_t dest_rd_atomic, uint8_t rd_atomic)
{
	struct node_link mine = link_default(), theirs = link_default();

	mine.access = access;
	mine.dest_rd_atomic = dest_rd_atomic;
	theirs.rd_atomic = rd_atomic;
	if (side_set_state(&b, QP_EX, IBV_QPS_RESET) || side_set_state(&a, QP_EX, IBV_QPS_RESET))
		DIE("to RESET");
	while (side_async(&a, 0).any)
		;
	pair_connect(&b, QP_EX, &theirs, &a, QP_EX, &mine);
}

static void reconnect(void)
{
	connect_with(IBV_ACCESS_REMOTE_WRITE | ACCESS_FLUSH_GLOBAL, 1, 1);
}

static struct ibv_mr *region(unsigned int access)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena + AT, LEN, (int)access);

	if (!mr)
		DIE("region with 0x%x: errno %d", access, errno);
	return mr;
}

static const struct {
	const char *name;
	unsigned int access; /* of the region */
	int64_t off;
	uint64_t len;
	unsigned int type, level;
	enum ibv_wc_status want;
} key_rows[] = {
	{"a range", ACCESS_FLUSH_GLOBAL | BASIC, 8, 64, GLOBAL, RANGE, SUCCESS},
	{"the right alone", ACCESS_FLUSH_GLOBAL, 8, 64, GLOBAL, RANGE, SUCCESS},
	{"all of the region", ACCESS_FLUSH_GLOBAL | BASIC, 0, LEN, GLOBAL, RANGE, SUCCESS},
	{"one byte more", ACCESS_FLUSH_GLOBAL | BASIC, 0, LEN + 1, GLOBAL, RANGE,
	 IBV_WC_REM_ACCESS_ERR},
	{"one byte before", ACCESS_FLUSH_GLOBAL | BASIC, -1, 8, GLOBAL, RANGE,
	 IBV_WC_REM_ACCESS_ERR},
	{"a length that wraps", ACCESS_FLUSH_GLOBAL | BASIC, 8, UINT64_MAX, GLOBAL, RANGE,
	 IBV_WC_REM_ACCESS_ERR},
	{"no bytes", ACCESS_FLUSH_GLOBAL | BASIC, 8, 0, GLOBAL, RANGE, SUCCESS},
	{"no bytes without the right", BASIC, 8, 0, GLOBAL, RANGE, IBV_WC_REM_ACCESS_ERR},
	{"the region by its key, any address", ACCESS_FLUSH_GLOBAL | BASIC, -4096, 1, GLOBAL, WHOLE,
	 SUCCESS},
	{"the region by its key without the right", BASIC, 0, 1, GLOBAL, WHOLE,
	 IBV_WC_REM_ACCESS_ERR},
	{"without the right", BASIC | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, 8, 64,
	 GLOBAL, RANGE, IBV_WC_REM_ACCESS_ERR},
	{"persistence", ACCESS_FLUSH_GLOBAL | BASIC, 8, 64, PERSISTENT, RANGE,
	 IBV_WC_REM_INV_REQ_ERR},
	{"both", ACCESS_FLUSH_GLOBAL | BASIC, 8, 64, GLOBAL | PERSISTENT, RANGE,
	 IBV_WC_REM_INV_REQ_ERR},
	{"on demand", ACCESS_FLUSH_GLOBAL | BASIC | IBV_ACCESS_ON_DEMAND, 8, 64, GLOBAL, RANGE,
	 SUCCESS},
};

static void key_table(void)
{
	for (size_t i = 0; i < COUNT_OF(key_rows); i++) {
		struct ibv_mr *mr = region(key_rows[i].access);
		uint64_t got;

		row("key: %s", key_rows[i].name);
		got = ask(FLUSH_OF(key_rows[i].type, key_rows[i].level, 0), mr->rkey,
			  (uintptr_t)mr->addr + (uint64_t)key_rows[i].off, key_rows[i].len);
		EXPECT(got == key_rows[i].want, "%lu", got);
		if (got != SUCCESS)
			reconnect();
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
}

static void dead_key_row(void)
{
	struct ibv_mr *mr = region(ACCESS_FLUSH_GLOBAL), was = *mr;

	row("a region that is gone");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	EXPECT(ask(FLUSH_OF(GLOBAL, RANGE, 0), was.rkey, (uintptr_t)was.addr, 8) ==
		       IBV_WC_REM_ACCESS_ERR,
	       "range");
	reconnect();
	EXPECT(ask(FLUSH_OF(GLOBAL, WHOLE, 0), was.rkey, (uintptr_t)was.addr, 8) ==
		       IBV_WC_REM_ACCESS_ERR,
	       "whole");
	reconnect();
}

static const struct {
	const char *name;
	unsigned int access;
	uint8_t dest_rd_atomic, rd_atomic;
	enum ibv_wc_status want;
} qp_rows[] = {
	{"the right", ACCESS_FLUSH_GLOBAL, 1, 1, SUCCESS},
	{"all but it", IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	 1, 1, IBV_WC_REM_INV_REQ_ERR},
	{"max_dest_rd_atomic 0", ACCESS_FLUSH_GLOBAL, 0, 1, IBV_WC_REM_INV_REQ_ERR},
	{"max_rd_atomic 0", ACCESS_FLUSH_GLOBAL, 1, 0, IBV_WC_LOC_QP_OP_ERR},
};

static void qp_table(void)
{
	struct ibv_mr *mr = region(ACCESS_FLUSH_GLOBAL);

	for (size_t i = 0; i < COUNT_OF(qp_rows); i++) {
		uint64_t got;

		row("queue pair: %s", qp_rows[i].name);
		connect_with(qp_rows[i].access, qp_rows[i].dest_rd_atomic, qp_rows[i].rd_atomic);
		got = ask(FLUSH_OF(GLOBAL, RANGE, 0), mr->rkey, (uintptr_t)mr->addr, 8);
		EXPECT(got == qp_rows[i].want, "%lu", got);
	}
	reconnect();
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static void window_row(unsigned int access, enum ibv_wc_status want)
{
	struct ibv_mr *mr = region(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {.mr = mr,
						 .addr = (uintptr_t)mr->addr + 64,
						 .length = 64,
						 .mw_access_flags = access}};
	struct ibv_wc wc;
	uint64_t got;

	row("a window with rights 0x%x", access);
	if (!mw || ibv_bind_mw(n->qp[QP_EX], mw, &bind) ||
	    node_poll(n, 0, 1, PROBE_PATIENCE, &wc) != 1 || wc.status != SUCCESS)
		DIE("bind");
	got = ask(FLUSH_OF(GLOBAL, RANGE, 0), mw->rkey, bind.bind_info.addr, 64);
	EXPECT(got == want, "%lu", got);
	if (got != SUCCESS)
		reconnect();
	got = ask(FLUSH_OF(GLOBAL, RANGE, 0), mw->rkey, bind.bind_info.addr, 65);
	EXPECT(got == IBV_WC_REM_ACCESS_ERR, "beyond it: %lu", got);
	reconnect();
	EXPECT(ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0, "the end");
}

static void order_row(void)
{
	struct ibv_mr *mr = region(ACCESS_FLUSH_GLOBAL | BASIC);
	const uint64_t *word = mr->addr;

	row("what was written before it is there");
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		if (!EXPECT(ask(FLUSH_OF(GLOBAL, RANGE, i), mr->rkey, (uintptr_t)word, 8) ==
				    SUCCESS,
			    "status"))
			break;
		EXPECT(__atomic_load_n(word, __ATOMIC_RELAXED) == i, "round %lu", i);
	}
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static void refused_rows(void)
{
	struct ibv_qp_attr attr = {.qp_access_flags = BASIC | ACCESS_FLUSH_PERSISTENT};

	row("kinds of FLUSH that there are not, and data");
	EXPECT(ask(JOB_BAD, 0, 0, 0) == 0, "accepted");
	row("by ibv_post_send()");
	EXPECT(ask(JOB_POST, 0, 0, 0) == EINVAL, "accepted");
	row("no region has the right to persistence; of a queue pair it means nothing");
	EXPECT_NULL(ibv_reg_mr(n->pd, n->arena, 4096, BASIC | ACCESS_FLUSH_PERSISTENT), EOPNOTSUPP);
	EXPECT(ibv_modify_qp(n->qp[QP_EX], &attr, IBV_QP_ACCESS_FLAGS) == 0, "queue pair");
}

static void capability_row(void)
{
	struct ibv_device_attr_ex attr;

	row("the device says what it can");
	if (EXPECT(ibv_query_device_ex(n->ctx, NULL, &attr) == 0, "ibv_query_device_ex"))
		EXPECT((attr.device_cap_flags_ex & (CAP_FLUSH_GLOBAL | CAP_FLUSH_PERSISTENT)) ==
			       CAP_FLUSH_GLOBAL,
		       "0x%lx", attr.device_cap_flags_ex);
}

int main(int argc, char **argv)
{
	struct node_qp_spec spec = spec_default();

	side_work = asker;
	two_sides_open(argc, argv);
	n = a.node;
	row("builders");
	EXPECT(ask(JOB_OPEN, 0, 0, 0) == 0, "offered to others, or not to those who asked");
	NEED(side_create_qp(&a, QP_EX, &spec, NULL) == 0);
	reconnect();
	key_table();
	dead_key_row();
	qp_table();
	window_row(ACCESS_FLUSH_GLOBAL, SUCCESS);
	window_row(IBV_ACCESS_REMOTE_WRITE, IBV_WC_REM_ACCESS_ERR);
	order_row();
	refused_rows();
	capability_row();
	probe_close(&b, &a, QP_EX);
	return two_sides_close();
}
