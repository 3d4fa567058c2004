/* SPDX-License-Identifier: MIT */
/*
 * What becomes of both sides if the receiver's own buffers, or its CQ, cannot take a message: on
 * every service its queue pair fails. Who sent the message hears of that on a reliable one only.
 * Source: IBTA volume 1, 9.9.3; ibv_create_cq(3).
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/proc_status.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/to_rts.h"
#include "lib/wait.h"

#define QKEY	 0x11111111u
#define BYTES	 64u
#define MESSAGES 3
#define PATIENCE 30000 /* ms */

static struct side a, b;
static struct node *node;    /* this process' */
static struct ibv_cq *cq[3]; /* of sends, of receives, and of the receiver's sends */
static struct ibv_qp *qp[2]; /* the sender, the receiver */
static struct ibv_ah *ah;

static const struct service {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wc_status sent, sent_later; /* what its sender hears of the message, and behind */
} services[] = {
	{"RC", IBV_QPT_RC, IBV_WC_REM_OP_ERR, IBV_WC_WR_FLUSH_ERR},
	{"UC", IBV_QPT_UC, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
	{"UD", IBV_QPT_UD, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
};

/* --- both queue pairs -------------------------------------------------------------- */

static struct ibv_qp *create(enum ibv_qp_type type, struct ibv_cq *send, struct ibv_cq *recv)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = type,
		.send_cq = send,
		.recv_cq = recv,
		.sq_sig_all = 1,
		.cap = {8, 8, 1, 1, 0},
	};

	return ibv_create_qp(node->pd, &attr);
}

static void connect_to(struct ibv_qp *from, uint32_t qpn)
{
	struct ibv_qp_attr attr = connect_attr(qpn, &node->info.gid);

	attr.qkey = QKEY;
	NEED(connect_qp(from, attr) == 0);
}

/* For a queue pair of datagrams */
static struct ibv_ah *address_of_host(enum ibv_qp_type type)
{
	struct ibv_ah_attr path = connect_attr(0, &node->info.gid).ah_attr;

	return type == IBV_QPT_UD ? ibv_create_ah(node->pd, &path) : NULL;
}

/* @entries: of the CQ of receives */
static void open_queues(const struct service *s, int entries)
{
	for (int i = 0; i < 3; i++)
		cq[i] = ibv_create_cq(node->ctx, i == 1 ? entries : 16, NULL, NULL, 0);
	qp[0] = create(s->type, cq[0], cq[0]);
	qp[1] = create(s->type, cq[2], cq[1]);
	for (int i = 0; i < 2; i++)
		connect_to(qp[i], qp[!i]->qp_num);
	ah = address_of_host(s->type);
}

static void close_receiver(void)
{
	EXPECT(!ah || ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
	EXPECT(ibv_destroy_qp(qp[1]) == 0, "ibv_destroy_qp");
	for (int i = 1; i < 3; i++)
		EXPECT(ibv_destroy_cq(cq[i]) == 0, "ibv_destroy_cq");
}

static void close_queues(void)
{
	close_receiver();
	EXPECT(ibv_destroy_qp(qp[0]) == 0, "ibv_destroy_qp");
	EXPECT(ibv_destroy_cq(cq[0]) == 0, "ibv_destroy_cq");
}

static struct ibv_sge sge_of(enum key key, uint64_t offset, uint32_t bytes)
{
	return (struct ibv_sge){node->info.base[key] + offset, bytes, node->info.lkey[key]};
}

static void receive(uint64_t wr_id, enum key key)
{
	struct ibv_sge sge = sge_of(key, 4096 * wr_id, BYTES + 40);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(qp[1], &wr, &bad))
		DIE("receive");
}

/* Return: errno */
static int send_to(struct ibv_qp *from, uint32_t qpn)
{
	struct ibv_sge sge = sge_of(KEY_FULL, 0, BYTES);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	return ibv_post_send(from, &wr, &bad);
}

static int send_from(int i)
{
	return send_to(qp[i], qp[!i]->qp_num);
}

/* --- what is expected -------------------------------------------------------------- */

