/* SPDX-License-Identifier: MIT */
/*
 * Queues that end: flushing in the error state, emptying by RESET and by destruction, draining,
 * overrun; when their slots are free; and when a completion channel says that something came.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/wait.h"
#include "lib/ways.h"

#define PATIENCE 20000u
#define SHORTLY	 50u /* ms in which nothing may come */
#define LOCAL_AT 0x1000u
#define RECV_AT	 0x200000u

static struct side a, b;
static const char *mode;
static uint64_t seed;

static struct node_send a_send(struct side *s, uint64_t wr_id, unsigned int flags)
{
	return (struct node_send){.wr_id = wr_id,
				  .opcode = IBV_WR_SEND,
				  .flags = flags,
				  .num_sge = 1,
				  .sge = {side_sge(s, KEY_FULL, LOCAL_AT, 100)}};
}

static void post(struct side *s, int qp, uint64_t wr_id, unsigned int flags)
{
	struct node_send send = a_send(s, wr_id, flags);

	EXPECT(side_post_send(s, qp, &send, 1).ret == 0, "post_send");
}

static void receives(struct side *s, int qp, uint64_t first, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		side_recv_one(s, qp, first + i, RECV_AT + i * 4096, 200);
}

/* The next @count completions are numbers @first, @first + 1, ... with that status; and no more
 * than they. */
static void expect_completions(struct side *s, int cq, uint64_t first, int count,
			       enum ibv_wc_status status)
{
	struct ibv_wc wc[NODE_LIST];
	int got = side_poll(s, cq, count, PATIENCE, wc);

	EXPECT(got == count, "%d completions instead of %d", got, count);
	for (int i = 0; i < got; i++)
		EXPECT(wc[i].wr_id == first + (uint64_t)i && wc[i].status == status,
		       "completion %d is number %d, '%s'", i, (int)wc[i].wr_id,
		       ibv_wc_status_str(wc[i].status));
	EXPECT(side_poll(s, cq, 1, 0, wc) == 0, "number %d completes, too", (int)wc[0].wr_id);
}

static struct node_link patient(void)
{
	struct node_link link = link_default();

	link.rnr_retry = 7;
	return link;
}

/* Queue pair 0 of either side, whose requests wait for receives for ever. */
static void connect_patiently(void)
{
	struct node_link link = patient();

	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, &link, &b, 0, &link);
}

static void exchange(int qp)
{
	struct ibv_wc wc[1];

	side_fill(&a, LOCAL_AT, 100, ++seed, 0);
	side_recv_one(&b, qp, seed, RECV_AT, 200);
	post(&a, qp, seed, IBV_SEND_SIGNALED);
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS &&
		       wc[0].wr_id == seed,
	       "send: '%s'", ibv_wc_status_str(wc[0].status));
	EXPECT(side_poll(&b, 1, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS &&
		       wc[0].wr_id == seed,
	       "receive: '%s'", ibv_wc_status_str(wc[0].status));
	EXPECT(side_check(&b, RECV_AT, 100, seed, 0) == -1, "data");
}

/* --- error ----------------------------------------------------------------------- */

static void flush_row(void)
{
	row("[%s] in ERR every request completes once, in order, signalled or not", mode);
	connect_patiently();
	receives(&a, 0, 101, 3);
	for (uint64_t i = 1; i <= 6; i++)
		post(&a, 0, i, i % 2 ? IBV_SEND_SIGNALED : 0);
	EXPECT(side_set_state(&a, 0, IBV_QPS_ERR) == 0, "to ERR");
	expect_completions(&a, 0, 1, 6, IBV_WC_WR_FLUSH_ERR);
	expect_completions(&a, 1, 101, 3, IBV_WC_WR_FLUSH_ERR);
	row("[%s] what is posted in ERR is flushed, too", mode);
	post(&a, 0, 7, 0);
	receives(&a, 0, 104, 1);
	expect_completions(&a, 0, 7, 1, IBV_WC_WR_FLUSH_ERR);
	expect_completions(&a, 1, 104, 1, IBV_WC_WR_FLUSH_ERR);
	EXPECT(side_state(&b, 0) == IBV_QPS_RTS, "the peer's state %d", (int)side_state(&b, 0));
	pair_destroy(&a, 0, &b, 0);
}

