/* SPDX-License-Identifier: MIT */
/*
 * Requests that get no answer, or are told to come back later: how often and how long they are
 * tried, how they end, and what lets them go on.
 */
#include <stdio.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/two_sides.h"

#define SLACK_US    15000000u /* of a busy host */
#define EARLY_MS    300u
#define TIMER_31_MS 491u /* of code 31, 491.52 ms */
#define ATTEMPTS    8	 /* a busy host only makes it longer, so the best counts */
#define PATIENCE    20000u
#define LOCAL_AT    0x1000u
#define RECV_AT	    0x200000u
#define REMOTE_AT   0x100000u

static const char *mode;
static uint64_t seed;

/* By code, in microseconds; IBTA volume 1, table "RNR NAK timer field encoding". */
static const struct {
	uint8_t code;
	uint32_t us;
} rnr_timer[] = {{12, 640}, {18, 5120}, {20, 10240}, {22, 20480}};

static struct node_send request(enum ibv_wr_opcode op, uint32_t bytes)
{
	return (struct node_send){
		.wr_id = ++seed,
		.opcode = op,
		.flags = IBV_SEND_SIGNALED,
		.num_sge = 1,
		.sge = {side_sge(&a, KEY_FULL, LOCAL_AT, bytes)},
		.remote_addr = b.info.base[KEY_FULL] + REMOTE_AT,
		.rkey = b.info.key[KEY_FULL],
	};
}

static void post(enum ibv_wr_opcode op, uint32_t bytes)
{
	struct node_send s = request(op, bytes);

	side_fill(&a, LOCAL_AT, bytes, seed, 0);
	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "post_send");
}

static void connect_pair(const struct node_link *la, const struct node_link *lb)
{
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, la, &b, 0, lb);
}

/* The request ends with @status, neither earlier nor much later than it should. */
static void expect_end(enum ibv_wc_status status, uint64_t begin, uint64_t min_us,
		       uint64_t usual_us)
{
	struct ibv_wc wc[2];
	uint64_t us;

	if (!EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1, "no completion"))
		return;
	us = (now_ns() - begin) / 1000;
	EXPECT(wc[0].status == status && wc[0].wr_id == seed, "ends as '%s'",
	       ibv_wc_status_str(wc[0].status));
	EXPECT(us >= min_us && us <= 3 * usual_us + SLACK_US, "after %lu us instead of %lu", us,
	       usual_us);
	EXPECT(side_state(&a, 0) == (status == IBV_WC_SUCCESS ? IBV_QPS_RTS : IBV_QPS_ERR),
	       "requester in state %d", (int)side_state(&a, 0));
}

static void expect_nothing_for(unsigned int ms)
{
	struct ibv_wc wc[1];

	EXPECT(side_poll(&a, 0, 1, ms, wc) == 0, "ends as '%s' before it may",
	       ibv_wc_status_str(wc[0].status));
}

