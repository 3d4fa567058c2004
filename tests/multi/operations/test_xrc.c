/* SPDX-License-Identifier: MIT */
/*
 * XRC: a request names the shared receive queue at the other side. Which queues it finds, and what
 * happens to requests and completions when the queue named is destroyed, also in the middle of
 * traffic. This process sends, another one receives.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/newer_verbs.h"
#include "lib/to_rts.h"
#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"
#include "lib/spawn.h"
#include "lib/wait.h"

#define PATIENCE 30000u /* ms */
#define ROLE	 "receiver"
#define BYTES	 3000u /* more than a completion entry carries: staged */
#define DEPTH	 256u
#define ROUNDS	 200
#define WINDOW	 64u
#define QUEUES	 3
#define TIMEOUT	 17 /* 0.5 s: on the wire, with all retries, it outlasts a busy machine */

/* --- what both have -------------------------------------------------------------- */

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	union ibv_gid gid;
	uint8_t bytes[DEPTH * 16];
};

static struct end me;

static void open_end(void)
{
	me.ctx = node_open_device();
	me.pd = ibv_alloc_pd(me.ctx);
	me.xrcd = node_open_xrcd(me.ctx);
	me.cq = ibv_create_cq(me.ctx, 2 * DEPTH, NULL, NULL, 0);
	me.mr = ibv_reg_mr(me.pd, me.bytes, sizeof(me.bytes),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	if (!me.pd || !me.xrcd || !me.cq || !me.mr || ibv_query_gid(me.ctx, 1, 0, &me.gid))
		DIE("cannot open: %s", strerror(errno));
}

static void create_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
		.comp_mask = type == IBV_QPT_XRC_SEND ? IBV_QP_INIT_ATTR_PD : IBV_QP_INIT_ATTR_XRCD,
		.pd = type == IBV_QPT_XRC_SEND ? me.pd : NULL,
		.xrcd = type == IBV_QPT_XRC_SEND ? NULL : me.xrcd,
		.send_cq = type == IBV_QPT_XRC_SEND ? me.cq : NULL,
	};

	me.qp = ibv_create_qp_ex(me.ctx, &init);
	if (!me.qp)
		DIE("cannot create a queue pair: %s", strerror(errno));
}

/* From any state to RTS; the number of the other queue pair is @dest. */
static void connect_to(uint32_t dest, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = connect_attr(dest, gid);

	attr.min_rnr_timer = 1;
	attr.timeout = TIMEOUT;
	if (ibv_modify_qp(me.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE) ||
	    connect_qp(me.qp, attr))
		DIE("cannot connect: errno %d", errno);
}

/* --- the receiver does what it is told ------------------------------------------- */

enum verb { HELLO, CONNECT, CREATE, POST, DESTROY, POLL, EVENT, BYE };

struct order {
	enum verb verb;
	uint32_t queue; /* which of its queues */
	uint32_t value; /* CONNECT: queue pair; POST: how many; POLL: how many at least; DESTROY:
			   after us */
	uint64_t wr_id; /* POST: of the first */
	union ibv_gid gid;
};

struct report {
	uint32_t number; /* queue pair, SRQ, completions, event, or errno value */
	uint32_t good;	 /* completions that were successes of BYTES each */
	uint64_t wr_id;	 /* of the last completion */
	uint32_t rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static struct queue {
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_xrcd *xrcd; /* queue 2 has a domain of its own */
} queues[QUEUES];

static void open_queues(void)
{
	for (int i = 0; i < QUEUES; i++) {
		queues[i].xrcd = i == 2 ? node_open_xrcd(me.ctx) : me.xrcd;
		queues[i].cq = ibv_create_cq(me.ctx, DEPTH, NULL, NULL, 0);
		if (!queues[i].xrcd || !queues[i].cq)
			DIE("cannot create: %s", strerror(errno));
	}
}

static uint32_t do_create(struct queue *q)
{
	struct ibv_srq_init_attr_ex init = node_xrc_srq(DEPTH, me.pd, q->xrcd, q->cq);
	uint32_t number = 0;

	q->srq = ibv_create_srq_ex(me.ctx, &init);
	if (!q->srq || ibv_get_srq_num(q->srq, &number))
		DIE("cannot create a queue: %s", strerror(errno));
	return number;
}

static uint32_t do_post(struct queue *q, uint32_t count, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)me.bytes, BYTES, me.mr->lkey};
	struct ibv_recv_wr *bad;
	int err = 0;

	for (uint32_t i = 0; i < count && !err; i++) {
		struct ibv_recv_wr wr = {.wr_id = wr_id + i, .sg_list = &sge, .num_sge = 1};

		err = ibv_post_srq_recv(q->srq, &wr, &bad);
	}
	return (uint32_t)err;
}