/* The next completion of that CQ; status -1: there is none */
static struct ibv_wc next(struct ibv_cq *from)
{
	struct ibv_wc wc = {.status = (enum ibv_wc_status) - 1};

	(void)WAIT_UNTIL(ibv_poll_cq(from, 1, &wc) != 0, PATIENCE);
	return wc;
}

static void expect_received(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next(cq[1]);

	EXPECT(wc.wr_id == wr_id && wc.status == status, "receive %llu: %s",
	       (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
}

/* @before: messages that arrived before */
static void expect_sent(const struct service *s, int before)
{
	for (int i = 0; i < MESSAGES; i++) {
		enum ibv_wc_status status = i < before	  ? IBV_WC_SUCCESS
					    : i == before ? s->sent
							  : s->sent_later;
		struct ibv_wc wc = next(cq[0]);

		EXPECT(wc.status == status, "send %d: %s", i, ibv_wc_status_str(wc.status));
	}
}

/* In the error state, and its own requests are flushed. @qpn: where it sends to */
static void expect_failed(uint32_t qpn)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_wc wc;

	(void)WAIT_UNTIL(ibv_query_qp(qp[1], &attr, IBV_QP_STATE, &init) == 0 &&
				 attr.qp_state == IBV_QPS_ERR,
			 PATIENCE);
	EXPECT(attr.qp_state == IBV_QPS_ERR, "the receiver is in state %d", (int)attr.qp_state);
	EXPECT(send_to(qp[1], qpn) == 0, "ibv_post_send of the receiver");
	wc = next(cq[2]);
	EXPECT(wc.status == IBV_WC_WR_FLUSH_ERR, "its own send: %s", ibv_wc_status_str(wc.status));
}

/* Events of both kinds in any order, and no others. */
static void expect_events(bool cq_err, bool qp_fatal)
{
	struct ibv_async_event event;
	bool got_cq = false, got_qp = false, other = false;

	for (uint64_t end = now_ms() + PATIENCE;
	     now_ms() < end && (got_cq != cq_err || got_qp != qp_fatal);) {
		while (ibv_get_async_event(node->ctx, &event) == 0) {
			bool of_cq = event.event_type == IBV_EVENT_CQ_ERR;
			bool of_qp = event.event_type == IBV_EVENT_QP_FATAL;

			got_cq |= of_cq && event.element.cq == cq[1];
			got_qp |= of_qp && event.element.qp == qp[1];
			other |= !of_cq && !of_qp && event.event_type != IBV_EVENT_COMM_EST &&
				 event.event_type != IBV_EVENT_GID_CHANGE; /* the host's own */
			ibv_ack_async_event(&event);
		}
		wait_moment();
	}
	EXPECT(got_cq == cq_err, "CQ_ERR: %d", got_cq);
	EXPECT(got_qp == qp_fatal, "QP_FATAL: %d", got_qp);
	EXPECT(!other, "another event");
}

/* --- rows -------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum key key;
} buffers[] = {
	{"is not writable", KEY_READ_ONLY},
	{"is of another domain", KEY_OTHER_PD},
	{"is deregistered", KEY_DEAD},
};

static void bad_buffer(const struct service *s, enum key key)
{
	open_queues(s, 16);
	receive(1, key);
	receive(2, KEY_FULL);
	for (int i = 0; i < MESSAGES; i++)
		EXPECT(send_from(0) == 0, "ibv_post_send");
	expect_received(1, IBV_WC_LOC_PROT_ERR);
	expect_received(2, IBV_WC_WR_FLUSH_ERR);
	expect_sent(s, 0);
	expect_failed(qp[0]->qp_num);
	expect_events(false, false);
	close_queues();
}

static void full_cq(const struct service *s)
{
	open_queues(s, 1);
	for (uint64_t i = 1; i <= MESSAGES; i++)
		receive(i, KEY_FULL);
	for (int i = 0; i < MESSAGES; i++)
		EXPECT(send_from(0) == 0, "ibv_post_send");
	expect_sent(s, cq[1]->cqe);
	expect_failed(qp[0]->qp_num);
	expect_events(true, true);
	close_queues();
}

/* --- the receiver in another process ----------------------------------------------- */

enum { JOB_WHAT, JOB_TYPE, JOB_DEST }; /* arguments */
enum { OPEN, EXPECT_FAILED, USE_TIMER, CLOSE };

static uint64_t open_receiver(enum ibv_qp_type type, uint32_t sender)
{
	for (int i = 1; i < 3; i++)
		cq[i] = ibv_create_cq(node->ctx, 16, NULL, NULL, 0);
	qp[1] = create(type, cq[2], cq[1]);
	connect_to(qp[1], sender);
	ah = address_of_host(type);
	receive(1, KEY_DEAD);
	return qp[1]->qp_num;
}

/* A CQ whose events may be deferred: the process' timer looks at it. */
static void use_timer(void)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = 8, .cq_period = 8}};

	EXPECT(ibv_modify_cq(cq[1], &attr) == 0, "ibv_modify_cq");
}

