/* SPDX-License-Identifier: MIT */
/*
 * Faults on demand between two processes: each strikes the request it is meant for, has the outcome
 * that the real thing has on both sides, strikes the same requests when it is done again, and
 * leaves others alone. The rules are set by the tool, as a user would.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/odp_sysfs.h"
#include "lib/tool.h"
#include "lib/two_sides.h"

#define PATIENCE  20000u
#define LOCAL_AT  0x1000u
#define REMOTE_AT 0x100000u
#define RECV_AT	  0x200000u
#define REQUESTS  24
#define BYTES	  512u

enum { FAULTY, BYSTANDER }; /* queue pairs of both sides */

static uint64_t seed;

/* --- the tool -------------------------------------------------------------------- */

static int faults(const char *action, const char *rules)
{
	return tool_run(ANYVERBS_TOOL, "faults", "-d", "any0", action, rules, NULL);
}

/* @rules, in which "@" stands for queue pair FAULTY of this process, and "&" for this process. */
static void set_rules(const char *rules)
{
	char text[400];
	size_t at = 0;

	for (; *rules; rules++) {
		if (*rules == '@')
			at += (size_t)snprintf(text + at, sizeof(text) - at, "qp %u pid %d",
					       side_qpn(&a, FAULTY), (int)getpid());
		else if (*rules == '&')
			at += (size_t)snprintf(text + at, sizeof(text) - at, "pid %d",
					       (int)getpid());
		else
			text[at++] = *rules;
	}
	text[at] = '\0';
	if (faults("set", text) != 0)
		DIE("anyverbs faults set '%s'", text);
}

static void clear_rules(void)
{
	if (faults("clear", NULL) != 0)
		DIE("anyverbs faults clear");
}

/* --- traffic --------------------------------------------------------------------- */

static void post(int qp, enum ibv_wr_opcode op)
{
	struct node_send s = {
		.wr_id = ++seed,
		.opcode = op,
		.flags = IBV_SEND_SIGNALED,
		.num_sge = 1,
		.sge = {side_sge(&a, KEY_FULL, LOCAL_AT + (uint64_t)qp * 0x10000, BYTES)},
		.remote_addr = b.info.base[KEY_FULL] + REMOTE_AT + (uint64_t)qp * 0x10000,
		.rkey = b.info.key[KEY_FULL],
	};

	side_fill(&a, LOCAL_AT + (uint64_t)qp * 0x10000, BYTES, seed, 0);
	EXPECT(side_post_send(&a, qp, &s, 1).ret == 0, "post_send");
}

/* Where the payload of the last request of a queue pair should be. */
static void expect_written(int qp)
{
	EXPECT(side_check(&b, REMOTE_AT + (uint64_t)qp * 0x10000, BYTES, seed, 0) == -1,
	       "bytes of QP %d", qp);
}

static enum ibv_wc_status result(void)
{
	struct ibv_wc wc[1] = {{.status = IBV_WC_GENERAL_ERR}};

	if (EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1, "no completion"))
		EXPECT(wc[0].wr_id == seed, "completion of %lu", wc[0].wr_id);
	return wc[0].status;
}

static void bystander_goes_on(void)
{
	post(BYSTANDER, IBV_WR_RDMA_WRITE);
	EXPECT(result() == IBV_WC_SUCCESS, "the bystander's request");
	expect_written(BYSTANDER);
}

static void begin(void)
{
	struct node_link la = link_default();

	la.retry_cnt = 7; /* a busy host */
	la.rnr_retry = 6;
	pair_create(&a, FAULTY, &b, FAULTY, NULL);
	pair_connect(&a, FAULTY, &la, &b, FAULTY, NULL);
}

static void end(void)
{
	clear_rules();
	bystander_goes_on();
	pair_destroy(&a, FAULTY, &b, FAULTY);
}

/* --- outcomes -------------------------------------------------------------------- */