static void flush_after_success_row(void)
{
	struct ibv_wc wc[8];
	int got = 0;

	row("[%s] ERR: what was done before is a success, the rest is flushed, all in order", mode);
	connect_patiently();
	receives(&b, 0, 1, 3);
	for (uint64_t i = 1; i <= 6; i++)
		post(&a, 0, i, IBV_SEND_SIGNALED);
	if (on_the_wire()) /* the posts do not wait for the answers */
		got = side_poll(&a, 0, 3, PATIENCE, wc);
	EXPECT(side_set_state(&a, 0, IBV_QPS_ERR) == 0, "to ERR");
	got += side_poll(&a, 0, 6 - got, PATIENCE, wc + got);
	EXPECT(got == 6, "%d completions", got);
	for (int i = 0; i < got; i++)
		EXPECT(wc[i].wr_id == (uint64_t)i + 1 &&
			       wc[i].status == (i < 3 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR),
		       "completion %d: '%s'", i, ibv_wc_status_str(wc[i].status));
	expect_completions(&b, 1, 1, 3, IBV_WC_SUCCESS);
	pair_destroy(&a, 0, &b, 0);
}

/* A request of the responder's own waits; a bad request of the peer puts it into ERR. */
static void responder_flush_row(void)
{
	struct node_send bad;
	struct ibv_wc wc[1];

	row("[%s] a queue pair that fails as responder flushes its own sends", mode);
	connect_patiently();
	post(&b, 0, 1, 0);
	post(&b, 0, 2, IBV_SEND_SIGNALED);
	receives(&b, 0, 101, 2);
	bad = a_send(&a, 9, 0);
	bad.opcode = IBV_WR_RDMA_WRITE;
	EXPECT(side_post_send(&a, 0, &bad, 1).ret == 0, "post_send");
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_REM_ACCESS_ERR,
	       "'%s'", ibv_wc_status_str(wc[0].status));
	expect_completions(&b, 0, 1, 2, IBV_WC_WR_FLUSH_ERR);
	expect_completions(&b, 1, 101, 2, IBV_WC_WR_FLUSH_ERR);
	while (side_async(&b, 0).any)
		;
	pair_destroy(&a, 0, &b, 0);
}

/* --- RESET, destruction ---------------------------------------------------------- */

static void reset_purge_row(void)
{
	row("[%s] RESET removes this queue pair's completions, and no other's", mode);
	connect_patiently();
	pair_create(&a, 1, &b, 1, NULL);
	pair_connect(&a, 1, NULL, &b, 1, NULL);
	for (uint64_t i = 0; i < 4; i++) { /* interleaved in the same CQs */
		side_recv_one(&b, 0, 10 + i, RECV_AT, 200);
		post(&a, 0, 20 + i, IBV_SEND_SIGNALED);
		side_recv_one(&b, 1, 30 + i, RECV_AT, 200);
		post(&a, 1, 40 + i, IBV_SEND_SIGNALED);
	}
	EXPECT(side_set_state(&a, 0, IBV_QPS_RESET) == 0 &&
		       side_set_state(&b, 0, IBV_QPS_RESET) == 0,
	       "to RESET");
	expect_completions(&a, 0, 40, 4, IBV_WC_SUCCESS);
	expect_completions(&b, 1, 30, 4, IBV_WC_SUCCESS);
	pair_destroy(&a, 1, &b, 1);
	pair_destroy(&a, 0, &b, 0);
}

static void reset_waiting_row(void)
{
	struct node_link link = patient();
	struct ibv_wc wc[1];

	row("[%s] RESET forgets requests that wait, and posted receives", mode);
	connect_patiently();
	receives(&a, 0, 1, 3);
	post(&a, 0, 4, IBV_SEND_SIGNALED);
	post(&a, 0, 5, IBV_SEND_SIGNALED);
	EXPECT(side_set_state(&a, 0, IBV_QPS_RESET) == 0 &&
		       side_set_state(&b, 0, IBV_QPS_RESET) == 0,
	       "to RESET");
	EXPECT(side_poll(&a, 0, 1, SHORTLY, wc) == 0 && side_poll(&a, 1, 1, 0, wc) == 0,
	       "a completion");
	pair_connect(&a, 0, &link, &b, 0, &link);
	exchange(0);
	post(&b, 0, 6, IBV_SEND_SIGNALED);
	EXPECT(side_poll(&b, 0, 1, SHORTLY, wc) == 0, "an old receive took a message");
	side_recv_one(&a, 0, 7, RECV_AT, 200);
	expect_completions(&b, 0, 6, 1, IBV_WC_SUCCESS);
	expect_completions(&a, 1, 7, 1, IBV_WC_SUCCESS);
	pair_destroy(&a, 0, &b, 0);
}