static uint64_t be_receiver(struct node *n, const struct side_job *job)
{
	node = n;
	switch (job->arg[JOB_WHAT]) {
	case OPEN:
		return open_receiver((enum ibv_qp_type)job->arg[JOB_TYPE],
				     (uint32_t)job->arg[JOB_DEST]);
	case EXPECT_FAILED:
		expect_received(1, IBV_WC_LOC_PROT_ERR);
		expect_failed((uint32_t)job->arg[JOB_DEST]);
		break;
	case USE_TIMER:
		use_timer();
		break;
	default:
		close_receiver();
	}
	return failures();
}

static uint64_t have_it(uint64_t what, enum ibv_qp_type type, uint32_t dest)
{
	side_begin(&b, &(struct side_job){{what, type, dest}});
	return side_end(&b);
}

/* Nothing of the receiver is left with its sender, which closes its device. */
static void receiver_elsewhere(const struct service *s)
{
	size_t before = thread_count();
	struct ibv_wc wc;
	uint32_t qpn;

	side_open(&a, NULL);
	node = a.node;
	cq[0] = ibv_create_cq(node->ctx, 16, NULL, NULL, 0);
	qp[0] = create(s->type, cq[0], cq[0]);
	qpn = (uint32_t)have_it(OPEN, s->type, qp[0]->qp_num);
	connect_to(qp[0], qpn);
	ah = address_of_host(s->type);
	EXPECT(send_to(qp[0], qpn) == 0, "ibv_post_send");
	wc = next(cq[0]);
	EXPECT(wc.status == s->sent, "the send: %s", ibv_wc_status_str(wc.status));
	EXPECT(have_it(EXPECT_FAILED, s->type, qp[0]->qp_num) == 0, "the receiver says so");
	EXPECT(!ah || ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
	EXPECT(ibv_destroy_qp(qp[0]) == 0 && ibv_destroy_cq(cq[0]) == 0, "the rest");
	side_stop(&a);
	EXPECT(have_it(USE_TIMER, s->type, 0) == 0, "the receiver says so");
	EXPECT(WAIT_UNTIL(thread_count() <= before, PATIENCE), "a thread is left");
	EXPECT(have_it(CLOSE, s->type, 0) == 0, "the receiver says so");
}

int main(int argc, char **argv)
{
	side_work = be_receiver;
	sides_begin(argc, argv, 100);
	side_open(&a, NULL);
	node = a.node;
	fcntl(node->ctx->async_fd, F_SETFL, O_NONBLOCK);
	for (size_t s = 0; s < COUNT_OF(services); s++) {
		for (size_t i = 0; i < COUNT_OF(buffers); i++) {
			row("%s: a receive buffer %s", services[s].name, buffers[i].name);
			bad_buffer(&services[s], buffers[i].key);
		}
		row("%s: the receive CQ is full", services[s].name);
		full_cq(&services[s]);
	}
	side_stop(&a);
	side_start(&b);
	for (size_t s = 0; s < COUNT_OF(services); s++) {
		row("%s: the receiver is another process", services[s].name);
		receiver_elsewhere(&services[s]);
	}
	side_stop(&b);
	return sandbox_end();
}