static const struct {
	const char *rules;
	enum ibv_wr_opcode op;
	enum ibv_wc_status status;
	uint32_t ms;		/* it takes so long at least */
	enum ibv_qp_state peer; /* what becomes of the responder */
} outcomes[] = {
	{"delay 60ms @", IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS, 60, IBV_QPS_RTS},
	{"delay 10ms @; delay 50ms @", IBV_WR_SEND, IBV_WC_SUCCESS, 10, IBV_QPS_RTS},
	{"rnr 3 @", IBV_WR_SEND, IBV_WC_SUCCESS, 1, IBV_QPS_RTS},
	{"rnr 3 @", IBV_WR_RDMA_READ, IBV_WC_SUCCESS, 1, IBV_QPS_RTS},
	{"rnr 2ms @", IBV_WR_SEND, IBV_WC_SUCCESS, 2, IBV_QPS_RTS},
	{"rnr 7 @", IBV_WR_SEND, IBV_WC_RNR_RETRY_EXC_ERR, 3, IBV_QPS_RTS},
	{"rnr all @", IBV_WR_SEND, IBV_WC_RNR_RETRY_EXC_ERR, 3, IBV_QPS_RTS},
	{"rnr-exhausted @", IBV_WR_SEND, IBV_WC_RNR_RETRY_EXC_ERR, 0, IBV_QPS_RTS},
	{"lose 2 @", IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS, 8, IBV_QPS_RTS},
	{"lose all @", IBV_WR_RDMA_WRITE, IBV_WC_RETRY_EXC_ERR, 33, IBV_QPS_RTS},
	{"retry-exhausted @", IBV_WR_RDMA_WRITE, IBV_WC_RETRY_EXC_ERR, 0, IBV_QPS_RTS},
	{"peer-death @", IBV_WR_RDMA_WRITE, IBV_WC_RETRY_EXC_ERR, 33, IBV_QPS_RTS},
	{"status loc-prot-err @", IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR, 0, IBV_QPS_RTS},
	{"status rem-access-err @", IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, 0, IBV_QPS_ERR},
	{"status rem-inv-req-err @", IBV_WR_RDMA_READ, IBV_WC_REM_INV_REQ_ERR, 0, IBV_QPS_ERR},
	{"status rem-op-err @", IBV_WR_SEND, IBV_WC_REM_OP_ERR, 0, IBV_QPS_ERR},
	{"status general-err @", IBV_WR_RDMA_WRITE, IBV_WC_GENERAL_ERR, 0, IBV_QPS_RTS},
	{"status bad-resp-err @", IBV_WR_RDMA_WRITE, IBV_WC_BAD_RESP_ERR, 0, IBV_QPS_RTS},
};

static void outcome_row(size_t i)
{
	enum ibv_wr_opcode op = outcomes[i].op;
	enum ibv_wc_status status;
	struct ibv_wc wc[1];
	uint64_t before, took;

	row("'%s' on opcode %d", outcomes[i].rules, (int)op);
	begin();
	if (op == IBV_WR_SEND)
		side_recv_one(&b, FAULTY, 1, RECV_AT, BYTES);
	set_rules(outcomes[i].rules);
	before = now_ns();
	post(FAULTY, op);
	status = result();
	took = (now_ns() - before) / 1000000;
	EXPECT(status == outcomes[i].status, "ends as '%s'", ibv_wc_status_str(status));
	EXPECT(took + 1 >= outcomes[i].ms, "after %lu ms", took);
	EXPECT(side_state(&a, FAULTY) == (status == IBV_WC_SUCCESS ? IBV_QPS_RTS : IBV_QPS_ERR),
	       "requester in state %d", (int)side_state(&a, FAULTY));
	EXPECT(side_state(&b, FAULTY) == outcomes[i].peer, "responder in state %d",
	       (int)side_state(&b, FAULTY));
	if (status == IBV_WC_SUCCESS && op == IBV_WR_RDMA_WRITE)
		expect_written(FAULTY);
	if (status == IBV_WC_SUCCESS && op == IBV_WR_SEND) {
		EXPECT(side_poll(&b, 1, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
		       "the receive");
		EXPECT(side_check(&b, RECV_AT, BYTES, seed, 0) == -1, "its bytes");
	}
	while (side_poll(&b, 1, 1, 0, wc) > 0)
		;
	while (side_async(&b, 0).any)
		;
	end();
}

static void stall_row(void)
{
	struct ibv_wc wc[1];

	row("a stalled queue pair goes on when the faults are cleared, and no other one waits");
	begin();
	set_rules("stall @");
	post(FAULTY, IBV_WR_RDMA_WRITE);
	EXPECT(side_poll(&a, 0, 1, 300, wc) == 0, "it does not stall");
	bystander_goes_on();
	clear_rules();
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
	       "it stalls for ever");
	end();
}

static void overrun_row(void)
{
	struct node_qp_spec spec = spec_default();
	struct node_event e;
	int cq = 0, qp = 0;

	row("a CQ that is overrun on demand is broken: events of CQ and queue pair");
	EXPECT(side_create_cq(&a, 2, 16, false) == 0 && side_create_cq(&b, 2, 16, false) == 0,
	       "create_cq");
	spec.send_cq = 2;
	pair_create(&a, FAULTY, &b, FAULTY, &spec);
	pair_connect(&a, FAULTY, NULL, &b, FAULTY, NULL);
	set_rules("cq-overrun nth 2 @");
	post(FAULTY, IBV_WR_RDMA_WRITE);
	post(FAULTY, IBV_WR_RDMA_WRITE);
	for (int i = 0; i < 2; i++) {
		e = side_async(&a, PATIENCE);
		cq += e.any && e.type == IBV_EVENT_CQ_ERR && e.cq == 2;
		qp += e.any && e.type == IBV_EVENT_QP_FATAL && e.qp == FAULTY;
	}
	EXPECT(cq == 1 && qp == 1, "%d events of the CQ, %d of the queue pair", cq, qp);
	end();
	EXPECT(side_destroy_cq(&a, 2) == 0 && side_destroy_cq(&b, 2) == 0, "destroy_cq");
}