static void reconnect_rows(void)
{
	row("[%s] a queue pair works again after RESET, whatever state it was in", mode);
	connect_patiently();
	for (int i = 0; i < 30; i++) {
		struct node_link la = patient(), lb = patient();

		la.sq_psn = lb.rq_psn = 0xfffffe + (uint32_t)i * 77;
		la.rq_psn = lb.sq_psn = (uint32_t)i;
		exchange(0);
		if (i % 3)
			EXPECT(side_set_state(&a, 0, IBV_QPS_ERR) == 0, "to ERR");
		EXPECT(side_set_state(&b, 0, IBV_QPS_RESET) == 0 &&
			       side_set_state(&a, 0, IBV_QPS_RESET) == 0,
		       "to RESET");
		pair_connect(&a, 0, &la, &b, 0, &lb);
	}
	exchange(0);
	pair_destroy(&a, 0, &b, 0);
}

static void destroy_row(void)
{
	struct ibv_wc wc[1];

	row("[%s] destruction forgets requests and completions", mode);
	connect_patiently();
	receives(&a, 0, 1, 3);
	receives(&b, 0, 11, 2);
	for (uint64_t i = 21; i < 26; i++)
		post(&a, 0, i, IBV_SEND_SIGNALED); /* two are done, three wait */
	pair_destroy(&a, 0, &b, 0);
	EXPECT(side_poll(&a, 0, 1, SHORTLY, wc) == 0 && side_poll(&a, 1, 1, 0, wc) == 0,
	       "the requester's");
	EXPECT(side_poll(&b, 1, 1, 0, wc) == 0, "the responder's");
}

/* --- draining -------------------------------------------------------------------- */

static int to_sqd(bool notify)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = notify};

	return side_modify(&a, 0, &attr, IBV_QP_STATE | (notify ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0));
}

static void drain_idle_row(void)
{
	struct node_event e;
	struct ibv_wc wc[1];

	row("[%s] SQD: an idle queue is drained at once, and says so if asked", mode);
	connect_patiently();
	EXPECT(to_sqd(true) == 0, "to SQD");
	e = side_own_async(&a, PATIENCE);
	EXPECT(e.any && e.type == IBV_EVENT_SQ_DRAINED && e.qp == 0, "event %d",
	       e.any ? (int)e.type : -1);
	row("[%s] SQD: requests wait, messages are received", mode);
	side_recv_one(&b, 0, 1, RECV_AT, 200);
	side_recv_one(&a, 0, 2, RECV_AT, 200);
	post(&a, 0, 3, IBV_SEND_SIGNALED);
	EXPECT(side_poll(&a, 0, 1, SHORTLY, wc) == 0, "a request was executed");
	post(&b, 0, 4, IBV_SEND_SIGNALED);
	expect_completions(&b, 0, 4, 1, IBV_WC_SUCCESS);
	expect_completions(&a, 1, 2, 1, IBV_WC_SUCCESS);
	row("[%s] SQD: back in RTS the queue goes on", mode);
	EXPECT(side_set_state(&a, 0, IBV_QPS_RTS) == 0, "to RTS");
	expect_completions(&a, 0, 3, 1, IBV_WC_SUCCESS);
	expect_completions(&b, 1, 1, 1, IBV_WC_SUCCESS);
	row("[%s] SQD: no event if none was asked for", mode);
	EXPECT(to_sqd(false) == 0, "to SQD");
	EXPECT(!side_own_async(&a, SHORTLY).any, "an event");
	pair_destroy(&a, 0, &b, 0);
}

/* On the wire, too, the second is behind: the peer has told of no receive request yet. */
static void drain_busy_row(void)
{
	struct node_send list[2] = {a_send(&a, 1, IBV_SEND_SIGNALED),
				    a_send(&a, 2, IBV_SEND_SIGNALED)};
	struct ibv_wc wc[2];
	struct node_event e;

	row("[%s] SQD: a request under way is finished first, one behind it waits", mode);
	connect_patiently();
	EXPECT(side_post_send(&a, 0, list, 2).ret == 0, "post_send");
	EXPECT(to_sqd(true) == 0, "to SQD");
	EXPECT(!side_own_async(&a, SHORTLY).any, "drained before it was");
	side_recv_one(&b, 0, 11, RECV_AT, 200);
	side_recv_one(&b, 0, 12, RECV_AT, 200);
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].wr_id == 1 &&
		       wc[0].status == IBV_WC_SUCCESS,
	       "the first");
	e = side_own_async(&a, PATIENCE);
	EXPECT(e.any && e.type == IBV_EVENT_SQ_DRAINED, "event %d", e.any ? (int)e.type : -1);
	EXPECT(side_poll(&a, 0, 1, SHORTLY, wc) == 0, "the second did not wait");
	EXPECT(side_set_state(&a, 0, IBV_QPS_RTS) == 0, "to RTS");
	expect_completions(&a, 0, 2, 1, IBV_WC_SUCCESS);
	pair_destroy(&a, 0, &b, 0);
	EXPECT(side_poll(&b, 1, 1, 0, wc) == 0, "purged");
}

