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
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/to_rts.h"
#include "lib/wait.h"

#define QKEY	 0x11111111u
#define BYTES	 64u
#define MESSAGES 3
#define PATIENCE 30000 /* ms */

static struct side a;
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

	return ibv_create_qp(a.node->pd, &attr);
}

/* @entries: of the CQ of receives */
static void open_queues(const struct service *s, int entries)
{
	struct ibv_ah_attr path;

	for (int i = 0; i < 3; i++)
		cq[i] = ibv_create_cq(a.node->ctx, i == 1 ? entries : 16, NULL, NULL, 0);
	qp[0] = create(s->type, cq[0], cq[0]);
	qp[1] = create(s->type, cq[2], cq[1]);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = connect_attr(qp[!i]->qp_num, &a.node->info.gid);

		attr.qkey = QKEY;
		path = attr.ah_attr;
		NEED(connect_qp(qp[i], attr) == 0);
	}
	path.grh.dgid = a.node->info.gid;
	ah = s->type == IBV_QPT_UD ? ibv_create_ah(a.node->pd, &path) : NULL;
}

static void close_queues(void)
{
	EXPECT(!ah || ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
	for (int i = 0; i < 2; i++)
		EXPECT(ibv_destroy_qp(qp[i]) == 0, "ibv_destroy_qp");
	for (int i = 0; i < 3; i++)
		EXPECT(ibv_destroy_cq(cq[i]) == 0, "ibv_destroy_cq");
}

static void receive(uint64_t wr_id, enum key key)
{
	struct ibv_sge sge = side_sge(&a, key, 4096 * wr_id, BYTES + 40);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(qp[1], &wr, &bad))
		DIE("receive");
}

/* Return: errno */
static int send_from(int i)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, 0, BYTES);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qp[!i]->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	return ibv_post_send(qp[i], &wr, &bad);
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

/* In the error state, and its own requests are flushed. */
static void expect_failed(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_wc wc;

	(void)WAIT_UNTIL(ibv_query_qp(qp[1], &attr, IBV_QP_STATE, &init) == 0 &&
				 attr.qp_state == IBV_QPS_ERR,
			 PATIENCE);
	EXPECT(attr.qp_state == IBV_QPS_ERR, "the receiver is in state %d", (int)attr.qp_state);
	EXPECT(send_from(1) == 0, "ibv_post_send of the receiver");
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
		while (ibv_get_async_event(a.node->ctx, &event) == 0) {
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
	expect_failed();
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
	expect_failed();
	expect_events(true, true);
	close_queues();
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 100);
	side_open(&a, NULL);
	fcntl(a.node->ctx->async_fd, F_SETFL, O_NONBLOCK);
	for (size_t s = 0; s < COUNT_OF(services); s++) {
		for (size_t i = 0; i < COUNT_OF(buffers); i++) {
			row("%s: a receive buffer %s", services[s].name, buffers[i].name);
			bad_buffer(&services[s], buffers[i].key);
		}
		row("%s: the receive CQ is full", services[s].name);
		full_cq(&services[s]);
	}
	side_stop(&a);
	return sandbox_end();
}
