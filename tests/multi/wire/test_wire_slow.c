/* SPDX-License-Identifier: MIT */
/*
 * A host whose interface is slower than its programs. Nothing that they send is lost there: what
 * has no room waits. Nor does one long READ keep everybody else waiting.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/forge.h"
#include "lib/pattern.h"
#include "lib/two_hosts.h"

#define PATIENCE  20000u /* ms */
#define BRIEFLY	  300	 /* ms in which nothing should come */
#define PAUSE	  3000	 /* of a sender, on a busy machine */
#define MTU	  4096u
#define FIRST_PSN 0xffffc0u
#define PEER_QPN  0x4711u /* and one more for each queue pair */
#define TIMEOUT	  17	  /* 0.5 s */
#define SEED	  5u
#define PACKETS	  256u
#define BYTES	  (PACKETS * MTU)
#define ENDLESS	  (4 * BYTES) /* more than the interface sends in some seconds */
#define PIECE	  65536u      /* of a message of UC */

static struct side b; /* on host 1; host 0 is this process, with a socket */

/* The kernel's queue is never full before the socket's buffer is. */
static void slow_down(void)
{
	two_hosts_be(1);
	if (system("tc qdisc add dev v1 root tbf rate 10mbit burst 16kb limit 600kb 2>/dev/null")) {
		printf("skipped: no slow interfaces here\n");
		exit(77);
	}
	two_hosts_be(0);
}

/* --- what b sends by itself ------------------------------------------------------ */

enum { SENDS, DRAINS, WRITES };

static struct ibv_ah_attr to_forge(void)
{
	return (struct ibv_ah_attr){
		.is_global = 1, .port_num = 1, .grh = {.dgid = forge_gid, .hop_limit = 64}};
}

/* Another address of host 0's: what is sent there is no part of the first one's window. */
static struct ibv_ah_attr to_other(void)
{
	struct ibv_ah_attr ah = to_forge();

	ah.grh.dgid.raw[15] = 9;
	return ah;
}

static struct ibv_qp *connected(struct node *n, enum ibv_qp_type type, struct ibv_ah_attr ah)
{
	struct ibv_qp_init_attr init = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {.max_send_wr = PACKETS, .max_send_sge = 1},
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 0x111,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = PEER_QPN,
		.sq_psn = FIRST_PSN,
		.ah_attr = ah,
	};
	struct ibv_qp *qp = ibv_create_qp(n->pd, &init);
	bool ud = type == IBV_QPT_UD;

	NEED(qp);
	NEED(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				   (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) == 0);
	attr.qp_state = IBV_QPS_RTR;
	NEED(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | (ud ? 0
					      : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
							   IBV_QP_RQ_PSN)) == 0);
	attr.qp_state = IBV_QPS_RTS;
	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	return qp;
}

/* Messages of @bytes, BYTES in all. */
static void post(struct node *n, struct ibv_qp *qp, uint32_t bytes)
{
	struct ibv_ah_attr attr = to_forge();
	struct ibv_ah *ah = ibv_create_ah(n->pd, &attr);

	NEED(ah);
	for (uint32_t i = 0; i < BYTES / bytes; i++) {
		struct ibv_sge sge = {(uintptr_t)n->arena, bytes, n->mr[KEY_FULL]->lkey};
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1},
				   *bad;

		if (qp->qp_type == IBV_QPT_UD) {
			wr.wr.ud.ah = ah;
			wr.wr.ud.remote_qpn = PEER_QPN;
			wr.wr.ud.remote_qkey = 0x111;
		}
		NEED(ibv_post_send(qp, &wr, &bad) == 0);
	}
	NEED(ibv_destroy_ah(ah) == 0);
}

/* Return: requests that have been done, at most @most */
static uint64_t all_done(struct node *n, uint64_t most)
{
	uint64_t done = 0;
	struct ibv_wc wc;

	while (done < most && node_poll(n, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS)
		done++;
	return done;
}

/* Return: requests that have been done */
static uint64_t sends(struct node *n, struct ibv_qp *qp, uint32_t bytes)
{
	post(n, qp, bytes);
	return all_done(n, BYTES / bytes);
}

/* Return: requests that had been done when the queue was drained */
static uint64_t drains(struct node *n, struct ibv_qp *qp, uint32_t bytes)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct node_event event;
	struct ibv_wc wc[PACKETS];

	post(n, qp, bytes);
	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
	do
		event = node_async(n, PATIENCE);
	while (event.any && event.type != IBV_EVENT_SQ_DRAINED);
	EXPECT(event.any, "no event");
	return (uint64_t)ibv_poll_cq(n->cq[0], PACKETS, wc);
}