static struct report do_poll(struct queue *q, uint32_t least)
{
	uint64_t end = now_ms() + PATIENCE;
	struct report r = {0};
	struct ibv_wc wc;
	int got;

	while ((got = ibv_poll_cq(q->cq, 1, &wc)) > 0 || (r.number < least && now_ms() < end)) {
		if (got <= 0)
			continue;
		r.number++;
		r.good += wc.status == IBV_WC_SUCCESS && wc.byte_len == BYTES;
		r.wr_id = wc.wr_id;
	}
	return r;
}

static struct report do_hello(void)
{
	return (struct report){.number = me.qp->qp_num,
			       .rkey = me.mr->rkey,
			       .addr = (uintptr_t)me.bytes,
			       .gid = me.gid};
}

static uint32_t do_event(void)
{
	struct pollfd p = {.fd = me.ctx->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	/* The requester may have heard first. */
	if (poll(&p, 1, (int)PATIENCE) != 1 || ibv_get_async_event(me.ctx, &event))
		return UINT32_MAX;
	ibv_ack_async_event(&event);
	return event.event_type;
}

static struct report obey(const struct order *o)
{
	struct queue *q = &queues[o->queue];
	struct report r = {0};

	switch (o->verb) {
	case HELLO:
		return do_hello();
	case CONNECT:
		connect_to(o->value, &o->gid);
		break;
	case CREATE:
		r.number = do_create(q);
		break;
	case POST:
		r.number = do_post(q, o->value, o->wr_id);
		break;
	case DESTROY:
		let_go_on(o->value);
		r.number = (uint32_t)ibv_destroy_srq(q->srq);
		break;
	case POLL:
		return do_poll(q, o->value);
	case EVENT:
		r.number = do_event();
		break;
	case BYE:
		break;
	}
	return r;
}

static void receiver_main(int sock)
{
	struct order order;

	time_limit(200);
	open_end();
	open_queues();
	create_qp(IBV_QPT_XRC_RECV);
	do {
		struct report report;

		spawn_receive(sock, &order, sizeof(order));
		report = obey(&order);
		spawn_send(sock, &report, sizeof(report));
	} while (order.verb != BYE);
	exit(0); /* with all it has: the sweep's work */
}

/* --- the sender ------------------------------------------------------------------ */

static struct spawned other;
static struct report peer;

static void tell(const struct order *order)
{
	spawn_send(other.sock, order, sizeof(*order));
}

static struct report hear(void)
{
	struct report report;

	spawn_receive(other.sock, &report, sizeof(report));
	return report;
}

static struct report ask(struct order order)
{
	tell(&order);
	return hear();
}

static void reconnect(void)
{
	struct ibv_wc wc;

	connect_to(peer.number, &peer.gid);
	while (ibv_poll_cq(me.cq, 1, &wc) > 0)
		;
	ask((struct order){.verb = CONNECT, .value = me.qp->qp_num, .gid = me.gid});
}

static uint32_t create_queue(uint32_t queue, uint32_t receives)
{
	uint32_t srqn = ask((struct order){.verb = CREATE, .queue = queue}).number;
	uint32_t err =
		ask((struct order){.verb = POST, .queue = queue, .value = receives, .wr_id = 100})
			.number;

	EXPECT(err == 0, "posting receives: %s", strerror((int)err));
	return srqn;
}

static void destroy_queue(uint32_t queue)
{
	uint32_t err = ask((struct order){.verb = DESTROY, .queue = queue}).number;

	EXPECT(err == 0, "destroying: %s", strerror((int)err));
}

static void post_by(uint32_t lkey, enum ibv_wr_opcode opcode, uint32_t srqn, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)me.bytes, bytes, lkey};
	struct ibv_send_wr wr = {.opcode = opcode,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .qp_type.xrc.remote_srqn = srqn},
			   *bad;

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = peer.addr;
		wr.wr.atomic.rkey = peer.rkey;
	} else {
		wr.wr.rdma.remote_addr = peer.addr;
		wr.wr.rdma.rkey = peer.rkey;
	}
	EXPECT(ibv_post_send(me.qp, &wr, &bad) == 0, "post failed");
}

