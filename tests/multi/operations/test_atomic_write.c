/* SPDX-License-Identifier: MIT */
/*
 * ATOMIC_WRITE between two processes, through ibv_post_send() and ibv_wr_atomic_write(): what it
 * writes, what it refuses, that the word is never torn and never lost between other atomics, also
 * when its writer is killed. This process is the target; another one asks.
 */
#include <errno.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/flood.h"
#include "lib/newer_verbs.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define QP_EX	 2 /* the asker's with the functions ibv_wr_...() */
#define QP_FLOOD 3
#define QP_BARE	 4 /* the same without room for elements or inline data */
#define WORD_AT	 0x200000u
#define OLD	 0x1111111111111111ull
#define NEW	 0x8877665544332211ull
#define SUCCESS	 IBV_WC_SUCCESS
#define ROUNDS	 (TEST_SANITIZED ? 1000u : 30000u)
#define KILLS	 (TEST_SANITIZED ? 3 : 8)

static struct node *n;

static uint64_t *word(void)
{
	return (uint64_t *)(void *)(n->arena + WORD_AT);
}

static uint64_t look(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* --- in the asking process ------------------------------------------------------- */

enum job { JOB_OPEN, JOB_WRITE, JOB_SETTERS, JOB_FULL, JOB_RACE };

static struct ibv_qp *create_ex(struct node *me, uint32_t sge)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = me->cq[0],
		.recv_cq = me->cq[1],
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = sge, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = me->pd,
		.send_ops_flags = QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_RDMA_WRITE,
	};

	return ibv_create_qp_ex(me->ctx, &attr);
}

static void begin(struct ibv_qp_ex *ex)
{
	ibv_wr_start(ex);
	ex->wr_id = 7;
	ex->wr_flags = IBV_SEND_SIGNALED;
}

/* Return: the completion's status, + 100 if its other fields are wrong */
static uint64_t finish(struct node *me)
{
	struct ibv_wc wc;

	if (node_poll(me, 0, 1, PROBE_PATIENCE, &wc) != 1)
		DIE("no completion");
	if (wc.wr_id != 7 ||
	    (wc.status == SUCCESS && (wc.opcode != WC_ATOMIC_WRITE || wc.byte_len != 8)))
		return 100;
	return wc.status;
}

static uint64_t write_word(struct node *me, int qp, const struct side_job *job)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(me->qp[qp]);
	uint64_t value = job->arg[3];

	begin(ex);
	atomic_write_of(ex)(ex, (uint32_t)job->arg[1], job->arg[2], &value);
	value = 0; /* the word was the call's */
	return ibv_wr_complete(ex) ? 200 : finish(me);
}

/* The word is given with the operation: nothing can be attached to it. Return: what is wrong */
static uint64_t setters(struct node *me)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(me->qp[QP_EX]);
	uint64_t value = 1, faults = 0;

	begin(ex);
	atomic_write_of(ex)(ex, me->info.key[KEY_FULL], me->info.base[KEY_FULL], &value);
	ibv_wr_set_sge(ex, me->info.lkey[KEY_FULL], me->info.base[KEY_FULL], 8);
	faults |= ibv_wr_complete(ex) == EINVAL ? 0 : 1;
	begin(ex);
	atomic_write_of(ex)(ex, me->info.key[KEY_FULL], me->info.base[KEY_FULL], &value);
	ibv_wr_set_inline_data(ex, &value, 8);
	faults |= ibv_wr_complete(ex) == EINVAL ? 0 : 2;
	begin(ex);
	atomic_write_of(ex)(ex, me->info.key[KEY_FULL], me->info.base[KEY_FULL], &value);
	ibv_wr_abort(ex);
	return faults;
}

static uint64_t too_many(struct node *me)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(me->qp[QP_EX]);
	uint64_t value = 1;

	begin(ex);
	for (int i = 0; i < 5; i++)
		atomic_write_of(ex)(ex, me->info.key[KEY_FULL], me->info.base[KEY_FULL], &value);
	return (uint64_t)ibv_wr_complete(ex);
}

/* The word as an atomic operation sees it. */
static uint64_t fetch(struct node *me, const struct side_job *job)
{
	struct node_send s = side_rdma(IBV_WR_ATOMIC_FETCH_AND_ADD,
				       (struct ibv_sge){.addr = (uintptr_t)me->arena,
							.length = 8,
							.lkey = me->info.lkey[KEY_FULL]},
				       job->arg[2], (uint32_t)job->arg[1]);
	struct ibv_wc wc;

	if (node_post_send(me, QP_EX, &s, 1).ret || node_poll(me, 0, 1, PROBE_PATIENCE, &wc) != 1 ||
	    wc.status != SUCCESS)
		DIE("FETCH_AND_ADD");
	return *(const uint64_t *)(const void *)me->arena;
}