/* Queue pair 0 writes what @qp's messages leave no room for. Return: messages that are done */
static uint64_t writes(struct node *n, struct ibv_qp *qp, uint32_t bytes)
{
	struct node_send s = {
		.opcode = IBV_WR_RDMA_WRITE,
		.num_sge = 1,
		.sge = {{(uintptr_t)n->arena, BYTES, n->mr[KEY_FULL]->lkey}},
		.remote_addr = 0x1000,
		.rkey = 7,
	};

	post(n, qp, bytes);
	NEED(node_post_send(n, 0, &s, 1).ret == 0);
	return all_done(n, BYTES / bytes);
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	static uint64_t (*const what[])(struct node *, struct ibv_qp *, uint32_t) = {
		[SENDS] = sends, [DRAINS] = drains, [WRITES] = writes};
	struct ibv_ah_attr ah = job->arg[0] == WRITES ? to_other() : to_forge();
	struct ibv_qp *qp = connected(n, (enum ibv_qp_type)job->arg[1], ah);
	uint64_t done = what[job->arg[0]](n, qp, (uint32_t)job->arg[2]);

	NEED(ibv_destroy_qp(qp) == 0);
	return done;
}

/* Packets that come one after the other, from FIRST_PSN on, until there are none for a while. */
static uint32_t in_order(void)
{
	struct av_packet p;
	uint32_t n = 0;

	while (forge_receive(&p, n == 0 ? (int)PATIENCE : n < PACKETS ? PAUSE : BRIEFLY))
		if (p.psn == ((FIRST_PSN + n) & AV_PSN_MASK))
			n++;
	return n;
}

static void begin(uint64_t what, enum ibv_qp_type type, uint32_t bytes)
{
	struct side_job job = {.arg = {what, type, bytes}};

	side_begin(&b, &job);
}

static void messages_wait(void)
{
	static const struct {
		const char *name;
		enum ibv_qp_type type;
		uint32_t bytes;
	} rows[] = {
		{"UC", IBV_QPT_UC, PIECE},
		{"UC, one long message", IBV_QPT_UC, BYTES},
		{"UC, short ones", IBV_QPT_UC, MTU},
		{"UD", IBV_QPT_UD, MTU},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint32_t n;

		row("%s", rows[i].name);
		begin(SENDS, rows[i].type, rows[i].bytes);
		n = in_order();
		EXPECT(n == PACKETS, "%u packets", n);
		EXPECT(side_end(&b) == BYTES / rows[i].bytes, "completions");
	}
}

/* A message that has begun is sent as a whole, and none after it begins. */
static void is_drained(void)
{
	static const uint32_t bytes[] = {PIECE, BYTES};

	for (size_t i = 0; i < COUNT_OF(bytes); i++) {
		uint32_t n;
		uint64_t done;

		row("drained: %u B", bytes[i]);
		begin(DRAINS, IBV_QPT_UC, bytes[i]);
		n = in_order();
		done = side_end(&b);
		EXPECT(n == done * bytes[i] / MTU, "%u packets of %lu messages", n, done);
		EXPECT(done >= 1, "messages");
	}
}

/* --- READs that b answers -------------------------------------------------------- */

static uint32_t make(int qp)
{
	struct node_qp_spec spec = spec_default();
	struct node_link link = link_default();
	uint32_t qpn;

	link.dest_qpn = PEER_QPN + (uint32_t)qp;
	link.dgid = forge_gid;
	link.rq_psn = link.sq_psn = FIRST_PSN;
	link.mtu = IBV_MTU_4096;
	link.timeout = TIMEOUT;
	link.retry_cnt = 7;
	NEED(side_create_qp(&b, qp, &spec, &qpn) == 0);
	NEED(side_connect(&b, qp, &link) == 0);
	return qpn;
}