static void post(enum ibv_wr_opcode opcode, uint32_t srqn, uint32_t bytes)
{
	post_by(me.mr->lkey, opcode, srqn, bytes);
}

/* Status of the next completion, or -1 if there is none. */
static int status(void)
{
	uint64_t end = now_ms() + PATIENCE;
	struct ibv_wc wc;
	int got;

	while ((got = ibv_poll_cq(me.cq, 1, &wc)) == 0 && now_ms() < end)
		;
	return got == 1 ? (int)wc.status : -1;
}

static void expect_status(enum ibv_wc_status wanted)
{
	int got = status();

	EXPECT(got == (int)wanted, "%s instead of %s", got < 0 ? "nothing" : ibv_wc_status_str(got),
	       ibv_wc_status_str(wanted));
}

static void expect_received(uint32_t queue, uint32_t count, uint64_t last)
{
	struct report r = ask((struct order){.verb = POLL, .queue = queue, .value = count});

	EXPECT(r.number == count, "%u completions instead of %u", r.number, count);
	EXPECT(r.good == count, "%u good ones instead of %u", r.good, count);
	EXPECT(count == 0 || r.wr_id == last, "the last is of request %lu instead of %lu", r.wr_id,
	       last);
}

static void named_row(void)
{
	uint32_t first, second;

	row("a message is received by the queue it names");
	reconnect();
	first = create_queue(0, 2);
	second = create_queue(1, 2);
	post(IBV_WR_SEND, second, BYTES);
	expect_status(IBV_WC_SUCCESS);
	post(IBV_WR_SEND, first, BYTES);
	expect_status(IBV_WC_SUCCESS);
	post(IBV_WR_SEND, second, BYTES);
	expect_status(IBV_WC_SUCCESS);
	expect_received(0, 1, 100);
	expect_received(1, 2, 101);
	destroy_queue(0);
	destroy_queue(1);
}

static void atomic_write_row(void)
{
	const uint64_t value = 0x0123456789abcdefull;
	uint64_t back;
	uint32_t srqn;

	row("an atomic write goes where the queue's domain permits it");
	reconnect();
	srqn = create_queue(0, 1);
	memcpy(me.bytes, &value, sizeof(value));
	post(WR_ATOMIC_WRITE, srqn, sizeof(value));
	expect_status(IBV_WC_SUCCESS);
	memset(me.bytes, 0, sizeof(value));
	post(IBV_WR_RDMA_READ, srqn, sizeof(value));
	expect_status(IBV_WC_SUCCESS);
	memcpy(&back, me.bytes, sizeof(back));
	EXPECT(back == value, "0x%lx", back);
	expect_received(0, 0, 0);
	destroy_queue(0);
}

static void expect_request_error(void)
{
	uint32_t event;

	do
		event = ask((struct order){.verb = EVENT}).number;
	while (event == IBV_EVENT_COMM_EST);
	EXPECT(event == IBV_EVENT_QP_REQ_ERR, "event %u", event);
}

static void refused(const char *what, enum ibv_wr_opcode opcode, uint32_t bytes, uint32_t srqn)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	row("operation %d to %s", opcode, what);
	reconnect();
	post(opcode, srqn, bytes);
	expect_status(IBV_WC_REM_INV_REQ_ERR);
	EXPECT(ibv_query_qp(me.qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_ERR,
	       "still in state %d", attr.qp_state);
	expect_request_error();
}

static void refused_rows(void)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t bytes;
	} operation[] = {
		{IBV_WR_SEND, BYTES},
		{IBV_WR_SEND_WITH_IMM, 0},
		{IBV_WR_RDMA_WRITE, 8},
		{IBV_WR_RDMA_WRITE_WITH_IMM, 8},
		{IBV_WR_RDMA_READ, 8},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 8},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 8},
		{WR_ATOMIC_WRITE, 8},
	};
	uint32_t foreign = create_queue(2, 1), destroyed = create_queue(0, 1);

	destroy_queue(0);
	for (size_t i = 0; i < COUNT_OF(operation); i++) {
		refused("a queue of another domain", operation[i].opcode, operation[i].bytes,
			foreign);
		refused("a destroyed queue", operation[i].opcode, operation[i].bytes, destroyed);
		refused("a queue pair's number", operation[i].opcode, operation[i].bytes,
			peer.number);
		refused("number 0", operation[i].opcode, operation[i].bytes, 0);
	}
	row("what was refused took no receive request");
	expect_received(2, 0, 0);
	destroy_queue(2);
}