/* --- slots ----------------------------------------------------------------------- */

static void slot_rows(void)
{
	struct node_send list[17];
	struct node_posted posted;

	row("[%s] unsignalled requests hold their slots until a later signalled one is polled",
	    mode);
	connect_patiently();
	for (int i = 0; i < 17; i++) {
		list[i] = a_send(&a, (uint64_t)i, i == 15 ? IBV_SEND_SIGNALED : 0);
		list[i].opcode = IBV_WR_RDMA_WRITE;
		list[i].remote_addr = b.info.base[KEY_FULL];
		list[i].rkey = b.info.key[KEY_FULL];
	}
	for (int round = 0; round < 5; round++) {
		posted = side_post_send(&a, 0, list, 17);
		EXPECT(posted.ret == ENOMEM && posted.bad == 16, "round %d: %d, bad_wr %d", round,
		       posted.ret, posted.bad);
		EXPECT(side_post_send(&a, 0, &list[15], 1).ret == ENOMEM,
		       "round %d: a slot is free", round);
		expect_completions(&a, 0, 15, 1, IBV_WC_SUCCESS);
	}
	pair_destroy(&a, 0, &b, 0);
	row("[%s] a receive's slot is free once its completion is polled", mode);
	connect_patiently();
	receives(&b, 0, 0, 16);
	EXPECT(side_post_recv(&b, 0, &(struct node_recv){.wr_id = 99}, 1).ret == ENOMEM,
	       "a 17th receive");
	post(&a, 0, 1, IBV_SEND_SIGNALED);
	expect_completions(&a, 0, 1, 1, IBV_WC_SUCCESS);
	EXPECT(side_post_recv(&b, 0, &(struct node_recv){.wr_id = 99}, 1).ret == ENOMEM,
	       "before the poll");
	expect_completions(&b, 1, 0, 1, IBV_WC_SUCCESS);
	EXPECT(side_post_recv(&b, 0, &(struct node_recv){.wr_id = 99}, 1).ret == 0,
	       "after the poll");
	EXPECT(side_post_recv(&b, 0, &(struct node_recv){.wr_id = 99}, 1).ret == ENOMEM,
	       "and one more");
	pair_destroy(&a, 0, &b, 0);
}

/* --- overrun --------------------------------------------------------------------- */

static bool has_event(struct side *s, enum ibv_event_type type, int qp, int cq, unsigned int ms)
{
	struct node_event e;

	do {
		e = side_async(s, ms);
		if (e.any && e.type == type && (qp < 0 || e.qp == qp) && (cq < 0 || e.cq == cq))
			return true;
	} while (e.any);
	return false;
}

static void send_overrun_row(void)
{
	struct node_qp_spec spec = spec_default();
	struct ibv_wc wc[8];

	row("[%s] a send CQ that overruns: CQ_ERR, the queue pair fails, others go on", mode);
	spec.send_cq = 2;
	EXPECT(side_create_cq(&a, 2, 4, false) == 0 && side_create_cq(&b, 2, 4, false) == 0,
	       "small CQs");
	pair_create(&a, 0, &b, 0, &spec);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
	pair_create(&a, 1, &b, 1, NULL);
	pair_connect(&a, 1, NULL, &b, 1, NULL);
	receives(&b, 0, 101, 6);
	for (uint64_t i = 1; i <= 6; i++)
		post(&a, 0, i, IBV_SEND_SIGNALED);
	EXPECT(has_event(&a, IBV_EVENT_CQ_ERR, -1, 2, PATIENCE), "no CQ_ERR");
	EXPECT(side_state(&a, 0) == IBV_QPS_ERR, "state %d", (int)side_state(&a, 0));
	EXPECT(side_poll(&a, 2, 8, 0, wc) == 4 && wc[3].wr_id == 4, "what was there can be polled");
	EXPECT(side_poll(&a, 2, 8, 0, wc) < 0, "then polling fails");
	/* Nothing of it comes in the midst of the others' receives. */
	EXPECT(side_set_state(&b, 0, IBV_QPS_RESET) == 0, "to RESET");
	exchange(1);
	pair_destroy(&a, 0, &b, 0);
	pair_destroy(&a, 1, &b, 1);
	EXPECT(side_destroy_cq(&a, 2) == 0 && side_destroy_cq(&b, 2) == 0, "ibv_destroy_cq");
}