/* @at: the first packet of the answer that is asked for, counted from FIRST_PSN */
static void ask(uint32_t qpn, uint32_t at, uint32_t bytes)
{
	struct av_packet p = {.opcode = READ_REQUEST,
			      .psn = FIRST_PSN + at,
			      .ack_request = true,
			      .addr = b.info.base[KEY_FULL] + (uint64_t)at * MTU,
			      .rkey = b.info.key[KEY_FULL],
			      .length = bytes};

	forge_send(qpn, p, NONE);
}

/* A short READ behind it. */
static void ask_behind(uint32_t qpn)
{
	struct av_packet p = {.opcode = READ_REQUEST,
			      .psn = FIRST_PSN + PACKETS,
			      .ack_request = true,
			      .addr = b.info.base[KEY_FULL],
			      .rkey = b.info.key[KEY_FULL],
			      .length = 8};

	forge_send(qpn, p, NONE);
}

static void write_behind(uint32_t qpn)
{
	struct av_packet p = {.opcode = WRITE_ONLY,
			      .psn = FIRST_PSN + PACKETS,
			      .ack_request = true,
			      .addr = b.info.base[KEY_FULL] + BYTES,
			      .rkey = b.info.key[KEY_FULL],
			      .payload_bytes = 8,
			      .length = 8};

	forge_send(qpn, p, NONE);
}

static bool next_packet(struct av_packet *p)
{
	bool came = forge_receive(p, (int)PATIENCE);

	EXPECT(came, "nothing comes");
	return came;
}

/* @at: which packet of the answer it should be */
static void expect_piece(const struct av_packet *p, uint32_t at)
{
	uint8_t opcode = at == 0 ? READ_FIRST : at + 1 == PACKETS ? READ_LAST : READ_MIDDLE;

	EXPECT(p->opcode == opcode && p->psn == ((FIRST_PSN + at) & AV_PSN_MASK),
	       "packet %u: opcode %u, PSN %u", at, p->opcode, p->psn);
	EXPECT(pattern_check(p->payload, p->payload_bytes, SEED, (uint64_t)at * MTU) == -1,
	       "packet %u: bytes", at);
}

/* The queue pair goes on behind its answer. */
static void expect_written(uint32_t qpn)
{
	struct av_packet p;

	write_behind(qpn);
	if (next_packet(&p))
		EXPECT(p.opcode == ACKNOWLEDGE && p.syndrome <= ACK, "opcode %u, syndrome %u",
		       p.opcode, p.syndrome);
}

static void unmake(int qp)
{
	struct av_packet p;

	NEED(side_destroy_qp(&b, qp) == 0);
	while (forge_receive(&p, BRIEFLY))
		;
}

/* The whole answer, and nothing else before its end. */
static void expect_answer(void)
{
	struct av_packet p;

	for (uint32_t at = 0; at < PACKETS && next_packet(&p); at++)
		expect_piece(&p, at);
}

/* What comes behind it has to come again. */
static void expect_asked_for(void)
{
	struct av_packet p;

	if (next_packet(&p))
		EXPECT(p.opcode == ACKNOWLEDGE && p.syndrome == SEQUENCE &&
			       p.psn == ((FIRST_PSN + PACKETS) & AV_PSN_MASK),
		       "opcode %u, syndrome %u, PSN %u", p.opcode, p.syndrome, p.psn);
}

/* All of it has come when b begins to answer. */
static void ask_at_once(uint32_t qpn, uint32_t other)
{
	side_suspend(&b);
	ask(qpn, 0, BYTES);
	ask(other, 0, 8);
	write_behind(qpn);
	kill(b.pid, SIGCONT);
}

/* What is asked for behind it comes again when the answer is given. Others go before. */
static void long_read(void)
{
	uint32_t qpn = make(0), other = make(1), at = 0;
	bool passed = false;
	struct av_packet p;

	row("a long READ");
	ask_at_once(qpn, other);
	while (at < PACKETS && next_packet(&p)) {
		if (p.dest_qpn == PEER_QPN + 1)
			passed = p.opcode == READ_ONLY;
		else
			expect_piece(&p, at++);
	}
	EXPECT(passed, "another queue pair waits");
	expect_asked_for();
	expect_written(qpn);
	unmake(1);
	unmake(0);
}