/* A source is read before anybody hears of it; where an answer goes is looked at when it is there.
 */
static void bad_lkey_rows(void)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		bool source;
	} operation[] = {
		{IBV_WR_SEND, true},	   {IBV_WR_SEND_WITH_IMM, true},
		{IBV_WR_RDMA_WRITE, true}, {IBV_WR_RDMA_WRITE_WITH_IMM, true},
		{IBV_WR_RDMA_READ, false}, {WR_ATOMIC_WRITE, true},
	};
	uint32_t destroyed = create_queue(0, 1), srqn, lkey = (me.mr->lkey + 10) * 5;

	destroy_queue(0);
	srqn = create_queue(0, 1);
	for (size_t i = 0; i < COUNT_OF(operation); i++) {
		row("operation %d with a bad lkey", operation[i].opcode);
		reconnect();
		post_by(lkey, operation[i].opcode, srqn, 8);
		expect_status(IBV_WC_LOC_PROT_ERR);
		row("operation %d with a bad lkey to a destroyed queue", operation[i].opcode);
		reconnect();
		post_by(lkey, operation[i].opcode, destroyed, 8);
		expect_status(operation[i].source ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_INV_REQ_ERR);
		if (!operation[i].source)
			expect_request_error();
	}
	row("no bad lkey took a receive request");
	expect_received(0, 0, 0);
	destroy_queue(0);
}

static void unpolled_row(void)
{
	uint32_t srqn;

	row("completions of a destroyed queue that nobody polled");
	reconnect();
	srqn = create_queue(0, 4);
	for (int i = 0; i < 4; i++) {
		post(IBV_WR_SEND, srqn, BYTES);
		expect_status(IBV_WC_SUCCESS);
	}
	destroy_queue(0);
	expect_received(0, 0, 0);
	srqn = create_queue(0, 1);
	post(IBV_WR_SEND, srqn, BYTES);
	expect_status(IBV_WC_SUCCESS);
	expect_received(0, 1, 100);
	destroy_queue(0);
}

/* Sends until the queue is gone: every one before is a success, one is refused, the others are
 * flushed. */
static void destroyed_under_traffic(unsigned int us)
{
	unsigned int posted = 0, done = 0, refusals = 0;
	uint32_t srqn;
	int got;

	reconnect();
	srqn = create_queue(0, DEPTH);
	tell(&(struct order){.verb = DESTROY, .value = us});
	while (refusals == 0 && done < DEPTH) {
		while (posted < done + WINDOW && posted < DEPTH) {
			post(IBV_WR_SEND, srqn, BYTES);
			posted++;
		}
		got = status();
		done++;
		refusals += got == IBV_WC_REM_INV_REQ_ERR;
		if (!EXPECT(got == IBV_WC_SUCCESS || got == IBV_WC_REM_INV_REQ_ERR, "status %d",
			    got))
			break;
	}
	for (; done < posted; done++)
		expect_status(IBV_WC_WR_FLUSH_ERR);
	EXPECT(hear().number == 0, "destroying failed");
	expect_received(0, 0, 0);
}

static void traffic_rows(void)
{
	for (unsigned int i = 0; i < ROUNDS; i++) {
		row("destroyed under traffic, round %u", i);
		destroyed_under_traffic(i * 7 % 400);
	}
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, ROLE);

	if (sock >= 0)
		receiver_main(sock);
	sandbox_begin(200);
	spawn_self(&other, ROLE);
	open_end();
	create_qp(IBV_QPT_XRC_SEND);
	peer = ask((struct order){.verb = HELLO});
	named_row();
	atomic_write_row();
	refused_rows();
	bad_lkey_rows();
	unpolled_row();
	traffic_rows();
	row("closing");
	ask((struct order){.verb = BYE});
	spawn_wait(&other);
	EXPECT(ibv_destroy_qp(me.qp) == 0 && ibv_dereg_mr(me.mr) == 0 &&
		       ibv_destroy_cq(me.cq) == 0 && ibv_close_xrcd(me.xrcd) == 0 &&
		       ibv_dealloc_pd(me.pd) == 0 && ibv_close_device(me.ctx) == 0,
	       "something could not be destroyed");
	return sandbox_end();
}