static void expect_received(uint32_t bytes)
{
	struct ibv_wc wc[2];

	EXPECT(side_poll(&b, 1, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS &&
		       wc[0].byte_len == bytes,
	       "the receive");
	EXPECT(side_check(&b, RECV_AT, bytes, seed, 0) == -1, "its data");
}

/* --- no receive posted ----------------------------------------------------------- */

static void rnr_rows(void)
{
	static const uint8_t counts[] = {0, 1, 3, 6};

	for (size_t i = 0; i < COUNT_OF(rnr_timer) * COUNT_OF(counts); i++) {
		struct node_link la = link_default(), lb = link_default();
		uint64_t us, begin;

		lb.min_rnr_timer = rnr_timer[i / COUNT_OF(counts)].code;
		la.min_rnr_timer = 31; /* the responder's counts, not ours */
		la.rnr_retry = counts[i % COUNT_OF(counts)];
		us = (uint64_t)la.rnr_retry * rnr_timer[i / COUNT_OF(counts)].us;
		row("[%s] rnr_retry %d with timer %lu us ends after both", mode, la.rnr_retry, us);
		connect_pair(&la, &lb);
		begin = now_ns();
		post(i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM, 100);
		expect_end(IBV_WC_RNR_RETRY_EXC_ERR, begin, us, us);
		EXPECT(side_state(&b, 0) == IBV_QPS_RTS, "responder in state %d",
		       (int)side_state(&b, 0));
		pair_destroy(&a, 0, &b, 0);
	}
}

static void rnr_infinite_row(uint32_t bytes)
{
	struct node_link la = link_default();

	row("[%s] rnr_retry 7: %u bytes wait until the receive is posted", mode, bytes);
	la.rnr_retry = 7;
	connect_pair(&la, NULL);
	post(IBV_WR_SEND, bytes);
	expect_nothing_for(200);
	side_recv_one(&b, 0, 1, RECV_AT, bytes);
	expect_end(IBV_WC_SUCCESS, now_ns(), 0, 100000);
	expect_received(bytes);
	pair_destroy(&a, 0, &b, 0);
}

static void rnr_early_row(void)
{
	struct node_link la = link_default(), lb = link_default();

	uint64_t begin, took = UINT64_MAX;

	row("[%s] the wait for a receive ends when it is posted, not with the timer", mode);
	lb.min_rnr_timer = 31; /* 492 ms */
	la.rnr_retry = 6;
	connect_pair(&la, &lb);
	for (int i = 0; i < ATTEMPTS && took > EARLY_MS; i++) {
		post(IBV_WR_SEND, 1000);
		expect_nothing_for(20);
		side_recv_one(&b, 0, 1, RECV_AT, 1000);
		begin = now_ms();
		expect_end(IBV_WC_SUCCESS, now_ns(), 0, 0);
		took = now_ms() - begin;
		expect_received(1000);
	}
	EXPECT(took <= EARLY_MS, "%lu ms at best", took);
	pair_destroy(&a, 0, &b, 0);
}

/*
 * Five requests, each of which waits for half of what it may: for the five together it would not
 * do. Return: false: on a busy host one had to wait for longer than it may, and nothing follows
 * from its end
 */
static bool rnr_progress_once(void)
{
	struct node_link la = link_default(), lb = link_default();
	struct ibv_wc wc[1];
	bool in_time = true;
	uint64_t since;

	lb.min_rnr_timer = 31;
	la.rnr_retry = 1;
	connect_pair(&la, &lb);
	since = now_ms();
	for (int i = 0; i < 5; i++)
		post(IBV_WR_SEND, 8);
	for (int i = 0; i < 5 && in_time; i++) {
		int early = side_poll(&a, 0, 1, TIMER_31_MS / 2, wc);
		uint64_t next_since =
			now_ms(); /* the next one waits as soon as this one has a receive */

		side_recv_one(&b, 0, 1, RECV_AT, 8);
		in_time = now_ms() - since < TIMER_31_MS;
		since = next_since;
		if (!in_time)
			break;
		EXPECT(early == 0, "request %d ends before it may", i);
		EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
		       "request %d: '%s'", i, ibv_wc_status_str(wc[0].status));
	}
	pair_destroy(&a, 0, &b, 0);
	return in_time;
}

static void rnr_progress_row(void)
{
	row("[%s] each request has all its retries", mode);
	for (int i = 0; i < ATTEMPTS; i++)
		if (rnr_progress_once())
			return;
	printf("%s: the host is too busy to tell\n", row_name());
}

/* --- nobody answers -------------------------------------------------------------- */

enum absence { IN_RESET, IN_INIT, IN_ERR, DESTROYED, ELSEWHERE, WRONG_PSN, WRONG_GID, NEVER_THERE };

static const char *const absence_name[] = {
	[IN_RESET] = "peer in RESET",
	[IN_INIT] = "peer in INIT",
	[IN_ERR] = "peer in ERR",
	[DESTROYED] = "peer destroyed",
	[ELSEWHERE] = "peer connected with another",
	[WRONG_PSN] = "peer expects another PSN",
	[WRONG_GID] = "address that leads nowhere",
	[NEVER_THERE] = "number of no queue pair",
};