/* Words whose upper half counts. Return: how many were not there afterwards */
static uint64_t race(struct node *me, const struct side_job *job)
{
	struct side_job one = *job;
	uint64_t lost = 0;

	for (uint64_t i = 1; i <= job->arg[3]; i++) {
		one.arg[3] = i << 32;
		if (write_word(me, QP_EX, &one) != SUCCESS)
			DIE("a write failed");
		lost += fetch(me, job) >> 32 != i;
	}
	return lost;
}

static uint64_t asker(struct node *me, const struct side_job *job)
{
	switch (job->arg[0] & 0xff) {
	case JOB_OPEN:
		me->qp[QP_EX] = create_ex(me, 1);
		me->qp[QP_BARE] = create_ex(me, 0);
		return me->qp[QP_EX] && me->qp[QP_BARE] ? 0 : 1;
	case JOB_WRITE:
		return write_word(me, (int)(job->arg[0] >> 8), job);
	case JOB_SETTERS:
		return setters(me);
	case JOB_FULL:
		return too_many(me);
	default:
		return race(me, job);
	}
}

/* --- here ------------------------------------------------------------------------ */

static uint64_t ask(uint64_t what, uint32_t rkey, uint64_t addr, uint64_t value)
{
	struct side_job job = {{what, rkey, addr, value}};

	side_begin(&b, &job);
	return side_end(&b);
}

static enum ibv_wc_status write_ex(int qp, uint32_t rkey, uint64_t addr, uint64_t value)
{
	return (enum ibv_wc_status)ask(JOB_WRITE | (uint64_t)qp << 8, rkey, addr, value);
}

/* The two ways of asking. */
enum way { WAY_EX, WAY_POST, WAY_INLINE };

static enum ibv_wc_status write_way(enum way way, uint32_t rkey, uint64_t addr, uint64_t value)
{
	struct node_send s = {
		.opcode = WR_ATOMIC_WRITE,
		.flags = IBV_SEND_SIGNALED | (way == WAY_INLINE ? IBV_SEND_INLINE : 0),
		.remote_addr = addr,
		.rkey = rkey,
		.num_sge = 1,
		.sge = {side_sge(&b, KEY_READ_ONLY, PROBE_AT, 8)},
	};

	if (way == WAY_EX) {
		enum ibv_wc_status got = write_ex(QP_EX, rkey, addr, value);

		if (got != SUCCESS)
			probe_reconnect(&b, &a, QP_EX);
		return got;
	}
	side_poke(&b, PROBE_AT, value);
	return probe_request(&b, &a, 0, &s);
}

static const char *const way_name[] = {"ibv_wr_atomic_write", "ibv_post_send",
				       "ibv_post_send, inline"};

/* What stands before and behind stays. */
static void expect_word(uint64_t value)
{
	EXPECT(look(word()) == value, "0x%llx, not 0x%llx", (unsigned long long)look(word()),
	       (unsigned long long)value);
	EXPECT(word()[-1] == OLD && word()[1] == OLD, "neighbours changed");
}

static void reset_words(void)
{
	word()[-1] = word()[0] = word()[1] = OLD;
}

static const struct {
	const char *name;
	enum key key;
	unsigned int off; /* from the word */
	enum ibv_wc_status want;
} target_rows[] = {
	{"all rights", KEY_FULL, 0, SUCCESS},
	{"no REMOTE_ATOMIC", KEY_NO_ATOMIC, 0, SUCCESS},
	{"zero based", KEY_ZERO_BASED, 0, SUCCESS},
	{"other addresses", KEY_IOVA, 0, SUCCESS},
	{"no REMOTE_WRITE", KEY_NO_WRITE, 0, IBV_WC_REM_ACCESS_ERR},
	{"REMOTE_ATOMIC alone", KEY_ATOMIC_ONLY, 0, IBV_WC_REM_ACCESS_ERR},
	{"no rights", KEY_LOCAL, 0, IBV_WC_REM_ACCESS_ERR},
	{"another protection domain", KEY_OTHER_PD, 0, IBV_WC_REM_ACCESS_ERR},
	{"a dead key", KEY_DEAD, 0, IBV_WC_REM_ACCESS_ERR},
	{"a wrong key", KEY_WRONG, 0, IBV_WC_REM_ACCESS_ERR},
	{"key 0", KEY_ZERO, 0, IBV_WC_REM_ACCESS_ERR},
	{"beyond the region", KEY_FULL, NODE_ARENA - WORD_AT, IBV_WC_REM_ACCESS_ERR},
	{"misaligned by 1", KEY_FULL, 1, IBV_WC_REM_INV_REQ_ERR},
	{"misaligned by 4", KEY_FULL, 4, IBV_WC_REM_INV_REQ_ERR},
	{"misaligned, and a wrong key", KEY_WRONG, 4, IBV_WC_REM_INV_REQ_ERR},
};