static void receive_overrun_row(void)
{
	struct node_qp_spec spec = spec_default();
	struct ibv_wc wc[8];
	int got;

	row("[%s] a receive CQ that overruns: CQ_ERR, the sender hears of it", mode);
	spec.recv_cq = 2;
	EXPECT(side_create_cq(&a, 2, 2, false) == 0 && side_create_cq(&b, 2, 2, false) == 0,
	       "small CQs");
	pair_create(&a, 0, &b, 0, &spec);
	pair_connect(&a, 0, NULL, &b, 0, NULL);
	receives(&b, 0, 101, 4);
	for (uint64_t i = 1; i <= 4; i++)
		post(&a, 0, i, IBV_SEND_SIGNALED);
	got = side_poll(&a, 0, 4, PATIENCE, wc);
	EXPECT(got == 4 && wc[1].status == IBV_WC_SUCCESS, "%d completions", got);
	EXPECT(wc[2].status == IBV_WC_REM_OP_ERR || wc[2].status == IBV_WC_RETRY_EXC_ERR,
	       "the third: '%s'", ibv_wc_status_str(wc[2].status));
	EXPECT(wc[3].status == IBV_WC_WR_FLUSH_ERR, "the fourth: '%s'",
	       ibv_wc_status_str(wc[3].status));
	EXPECT(has_event(&b, IBV_EVENT_CQ_ERR, -1, 2, PATIENCE), "no CQ_ERR");
	EXPECT(side_state(&b, 0) == IBV_QPS_ERR, "responder in state %d", (int)side_state(&b, 0));
	while (side_async(&b, 0).any)
		;
	pair_destroy(&a, 0, &b, 0);
	EXPECT(side_destroy_cq(&a, 2) == 0 && side_destroy_cq(&b, 2) == 0, "ibv_destroy_cq");
}

/* --- events ---------------------------------------------------------------------- */

static void message(unsigned int flags)
{
	struct ibv_wc wc[1];

	side_recv_one(&b, 0, 1, RECV_AT, 200);
	post(&a, 0, 2, IBV_SEND_SIGNALED | flags);
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS, "send");
	EXPECT(side_poll(&b, 1, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS, "receive");
}

static void expect_event(bool wanted)
{
	int cq = side_comp_event(&b, wanted ? PATIENCE : SHORTLY);

	EXPECT(cq == (wanted ? 1 : -1), "event of CQ %d", cq);
	EXPECT(!wanted || side_comp_event(&b, 0) == -1, "a second event");
}

static void arm_rows(void)
{
	connect_patiently();
	row("[%s] an unarmed CQ rings nothing", mode);
	message(IBV_SEND_SOLICITED);
	expect_event(false);
	row("[%s] arming an empty CQ rings nothing", mode);
	EXPECT(side_arm(&b, 1, 0) == 0, "ibv_req_notify_cq");
	expect_event(false);
	row("[%s] one event for the next completion, and only one", mode);
	message(0);
	message(0);
	expect_event(true);
	row("[%s] armed for solicited ones: others ring nothing", mode);
	EXPECT(side_arm(&b, 1, 1) == 0, "ibv_req_notify_cq");
	message(0);
	expect_event(false);
	row("[%s] armed for solicited ones: one of those rings", mode);
	message(IBV_SEND_SOLICITED);
	expect_event(true);
	row("[%s] arming for solicited ones does not weaken an arming for any", mode);
	EXPECT(side_arm(&b, 1, 0) == 0 && side_arm(&b, 1, 1) == 0, "ibv_req_notify_cq");
	message(0);
	expect_event(true);
	row("[%s] armed for solicited ones, then for any: any rings", mode);
	EXPECT(side_arm(&b, 1, 1) == 0 && side_arm(&b, 1, 0) == 0, "ibv_req_notify_cq");
	message(0);
	expect_event(true);
	pair_destroy(&a, 0, &b, 0);
}