/* --- which requests -------------------------------------------------------------- */

/* Bits: requests of the row, from the first, that did not succeed; the queue pair is made anew
 * after each. */
static uint32_t struck(const char *rules)
{
	uint32_t bits = 0;

	begin();
	set_rules(rules);
	for (uint32_t i = 0; i < REQUESTS; i++) {
		post(FAULTY, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE);
		if (result() == IBV_WC_SUCCESS)
			continue;
		bits |= 1u << i;
		pair_destroy(&a, FAULTY, &b, FAULTY);
		begin();
	}
	end();
	return bits;
}

static const struct {
	const char *rules;
	uint32_t bits;
} choices[] = {
	{"retry-exhausted nth 3 &", 0x000004},
	{"retry-exhausted every 5 &", 0x084210},
	{"retry-exhausted first 2 &", 0x000003},
	{"retry-exhausted every 5 first 2 &", 0x000210},
	{"retry-exhausted opcode rdma-read every 4 &", 0x808080},
	{"retry-exhausted opcode send &", 0},
	{"retry-exhausted key 0x1 &", 0},
	{"retry-exhausted after 900s &", 0},
	{"retry-exhausted process nobody", 0},
	{"retry-exhausted device any1 &", 0},
	{"retry-exhausted 30% & seed 7", 0x232110}, /* by the generator in anyverbs_faults(5) */
};

static void choice_row(size_t i)
{
	uint32_t bits;

	row("'%s' strikes its requests", choices[i].rules);
	bits = struck(choices[i].rules);
	EXPECT(bits == choices[i].bits, "%06x instead of %06x", bits, choices[i].bits);
}

static void repeatable_row(void)
{
	uint32_t once, again, other;

	row("the same seed, the same faults");
	once = struck("retry-exhausted 30% & seed 7");
	again = struck("retry-exhausted 30% & seed 7");
	other = struck("retry-exhausted 30% & seed 8");
	EXPECT(once == again, "%06x, then %06x", once, again);
	EXPECT(once != other && once && once != 0xffffff, "%06x with another seed", other);
}

/* --- verbs ----------------------------------------------------------------------- */

static void verbs_rows(void)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr[3];
	static char buffer[4096];

	row("the nth registration fails, and none before or behind");
	begin();
	set_rules("fail reg_mr EAGAIN nth 2 &");
	for (int i = 0; i < 3; i++) {
		errno = 0;
		mr[i] = ibv_reg_mr(a.node->pd, buffer, sizeof(buffer), 0);
		EXPECT((mr[i] == NULL) == (i == 1), "registration %d", i);
		EXPECT(mr[i] || errno == EAGAIN, "errno %d", errno);
		if (mr[i])
			EXPECT(ibv_dereg_mr(mr[i]) == 0, "dereg_mr");
	}
	row("any verb that makes something fails on demand");
	set_rules("fail any EIO first 2 &");
	pd = ibv_alloc_pd(a.node->ctx);
	EXPECT(!pd && errno == EIO, "alloc_pd");
	EXPECT_NULL(ibv_create_cq(a.node->ctx, 1, NULL, NULL, 0), EIO);
	pd = ibv_alloc_pd(a.node->ctx);
	if (EXPECT(pd != NULL, "alloc_pd"))
		EXPECT(ibv_dealloc_pd(pd) == 0, "dealloc_pd");
	row("memory fails on demand");
	set_rules("fail memory &");
	EXPECT_NULL(ibv_create_cq(a.node->ctx, 1, NULL, NULL, 0), ENOMEM);
	end();
}

/* --- pages on demand ------------------------------------------------------------- */