static void target_table(enum way way)
{
	for (size_t i = 0; i < COUNT_OF(target_rows); i++) {
		enum key key = target_rows[i].key;
		enum ibv_wc_status got;

		row("%s: %s", way_name[way], target_rows[i].name);
		reset_words();
		got = write_way(way, a.info.key[key],
				a.info.base[key] + WORD_AT + target_rows[i].off, NEW);
		EXPECT(got == target_rows[i].want, "'%s'", ibv_wc_status_str(got));
		expect_word(target_rows[i].want == SUCCESS ? NEW : OLD);
	}
	row("%s: memory that cannot be reached", way_name[way]);
	EXPECT(write_way(way, a.info.key[KEY_GONE], a.info.base[KEY_GONE], NEW) ==
		       IBV_WC_REM_ACCESS_ERR,
	       "accepted");
}

/* --- the requester's end --------------------------------------------------------- */

static const struct {
	const char *name;
	uint32_t bytes[2]; /* of the elements */
	int count;
	enum key key;
	enum ibv_wc_status want;
} source_rows[] = {
	{"one element", {8}, 1, KEY_FULL, SUCCESS},
	{"two elements", {3, 5}, 2, KEY_FULL, SUCCESS},
	{"no element", {0}, 0, KEY_FULL, IBV_WC_LOC_LEN_ERR},
	{"4 bytes", {4}, 1, KEY_FULL, IBV_WC_LOC_LEN_ERR},
	{"9 bytes", {9}, 1, KEY_FULL, IBV_WC_LOC_LEN_ERR},
	{"16 bytes", {16}, 1, KEY_FULL, IBV_WC_LOC_LEN_ERR},
	{"a dead lkey", {8}, 1, KEY_DEAD, IBV_WC_LOC_PROT_ERR},
	{"lkey of another protection domain", {8}, 1, KEY_OTHER_PD, IBV_WC_LOC_PROT_ERR},
	{"memory that cannot be read", {8}, 1, KEY_GONE, IBV_WC_LOC_PROT_ERR},
};

static void source_table(void)
{
	for (size_t i = 0; i < COUNT_OF(source_rows); i++) {
		struct node_send s = {
			.opcode = WR_ATOMIC_WRITE,
			.remote_addr = a.info.base[KEY_FULL] + WORD_AT,
			.rkey = a.info.key[KEY_FULL],
			.flags = IBV_SEND_SIGNALED,
			.num_sge = source_rows[i].count,
		};
		uint64_t at = source_rows[i].key == KEY_GONE ? 0 : PROBE_AT;
		enum ibv_wc_status got;

		row("source: %s", source_rows[i].name);
		reset_words();
		side_poke(&b, PROBE_AT, NEW);
		s.sge[0] = side_sge(&b, source_rows[i].key, at, source_rows[i].bytes[0]);
		s.sge[1] = side_sge(&b, source_rows[i].key, at + source_rows[i].bytes[0],
				    source_rows[i].bytes[1]);
		got = probe_request(&b, &a, 0, &s);
		EXPECT(got == source_rows[i].want, "'%s'", ibv_wc_status_str(got));
		expect_word(source_rows[i].want == SUCCESS ? NEW : OLD);
	}
}

static void local_first_row(void)
{
	struct node_send s = side_rdma(WR_ATOMIC_WRITE, side_sge(&b, KEY_DEAD, PROBE_AT, 8),
				       a.info.base[KEY_FULL] + WORD_AT, a.info.key[KEY_WRONG]);

	row("bad lkey and bad rkey: the requester's fault");
	EXPECT(probe_request(&b, &a, 0, &s) == IBV_WC_LOC_PROT_ERR, "status");
	EXPECT(side_state(&b, 0) == IBV_QPS_RTS, "brought back");
}

/* --- what the queue pairs permit ------------------------------------------------- */

