/* SPDX-License-Identifier: MIT */
/*
 * No event of a CQ is lost, though its consumer polls once for each and others make more
 * completions meanwhile. RACE_EVENTS=10000000 in the environment is a long run.
 */
#include <poll.h>

#include "lib/event_race.h"
#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/to_rts.h"

static struct ibv_cq *create_extended(struct node *n, int cqe)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = (uint32_t)cqe, .channel = n->channel, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(n->ctx, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static int poll_extended(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr attr = {0};
	int ret = ibv_start_poll(ex, &attr);

	if (ret)
		return ret == ENOENT ? 0 : -ret;
	*wc = (struct ibv_wc){.wr_id = ex->wr_id, .status = ex->status};
	ibv_end_poll(ex);
	return 1;
}

static const struct event_race races[] = {
	{"a CQ", race_create, race_wait, race_poll, false, 0, 0},
	{"an extended CQ", create_extended, race_wait, poll_extended, false, 0, 0},
	{"solicited", race_create, race_wait, race_poll, true, 0, 0},
	{"by number and time", race_create, race_wait, race_poll, false, 4, 20},
};

/* --- both completions of a message to oneself ------------------------------------------ */

static bool event_comes(struct ibv_cq *cq)
{
	struct pollfd p = {.fd = cq->channel->fd, .events = POLLIN};

	if (!EXPECT(poll(&p, 1, PROBE_PATIENCE) == 1, "no event"))
		return false;
	race_wait(cq);
	return true;
}

static struct ibv_qp *to_itself(struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {.cap = {.max_send_wr = 1, .max_recv_wr = 1},
					.send_cq = cq,
					.recv_cq = cq,
					.qp_type = type,
					.sq_sig_all = 1};
	struct ibv_qp *qp = ibv_create_qp(race_node->pd, &init);

	NEED(qp && connect_qp(qp, connect_attr(qp->qp_num, &race_node->info.gid)) == 0);
	return qp;
}

static void each_is_heard_of(const struct event_race *by, enum ibv_qp_type type)
{
	struct ibv_cq *cq = by->create(race_node, 2);
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr receive = {0}, *bad_receive;
	struct ibv_qp *qp;
	struct ibv_wc wc;

	row("both completions of a message to oneself: %s, type %d", by->name, type);
	NEED(cq);
	qp = to_itself(cq, type);
	NEED(ibv_req_notify_cq(cq, 0) == 0);
	NEED(ibv_post_recv(qp, &receive, &bad_receive) == 0);
	NEED(ibv_post_send(qp, &send, &bad_send) == 0);
	for (int i = 0; i < 2 && event_comes(cq); i++) {
		NEED(ibv_req_notify_cq(cq, 0) == 0);
		EXPECT(by->poll(cq, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "no completion");
	}
	EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0, "the end");
}

int main(int argc, char **argv)
{
	event_races_open(argc, argv, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		each_is_heard_of(&races[i], IBV_QPT_RC);
		each_is_heard_of(&races[i], IBV_QPT_UC);
	}
	event_races(races, COUNT_OF(races), 20000);
	return event_races_close();
}