/* Connect a to b in such a way that b does not answer. */
static void connect_in_vain(enum absence why, struct node_link la)
{
	struct node_link lb = link_default();
	int ret;

	pair_create(&a, 0, &b, 0, NULL);
	la.dest_qpn = why == NEVER_THERE ? 0xfffff0 : side_qpn(&b, 0);
	la.dgid = b.info.gid;
	lb.dest_qpn = side_qpn(&a, 0) + (why == ELSEWHERE);
	lb.dgid = a.info.gid;
	lb.to = why == IN_RESET ? IBV_QPS_RESET : why == IN_INIT ? IBV_QPS_INIT : IBV_QPS_RTS;
	if (why == WRONG_PSN)
		lb.rq_psn++;
	if (why == WRONG_GID)
		la.dgid.raw[15] ^= 0x55;
	ret = why == IN_RESET ? 0 : side_connect(&b, 0, &lb);
	if (why == IN_ERR)
		ret |= side_set_state(&b, 0, IBV_QPS_ERR);
	if (why == DESTROYED)
		ret |= side_destroy_qp(&b, 0);
	if (ret | side_connect(&a, 0, &la))
		DIE("connecting");
}

static void destroy_after(enum absence why)
{
	EXPECT(side_destroy_qp(&a, 0) == 0, "ibv_destroy_qp");
	if (why != DESTROYED)
		EXPECT(side_destroy_qp(&b, 0) == 0, "ibv_destroy_qp");
}

static void absence_rows(void)
{
	static const struct {
		uint8_t timeout, retry_cnt;
	} timers[] = {{10, 7}, {14, 1}, {15, 0}};
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD};

	for (enum absence why = IN_RESET; why <= NEVER_THERE; why++) {
		for (size_t t = 0; t < COUNT_OF(timers); t++) {
			enum ibv_wr_opcode op = ops[(why + t) % COUNT_OF(ops)];
			uint64_t us = (timers[t].retry_cnt + 1u) * 4096ull *
				      (1ull << timers[t].timeout) / 1000,
				 begin;
			struct node_link la = link_default();
			bool gone =
				why == DESTROYED || why == NEVER_THERE; /* may be told at once */

			row("[%s] %s, opcode %d: no answer within (%d + 1) x %d", mode,
			    absence_name[why], (int)op, timers[t].retry_cnt, timers[t].timeout);
			la.timeout = timers[t].timeout;
			la.retry_cnt = timers[t].retry_cnt;
			connect_in_vain(why, la);
			begin = now_ns();
			post(op, 8);
			expect_end(IBV_WC_RETRY_EXC_ERR, begin, gone ? 0 : us, us);
			destroy_after(why);
		}
	}
}

static void peer_in_rtr_row(void)
{
	struct node_link lb = link_default();

	row("[%s] a peer in RTR answers", mode);
	lb.to = IBV_QPS_RTR;
	connect_pair(NULL, &lb);
	side_recv_one(&b, 0, 1, RECV_AT, 8);
	post(IBV_WR_SEND, 8);
	expect_end(IBV_WC_SUCCESS, now_ns(), 0, 100000);
	expect_received(8);
	pair_destroy(&a, 0, &b, 0);
}

/* The peer becomes ready while the request waits. @timeout 0: for ever */
static void ready_later_row(uint8_t timeout, enum ibv_qp_state until)
{
	struct node_link la = link_default(), lb = link_default();

	row("[%s] timeout %d: a peer in state %d becomes ready", mode, timeout, (int)until);
	la.timeout = timeout;
	la.retry_cnt = timeout ? 7 : 0;
	connect_in_vain(until == IBV_QPS_RESET ? IN_RESET : IN_INIT, la);
	post(IBV_WR_SEND, 5000);
	expect_nothing_for(150);
	lb.dest_qpn = side_qpn(&a, 0);
	lb.dgid = a.info.gid;
	lb.to = IBV_QPS_INIT;
	EXPECT(side_connect(&b, 0, &lb) == 0, "to INIT");
	side_recv_one(&b, 0, 1, RECV_AT, 5000);
	lb.to = IBV_QPS_RTR;
	EXPECT(side_connect(&b, 0, &lb) == 0, "to RTR");
	expect_end(IBV_WC_SUCCESS, now_ns(), 0, 150000);
	expect_received(5000);
	pair_destroy(&a, 0, &b, 0);
}