static const struct {
	const char *name;
	unsigned int access;
	uint8_t rd_atomic, dest_rd_atomic;
	enum ibv_wc_status want;
} qp_rows[] = {
	{"REMOTE_WRITE alone", IBV_ACCESS_REMOTE_WRITE, 1, 1, SUCCESS},
	{"no REMOTE_WRITE", IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, 1, 1,
	 IBV_WC_REM_INV_REQ_ERR},
	{"nothing", 0, 1, 1, IBV_WC_REM_INV_REQ_ERR},
	{"max_dest_rd_atomic 0", IBV_ACCESS_REMOTE_WRITE, 1, 0, IBV_WC_REM_INV_REQ_ERR},
	{"max_rd_atomic 0", IBV_ACCESS_REMOTE_WRITE, 0, 1, IBV_WC_LOC_QP_OP_ERR},
};

static void qp_table(void)
{
	for (size_t i = 0; i < COUNT_OF(qp_rows); i++) {
		struct node_link mine = link_default(), theirs = link_default();
		enum ibv_wc_status got;

		row("queue pair: %s", qp_rows[i].name);
		reset_words();
		mine.access = qp_rows[i].access;
		mine.dest_rd_atomic = qp_rows[i].dest_rd_atomic;
		theirs.rd_atomic = qp_rows[i].rd_atomic;
		side_set_state(&b, QP_EX, IBV_QPS_RESET);
		side_set_state(&a, QP_EX, IBV_QPS_RESET);
		pair_connect(&b, QP_EX, &theirs, &a, QP_EX, &mine);
		got = write_ex(QP_EX, a.info.key[KEY_FULL], a.info.base[KEY_FULL] + WORD_AT, NEW);
		EXPECT(got == qp_rows[i].want, "'%s'", ibv_wc_status_str(got));
		expect_word(qp_rows[i].want == SUCCESS ? NEW : OLD);
		probe_reconnect(&b, &a, QP_EX);
	}
}

static void builder_rows(void)
{
	row("elements or inline data on top of it");
	EXPECT(ask(JOB_SETTERS, 0, 0, 0) == 0, "accepted");
	row("a full send queue");
	EXPECT(ask(JOB_FULL, 0, 0, 0) == ENOMEM, "accepted");
	row("a queue without room for elements or inline data");
	reset_words();
	EXPECT(write_ex(QP_BARE, a.info.key[KEY_FULL], a.info.base[KEY_FULL] + WORD_AT, NEW) ==
		       SUCCESS,
	       "status");
	expect_word(NEW);
}

/* Builders of other services are not to be had. */
static void service_rows(void)
{
	static const enum ibv_qp_type type[] = {IBV_QPT_UC, IBV_QPT_UD};

	for (size_t i = 0; i < COUNT_OF(type); i++) {
		struct ibv_qp_init_attr_ex attr = {
			.qp_type = type[i],
			.send_cq = n->cq[0],
			.recv_cq = n->cq[1],
			.cap = {.max_send_wr = 1,
				.max_recv_wr = 1,
				.max_send_sge = 1,
				.max_recv_sge = 1},
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.pd = n->pd,
			.send_ops_flags = QP_EX_WITH_ATOMIC_WRITE,
		};

		row("not for service %d", (int)type[i]);
		EXPECT_NULL(ibv_create_qp_ex(n->ctx, &attr), EOPNOTSUPP);
	}
}

static void capability_row(void)
{
	struct ibv_device_attr_ex attr;

	row("the device says that it can");
	EXPECT(ibv_query_device_ex(n->ctx, NULL, &attr) == 0 &&
		       attr.device_cap_flags_ex & 1ull << 40,
	       "capability");
}

/* --- windows --------------------------------------------------------------------- */

static void window_row(enum ibv_mw_type type, unsigned int access, enum ibv_wc_status want)
{
	struct ibv_mr *mr =
		ibv_reg_mr(n->pd, word() - 1, 24, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, type);
	struct ibv_mw_bind_info info = {
		.mr = mr, .addr = (uintptr_t)word(), .length = 8, .mw_access_flags = access};
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = info};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	enum ibv_wc_status got;
	struct ibv_wc wc;
	int ret;

	row("a window of type %d with rights 0x%x", (int)type, access);
	if (!mr || !mw)
		DIE("region or window: errno %d", errno);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = info;
	ret = type == IBV_MW_TYPE_1 ? ibv_bind_mw(n->qp[QP_EX], mw, &bind)
				    : ibv_post_send(n->qp[QP_EX], &wr, &bad);
	if (ret || node_poll(n, 0, 1, PROBE_PATIENCE, &wc) != 1 || wc.status != SUCCESS)
		DIE("bind");
	reset_words();
	got = write_ex(QP_EX, mw->rkey, (uintptr_t)word(), NEW);
	EXPECT(got == want, "'%s'", ibv_wc_status_str(got));
	expect_word(want == SUCCESS ? NEW : OLD);
	if (got != SUCCESS)
		probe_reconnect(&b, &a, QP_EX);
	EXPECT(write_ex(QP_EX, mw->rkey, (uintptr_t)(word() + 1), NEW) == IBV_WC_REM_ACCESS_ERR,
	       "outside");
	probe_reconnect(&b, &a, QP_EX);
	EXPECT(ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0, "the end");
}