/* The requester misses a part, and asks for all from there on. */
static void asked_again(void)
{
	static const struct {
		const char *name;
		uint32_t when, from; /* packets */
	} rows[] = {
		{"a part of it again", 40, 20},
		{"all of it again", 40, 0},
		{"the rest, which is on its way", 40, 41},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint32_t from = (FIRST_PSN + rows[i].from) & AV_PSN_MASK;
		uint32_t qpn = make(0), at = 0;
		bool again = false;
		struct av_packet p;

		row("%s", rows[i].name);
		ask(qpn, 0, BYTES);
		while ((at < PACKETS || !again) && next_packet(&p)) {
			if (!again && p.psn != ((FIRST_PSN + at) & AV_PSN_MASK) && p.psn == from) {
				again = true;
				at = rows[i].from;
			}
			EXPECT(p.psn == ((FIRST_PSN + at) & AV_PSN_MASK), "packet %u: PSN %u", at,
			       p.psn);
			at++;
			if (at == rows[i].when && !again)
				ask(qpn, rows[i].from, BYTES - rows[i].from * MTU);
		}
		EXPECT(again, "it does not come again");
		expect_written(qpn);
		unmake(0);
	}
}

/* Its answer is lost, and it comes again together with the next READ. */
static void with_the_next_one(void)
{
	uint32_t qpn = make(0);
	struct av_packet p;

	row("again, with the next one");
	ask(qpn, 0, BYTES);
	expect_answer();
	side_suspend(&b);
	ask(qpn, 0, BYTES);
	ask_behind(qpn);
	kill(b.pid, SIGCONT);
	expect_answer();
	expect_asked_for();
	ask_behind(qpn);
	if (next_packet(&p))
		EXPECT(p.opcode == READ_ONLY && p.psn == ((FIRST_PSN + PACKETS) & AV_PSN_MASK),
		       "opcode %u, PSN %u", p.opcode, p.psn);
	unmake(0);
}

/*
 * Nobody answers a long WRITE, so that it is sent again. The last packet of before, behind which
 * the interface or the window has no room, asks for the acknowledgement that it goes on by.
 */
static void asks_before_it_waits(void)
{
	bool asked = false;
	struct av_packet p;
	uint32_t at = 0;

	row("a long WRITE");
	make(0);
	begin(WRITES, IBV_QPT_UC, BYTES);
	while (next_packet(&p) && p.psn == ((FIRST_PSN + at) & AV_PSN_MASK)) {
		asked = p.ack_request;
		at++;
	}
	EXPECT(p.psn == FIRST_PSN, "PSN %#x behind packet %u", p.psn, at);
	EXPECT(asked, "packet %u is the last one, and does not ask", at);
	(void)side_end(&b);
	unmake(0);
}

/* The queue pair ends, or its connection, while it answers: so does the answer. */
static void ended(void)
{
	static const struct {
		const char *name;
		enum ibv_qp_state to;
	} rows[] = {{"destroyed", IBV_QPS_UNKNOWN}, {"ERR", IBV_QPS_ERR}, {"RESET", IBV_QPS_RESET}};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint32_t qpn = make(0), n = 1;
		struct av_packet p;

		row("%s", rows[i].name);
		ask(qpn, 0, ENDLESS);
		if (!next_packet(&p))
			continue;
		if (rows[i].to == IBV_QPS_UNKNOWN)
			EXPECT(side_destroy_qp(&b, 0) == 0, "ibv_destroy_qp");
		else
			EXPECT(side_set_state(&b, 0, rows[i].to) == 0, "ibv_modify_qp");
		while (forge_receive(&p, BRIEFLY))
			n++;
		EXPECT(n < ENDLESS / MTU, "%u packets", n);
		if (rows[i].to != IBV_QPS_UNKNOWN)
			unmake(0);
	}
	row("another one");
	long_read();
}

int main(int argc, char **argv)
{
	side_work = work;
	two_hosts_open(argc, argv);
	time_limit(300);
	slow_down();
	forge_open();
	two_hosts_start(&b, 1, "");
	side_fill(&b, 0, BYTES, SEED, 0);
	messages_wait();
	is_drained();
	asks_before_it_waits();
	long_read();
	asked_again();
	with_the_next_one();
	ended();
	side_stop(&b);
	return summary();
}