static void arm_error_row(void)
{
	connect_patiently();
	row("[%s] armed for solicited ones: an error rings", mode);
	receives(&b, 0, 1, 1);
	EXPECT(side_arm(&b, 1, 1) == 0, "ibv_req_notify_cq");
	EXPECT(side_set_state(&b, 0, IBV_QPS_ERR) == 0, "to ERR");
	expect_event(true);
	expect_completions(&b, 1, 1, 1, IBV_WC_WR_FLUSH_ERR);
	pair_destroy(&a, 0, &b, 0);
}

static void arm_send_row(void)
{
	connect_patiently();
	row("[%s] a send CQ rings for the sender, and names the CQ", mode);
	EXPECT(side_arm(&a, 0, 0) == 0, "ibv_req_notify_cq");
	message(0);
	EXPECT(side_comp_event(&a, PATIENCE) == 0 && side_comp_event(&a, 0) == -1, "events");
	pair_destroy(&a, 0, &b, 0);
}

/* --- acknowledgement, in this process -------------------------------------------- */

static struct ibv_cq *event_cq;
static _Atomic bool destroyed;
static _Atomic pid_t destroyer;

static void *destroy_cq(void *arg)
{
	int ret;

	destroyer = gettid();
	ret = ibv_destroy_cq(arg);

	destroyed = true;
	return (void *)(intptr_t)ret;
}

/* Messages of a queue pair to itself whose receives complete in @event_cq, one event each. */
static void events_to_self(int count)
{
	struct node *n = a.node;
	struct ibv_wc wc[1];
	struct ibv_cq *cq;
	void *context;

	for (int i = 0; i < count; i++) {
		EXPECT(ibv_req_notify_cq(event_cq, 0) == 0, "ibv_req_notify_cq");
		side_recv_one(&a, 0, 1, RECV_AT, 200);
		post(&a, 0, 2, IBV_SEND_SIGNALED);
		EXPECT(node_poll(n, 0, 1, PATIENCE, wc) == 1 &&
			       node_poll(n, 2, 1, PATIENCE, wc) == 1,
		       "message %d", i);
		if (i < count - 1 &&
		    EXPECT(ibv_get_cq_event(n->channel, &cq, &context) == 0, "event %d", i))
			EXPECT(cq == event_cq, "event %d is of another CQ", i);
	}
}

static void acknowledge_row(void)
{
	struct node_qp_spec spec = spec_default();
	pthread_t thread;
	void *ret;

	row("destroying a CQ waits until its events are acknowledged, and drops those not read");
	spec.recv_cq = 2;
	EXPECT(node_create_cq(a.node, 2, 16, true) == 0, "ibv_create_cq");
	event_cq = a.node->cq[2];
	pair_create(&a, 0, &a, 0, &spec);
	pair_connect(&a, 0, NULL, &a, 0, NULL);
	events_to_self(101); /* the last one stays unread */
	EXPECT(node_destroy_qp(a.node, 0) == 0, "ibv_destroy_qp");
	pthread_create(&thread, NULL, destroy_cq, event_cq);
	ibv_ack_cq_events(event_cq, 40);
	for (int i = 0; i < 59; i++)
		ibv_ack_cq_events(event_cq, 1);
	EXPECT(WAIT_UNTIL(destroyed || task_sleeps(destroyer), PATIENCE), "it does not sleep");
	EXPECT(!destroyed, "destroyed before the last acknowledgement");
	ibv_ack_cq_events(event_cq, 1);
	pthread_join(thread, &ret);
	EXPECT(ret == NULL, "ibv_destroy_cq: %d", (int)(intptr_t)ret);
	a.node->cq[2] = NULL;
	EXPECT(node_comp_event(a.node, SHORTLY) == -1, "an event of a destroyed CQ");
}

/* --- */

static void all_rows(const char *name)
{
	mode = name;
	flush_row();
	flush_after_success_row();
	responder_flush_row();
	reset_purge_row();
	reset_waiting_row();
	reconnect_rows();
	destroy_row();
	drain_idle_row();
	drain_busy_row();
	slot_rows();
	send_overrun_row();
	receive_overrun_row();
	arm_rows();
	arm_error_row();
	arm_send_row();
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 200);
	three_ways(&a, &b, all_rows);
	side_open(&a, NULL);
	fcntl(a.node->channel->fd, F_SETFL, O_NONBLOCK);
	acknowledge_row();
	side_stop(&a);
	return sandbox_end();
}