/* Read from on-demand memory of ours that is being invalidated all the while. */
static void evict_row(const char *rules)
{
	const size_t bytes = 64 * 4096;
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr =
		ibv_reg_mr(a.node->pd, p, bytes, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
	uint64_t before = odp_counter(ODP_INVALIDATIONS);

	row("'%s': pages are invalidated, and no byte is lost", rules);
	if (!EXPECT(mr != NULL, "reg_mr"))
		return;
	begin();
	set_rules(rules);
	for (int i = 0; i < 200 || (i < 20000 && odp_counter(ODP_INVALIDATIONS) == before); i++) {
		struct node_send s = {.wr_id = ++seed,
				      .opcode = IBV_WR_RDMA_WRITE,
				      .flags = IBV_SEND_SIGNALED,
				      .num_sge = 1,
				      .sge = {{(uintptr_t)p, (uint32_t)bytes, mr->lkey}},
				      .remote_addr = b.info.base[KEY_FULL] + REMOTE_AT,
				      .rkey = b.info.key[KEY_FULL]};

		for (size_t at = 0; at < bytes; at += 4096)
			memcpy(p + at, &seed, sizeof(seed));
		EXPECT(side_post_send(&a, FAULTY, &s, 1).ret == 0, "post_send");
		EXPECT(result() == IBV_WC_SUCCESS, "request");
		EXPECT(side_peek(&b, REMOTE_AT + (uint64_t)(i % 64) * 4096) == seed, "page %d",
		       i % 64);
	}
	EXPECT(odp_counter(ODP_INVALIDATIONS) > before, "nothing was invalidated");
	end();
	EXPECT(ibv_dereg_mr(mr) == 0, "dereg_mr");
	munmap(p, bytes);
}

/* --- port, device ---------------------------------------------------------------- */

static void port_row(void)
{
	struct node_event e;

	row("the port goes down by the clock, and comes up again");
	begin();
	set_rules("port-down 100ms after 50ms &");
	post(FAULTY, IBV_WR_RDMA_WRITE); /* it hears of the rules */
	EXPECT(result() == IBV_WC_SUCCESS, "request");
	e = side_async(&a, PATIENCE);
	EXPECT(e.any && e.type == IBV_EVENT_PORT_ERR, "no PORT_ERR");
	e = side_async(&a, PATIENCE);
	EXPECT(e.any && e.type == IBV_EVENT_PORT_ACTIVE, "no PORT_ACTIVE");
	end();
}

/* Its own request kills a process: who is connected with it gets no answer, and nobody else hears
 * of it. */
static void kill_row(void)
{
	struct node_send s = {.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED};
	enum ibv_wc_status status;
	struct side c;
	char text[100];
	int how;

	row("a process is killed on demand, and its peer's requests get no answer");
	side_start(&c);
	pair_create(&a, FAULTY, &c, 0, NULL);
	pair_connect(&a, FAULTY, NULL, &c, 0, NULL);
	snprintf(text, sizeof(text), "kill nth 1 pid %d", (int)c.pid);
	set_rules(text);
	side_later(&c, 1);
	(void)side_post_send(&c, 0, &s, 1);
	how = side_bury(&c);
	EXPECT(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL, "it lives");
	post(FAULTY, IBV_WR_RDMA_WRITE);
	status = result();
	EXPECT(status == IBV_WC_RETRY_EXC_ERR, "the request ends as '%s'",
	       ibv_wc_status_str(status));
	clear_rules();
	bystander_goes_on();
	EXPECT(side_destroy_qp(&a, FAULTY) == 0, "destroy_qp");
}

/* The last row: the context is of no use behind it. */
static void fatal_row(void)
{
	enum ibv_wc_status status[3];
	struct node_event e;

	row("the device fails at its third request, for this process alone");
	begin();
	set_rules("fatal nth 3 @");
	for (int i = 0; i < 3; i++) {
		post(FAULTY, IBV_WR_RDMA_WRITE);
		status[i] = result();
	}
	EXPECT(status[0] == IBV_WC_SUCCESS && status[1] == IBV_WC_SUCCESS &&
		       status[2] == IBV_WC_WR_FLUSH_ERR,
	       "%d, %d, %d", status[0], status[1], status[2]);
	do
		e = side_async(&a, PATIENCE);
	while (e.any && (e.type == IBV_EVENT_PORT_ERR || e.type == IBV_EVENT_PORT_ACTIVE));
	EXPECT(e.any && e.type == IBV_EVENT_DEVICE_FATAL, "no DEVICE_FATAL");
	EXPECT_NULL(ibv_alloc_pd(a.node->ctx), EIO);
	EXPECT(side_state(&b, FAULTY) == IBV_QPS_RTS, "the other process suffers");
	clear_rules();
}

int main(int argc, char **argv)
{
	two_sides_open(argc, argv);
	pair_create(&a, BYSTANDER, &b, BYSTANDER, NULL);
	pair_connect(&a, BYSTANDER, NULL, &b, BYSTANDER, NULL);
	for (size_t i = 0; i < COUNT_OF(outcomes); i++)
		outcome_row(i);
	stall_row();
	overrun_row();
	for (size_t i = 0; i < COUNT_OF(choices); i++)
		choice_row(i);
	repeatable_row();
	verbs_rows();
	evict_row("evict 8 seed 3 &");
	evict_row("evict all 10% &");
	evict_row("evict 20 every 2ms &");
	port_row();
	kill_row();
	fatal_row();
	return two_sides_close();
}