static void timers_zero_rows(void)
{
	struct node_link la = link_default();
	uint64_t begin;

	la.timeout = la.retry_cnt = la.rnr_retry = 0;
	row("[%s] all timers 0: a present peer answers", mode);
	connect_pair(&la, NULL);
	side_recv_one(&b, 0, 1, RECV_AT, 8);
	post(IBV_WR_SEND, 8);
	expect_end(IBV_WC_SUCCESS, now_ns(), 0, 100000);
	expect_received(8);
	row("[%s] all timers 0: no receive, no patience", mode);
	begin = now_ns();
	post(IBV_WR_SEND, 8);
	expect_end(IBV_WC_RNR_RETRY_EXC_ERR, begin, 0, 0);
	pair_destroy(&a, 0, &b, 0);
	row("[%s] timeout 0: waits for ever for an absent peer, until its end", mode);
	connect_in_vain(IN_INIT, la);
	post(IBV_WR_RDMA_WRITE, 8);
	expect_nothing_for(400);
	EXPECT(side_destroy_qp(&b, 0) == 0, "ibv_destroy_qp");
	EXPECT(side_destroy_qp(&a, 0) == 0, "ibv_destroy_qp");
}

static void error_while_waiting_row(void)
{
	struct node_link la = link_default();
	struct ibv_wc wc[1];

	row("[%s] a peer that fails while a request waits for its receive: no answer any more",
	    mode);
	la.rnr_retry = 7;
	connect_pair(&la, NULL);
	post(IBV_WR_SEND, 8);
	expect_nothing_for(30);
	EXPECT(side_set_state(&b, 0, IBV_QPS_ERR) == 0, "to ERR");
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_RETRY_EXC_ERR,
	       "ends as '%s'", ibv_wc_status_str(wc[0].status));
	pair_destroy(&a, 0, &b, 0);
}

/* --- the sender sleeps ----------------------------------------------------------- */

static void sleeping_sender_row(enum ibv_wr_opcode op, uint32_t bytes)
{
	struct node_link la = link_default(), lb = link_default();

	row("opcode %d of %u bytes is done for a sender that sleeps until its event", (int)op,
	    bytes);
	la.rnr_retry = 7;
	lb.min_rnr_timer = 31;
	connect_pair(&la, &lb);
	EXPECT(side_arm(&a, 0, 0) == 0, "ibv_req_notify_cq");
	post(op, bytes);
	side_later(&b, 60);
	side_recv_one(&b, 0, 1, RECV_AT, bytes);
	EXPECT(side_comp_event(&a, PATIENCE) == 0, "no event");
	expect_end(IBV_WC_SUCCESS, now_ns(), 0, 10000);
	if (op == IBV_WR_SEND)
		expect_received(bytes);
	else
		EXPECT(side_check(&b, REMOTE_AT, bytes, seed, 0) == -1, "its data");
	pair_destroy(&a, 0, &b, 0);
}

static void sleeping_sender_timeout_row(void)
{
	struct node_link la = link_default();

	row("a timeout is told to a sender that sleeps");
	connect_in_vain(IN_INIT, la);
	EXPECT(side_arm(&a, 0, 0) == 0, "ibv_req_notify_cq");
	post(IBV_WR_SEND, 8);
	EXPECT(side_comp_event(&a, PATIENCE) == 0, "no event");
	expect_end(IBV_WC_RETRY_EXC_ERR, now_ns(), 0, 10000);
	destroy_after(IN_INIT);
}

/* --- */

static void all_rows(const char *name)
{
	mode = name;
	rnr_rows();
	rnr_infinite_row(8);
	rnr_infinite_row(4000);
	rnr_infinite_row(200000);
	rnr_early_row();
	rnr_progress_row();
	absence_rows();
	peer_in_rtr_row();
	ready_later_row(0, IBV_QPS_INIT);
	ready_later_row(0, IBV_QPS_RESET);
	ready_later_row(18, IBV_QPS_INIT);
	timers_zero_rows();
	error_while_waiting_row();
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = {0, 8, 1000, 40000, 1 << 20};

	two_sides_open(argc, argv);
	all_rows("two processes");
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		sleeping_sender_row(IBV_WR_SEND, sizes[i]);
		sleeping_sender_row(IBV_WR_RDMA_WRITE_WITH_IMM, sizes[i]);
	}
	sleeping_sender_timeout_row();
	side_stop(&b);
	side_open(&b, a.node->ctx);
	all_rows("one context");
	return two_sides_close();
}