/* --- in the middle of other atomics ---------------------------------------------- */

/*
 * The upper half of the words that are written counts, and another process adds 1 to the word all
 * the while. An addition that began before a write and ended after it would bring the former count
 * back.
 */
static void race_row(void)
{
	struct flood_work work = {IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)word(),
				  a.info.key[KEY_FULL], 8};
	struct flood_report report;
	struct flood f;
	uint64_t lost;

	row("between a writer and a process that adds");
	*word() = 0;
	flood_start(&f, &a, QP_FLOOD);
	flood_go(&f, &work);
	lost = ask(JOB_RACE, a.info.key[KEY_FULL], a.info.base[KEY_FULL] + WORD_AT, ROUNDS);
	report = flood_stop(&f);
	EXPECT(lost == 0, "%llu of %u writes were lost", (unsigned long long)lost, ROUNDS);
	EXPECT(report.status == SUCCESS && report.done > 0, "the adder failed");
	EXPECT(look(word()) >> 32 == ROUNDS, "the last write is gone");
	EXPECT((uint32_t)look(word()) <= report.done, "additions that were never made");
	flood_end(&f);
}

/* Whatever its writer was doing: the next one finds the word unlocked, and its own value there in
 * the end. */
static void kill_row(void)
{
	struct flood_work work = {WR_ATOMIC_WRITE, (uintptr_t)word(), a.info.key[KEY_FULL], 8};

	row("after a writer was killed");
	for (int i = 0; i < KILLS; i++) {
		struct flood f;

		reset_words();
		flood_start(&f, &a, QP_FLOOD);
		flood_go(&f, &work);
		spawn_kill(&f.process);
		EXPECT(write_ex(QP_EX, a.info.key[KEY_FULL], a.info.base[KEY_FULL] + WORD_AT,
				NEW) == SUCCESS,
		       "the next writer failed");
		expect_word(NEW);
		while (side_async(&a, 0).any)
			;
		EXPECT(side_destroy_qp(&a, QP_FLOOD) == 0, "ibv_destroy_qp");
	}
}

static void open_ex(void)
{
	struct node_qp_spec spec = spec_default();

	if (ask(JOB_OPEN, 0, 0, 0) || side_create_qp(&a, QP_EX, &spec, NULL) ||
	    side_create_qp(&a, QP_BARE, &spec, NULL))
		DIE("queue pairs");
	pair_connect(&b, QP_EX, NULL, &a, QP_EX, NULL);
	pair_connect(&b, QP_BARE, NULL, &a, QP_BARE, NULL);
}

static void run(void)
{
	for (enum way way = WAY_EX; way <= WAY_INLINE; way++)
		target_table(way);
	source_table();
	local_first_row();
	qp_table();
	builder_rows();
	service_rows();
	capability_row();
	window_row(IBV_MW_TYPE_1, IBV_ACCESS_REMOTE_WRITE, SUCCESS);
	window_row(IBV_MW_TYPE_2, IBV_ACCESS_REMOTE_WRITE, SUCCESS);
	window_row(IBV_MW_TYPE_1, IBV_ACCESS_REMOTE_ATOMIC, IBV_WC_REM_ACCESS_ERR);
	window_row(IBV_MW_TYPE_2, IBV_ACCESS_REMOTE_READ, IBV_WC_REM_ACCESS_ERR);
	race_row();
	kill_row();
}

int main(int argc, char **argv)
{
	side_work = asker;
	flood_agent_main(argc, argv);
	two_sides_open(argc, argv);
	n = a.node;
	probe_open(&b, &a, 0);
	open_ex();
	run();
	probe_close(&b, &a, 0);
	probe_close(&b, &a, QP_EX);
	probe_close(&b, &a, QP_BARE);
	return two_sides_close();
}
