/* SPDX-License-Identifier: MIT */
/*
 * A network that drops, damages, doubles and reorders packets: between two hosts, messages of UC
 * and UD arrive whole or not at all. SEED in the environment: other packets are struck.
 */
#include <string.h>

#include "lib/expect.h"
#include "lib/pattern.h"
#include "lib/two_hosts.h"

#define PATIENCE 60000u /* ms */
#define TARGETS	 0x400000u

static struct side a, b;

/* What the other process does for this test: queue pairs that lib/node.h does not make. */
enum { CREATE, CONNECT, SEND_ALL, DESTROY };

#define MESSAGES 24
#define UD_BYTES 1000u /* and one more for each message */

static struct ibv_qp *qp; /* of the agent */

static uint64_t create(struct node *n, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x111, .qp_access_flags = 2};

	qp = ibv_create_qp(n->pd, &init);
	NEED(qp);
	NEED(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				   (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) == 0);
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = {(uintptr_t)n->arena + TARGETS + (unsigned)i * 0x20000u,
				      0x20000, n->mr[KEY_FULL]->lkey};
		struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1}, *bad;

		NEED(ibv_post_recv(qp, &wr, &bad) == 0);
	}
	return qp->qp_num;
}

static struct ibv_ah_attr to_peer(const struct side_job *job)
{
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64};

	memcpy(ah.grh.dgid.raw, &job->arg[2], 16);
	return ah;
}

static void get_ready(const struct side_job *job)
{
	bool ud = qp->qp_type == IBV_QPT_UD;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256, /* the longest are more packets than a window */
		.dest_qp_num = (uint32_t)job->arg[1],
		.rq_psn = 0xfffff8,
		.sq_psn = 0xfffff8,
		.ah_attr = to_peer(job)};
	int mask = ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask) == 0);
	attr.qp_state = IBV_QPS_RTS;
	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

/* Sizes tell messages apart. */
static uint32_t bytes_of(enum ibv_qp_type type, uint32_t message)
{
	return type == IBV_QPT_UD ? UD_BYTES + message : message * 2048 + message;
}

static uint64_t send_all(struct node *n, const struct side_job *job)
{
	bool ud = qp->qp_type == IBV_QPT_UD;
	struct ibv_ah_attr attr = to_peer(job);
	struct ibv_ah *ah = ibv_create_ah(n->pd, &attr);
	uint64_t done = 0;

	NEED(ah);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = {(uintptr_t)n->arena, bytes_of(qp->qp_type, i),
				      n->mr[KEY_FULL]->lkey};
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1},
				   *bad;
		struct ibv_wc wc;

		if (ud) {
			wr.wr.ud.ah = ah;
			wr.wr.ud.remote_qpn = (uint32_t)job->arg[1];
			wr.wr.ud.remote_qkey = 0x111;
		}
		pattern_fill(n->arena, sge.length, 5000 + i, 0);
		NEED(ibv_post_send(qp, &wr, &bad) == 0);
		done += node_poll(n, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS;
	}
	NEED(ibv_destroy_ah(ah) == 0);
	return done;
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	switch (job->arg[0]) {
	case CREATE:
		return create(n, (enum ibv_qp_type)job->arg[1]);
	case CONNECT:
		get_ready(job);
		return 0;
	case SEND_ALL:
		return send_all(n, job);
	default:
		return (uint64_t)ibv_destroy_qp(qp);
	}
}

static uint64_t ask(struct side *s, uint64_t what, uint64_t arg, const struct side *peer)
{
	struct side_job job = {.arg = {what, arg}};

	if (peer)
		memcpy(&job.arg[2], peer->info.gid.raw, 16);
	side_begin(s, &job);
	return side_end(s);
}

/* Whole messages, in slots one after the other, @least of them. Return: how many */
static int whole_messages(struct side *to, enum ibv_qp_type type, int least, bool in_order)
{
	struct ibv_wc wc[MESSAGES + 1];
	int n = side_poll(to, 1, least, PATIENCE, wc), header = type == IBV_QPT_UD ? 40 : 0;
	int last = -1;

	n += side_poll(to, 1, MESSAGES - n, 500, wc + n);
	for (int i = 0; i < n; i++) {
		int bytes = (int)wc[i].byte_len - header, message = 0;

		while (message < MESSAGES && (int)bytes_of(type, (uint32_t)message) != bytes)
			message++;
		EXPECT(wc[i].status == IBV_WC_SUCCESS && message < MESSAGES &&
			       wc[i].wr_id == (uint64_t)i,
		       "receive %d: wr_id %lu, status %d, %d bytes", i, wc[i].wr_id, wc[i].status,
		       bytes);
		EXPECT(side_check(to, TARGETS + (unsigned)i * 0x20000u + (unsigned)header,
				  (uint64_t)bytes, 5000 + (uint64_t)message, 0) == -1,
		       "message %d: bytes", message);
		EXPECT(!in_order || message > last, "message %d after %d", message, last);
		last = message;
	}
	return n;
}

static const struct {
	const char *rules; /* of the receiver; with a "!", of the sender */
	int least, most;   /* messages that arrive */
	bool in_order;
} unreliable[] = {
	{"", MESSAGES, MESSAGES, true},
	{"drop nth 5", MESSAGES - 1, MESSAGES - 1, true},
	{"corrupt nth 1", MESSAGES - 1, MESSAGES - 1, true},
	{"reorder nth 24", 1, MESSAGES, false},
	{"!lose nth 5", MESSAGES - 1, MESSAGES - 1, true},
	{"!delay 1ms", MESSAGES, MESSAGES, true},
};

static void unreliable_rows(enum ibv_qp_type type, const char *name)
{
	for (size_t i = 0; i < COUNT_OF(unreliable); i++) {
		uint64_t qpn_a, qpn_b;
		int n;

		row("%s: %s", name, unreliable[i].rules);
		two_hosts_start(&a, 0, *unreliable[i].rules == '!' ? unreliable[i].rules + 1 : "");
		two_hosts_start(&b, 1, *unreliable[i].rules == '!' ? "" : unreliable[i].rules);
		qpn_a = ask(&a, CREATE, type, NULL);
		qpn_b = ask(&b, CREATE, type, NULL);
		(void)ask(&a, CONNECT, qpn_b, &b);
		(void)ask(&b, CONNECT, qpn_a, &a);
		EXPECT(ask(&a, SEND_ALL, qpn_b, &b) == MESSAGES, "sends");
		n = whole_messages(&b, type, unreliable[i].least, unreliable[i].in_order);
		EXPECT(n >= unreliable[i].least && n <= unreliable[i].most, "%d messages", n);
		EXPECT(ask(&a, DESTROY, 0, NULL) == 0 && ask(&b, DESTROY, 0, NULL) == 0,
		       "ibv_destroy_qp");
		side_stop(&b);
		side_stop(&a);
	}
}

int main(int argc, char **argv)
{
	side_work = work;
	two_hosts_open(argc, argv);
	time_limit(400);
	unreliable_rows(IBV_QPT_UC, "UC");
	unreliable_rows(IBV_QPT_UD, "UD");
	return summary();
}
