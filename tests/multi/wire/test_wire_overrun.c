/* SPDX-License-Identifier: MIT */
/*
 * The completion of a request to another host finds its CQ full: the queue pair fails, which is
 * told once, and sends nothing more. IBTA volume 1, 10.10.2.3; ibv_get_async_event(3).
 */
#include "lib/expect.h"
#include "lib/forge.h"
#include "lib/two_hosts.h"

#define PATIENCE  20000u /* ms */
#define BRIEFLY	  200	 /* ms in which nothing should come */
#define REQUESTS  8u
#define ROOM	  1u /* in the CQ */
#define BYTES	  8u
#define FIRST_PSN 0xfffffcu
#define PEER_QPN  0x4711u

static struct side b; /* on host 1; host 0 is this process, with a socket */

/* Packets that come from b, one after the other. @least: for which it may take its time */
static uint32_t in_order(uint32_t least)
{
	struct av_packet p;
	uint32_t n = 0;

	while (forge_receive(&p, n < least ? (int)PATIENCE : BRIEFLY))
		n += p.psn == ((FIRST_PSN + n) & AV_PSN_MASK);
	return n;
}

/* --- reliable -------------------------------------------------------------------- */

static uint32_t connect_small(void)
{
	struct node_qp_spec spec = spec_default();
	struct node_link link = link_default();
	uint32_t qpn;

	spec.send_cq = 2;
	link.dest_qpn = PEER_QPN;
	link.dgid = forge_gid;
	link.rq_psn = link.sq_psn = FIRST_PSN;
	link.timeout = 22; /* 17 s: nothing is repeated */
	NEED(side_create_cq(&b, 2, ROOM, false) == 0);
	NEED(side_create_qp(&b, 0, &spec, &qpn) == 0);
	NEED(side_connect(&b, 0, &link) == 0);
	return qpn;
}

static void post_all(void)
{
	struct node_send s[REQUESTS];

	for (uint32_t i = 0; i < REQUESTS; i++)
		s[i] = (struct node_send){.opcode = IBV_WR_RDMA_WRITE,
					  .flags = IBV_SEND_SIGNALED,
					  .num_sge = 1,
					  .sge = {side_sge(&b, KEY_FULL, 0, BYTES)},
					  .remote_addr = 0x1000,
					  .rkey = 7};
	EXPECT(side_post_send(&b, 0, s, REQUESTS).ret == 0, "post_send");
}

/* One packet acknowledges all of them. */
static void reliable(void)
{
	struct av_packet all = {
		.opcode = ACKNOWLEDGE, .psn = FIRST_PSN + REQUESTS - 1, .syndrome = ACK};
	uint32_t qpn = connect_small(), n, failures = 0;
	struct node_event e;

	row("RC");
	post_all();
	n = in_order(REQUESTS);
	EXPECT(n == REQUESTS, "%u packets", n);
	forge_send(qpn, all, NONE);
	while ((e = side_own_async(&b, failures ? BRIEFLY : PATIENCE)).any)
		failures += e.type == IBV_EVENT_QP_FATAL;
	EXPECT(failures == 1, "%u events", failures);
	EXPECT(side_state(&b, 0) == IBV_QPS_ERR, "state %d", side_state(&b, 0));
	NEED(side_destroy_qp(&b, 0) == 0 && side_destroy_cq(&b, 2) == 0);
}

/* --- unreliable ------------------------------------------------------------------ */

static struct ibv_qp *connect_uc(struct node *n, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = n->cq[1],
		.cap = {.max_send_wr = REQUESTS, .max_send_sge = 1},
		.qp_type = IBV_QPT_UC,
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = PEER_QPN,
		.sq_psn = FIRST_PSN,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = forge_gid, .hop_limit = 64}},
	};
	struct ibv_qp *qp = ibv_create_qp(n->pd, &init);

	NEED(qp);
	NEED(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS) ==
	     0);
	attr.qp_state = IBV_QPS_RTR;
	NEED(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN) == 0);
	attr.qp_state = IBV_QPS_RTS;
	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	return qp;
}

/* Job of the other process. Return: events that say that the queue pair has failed */
static uint64_t overrun(struct node *n, const struct side_job *job)
{
	struct ibv_cq *cq = ibv_create_cq(n->ctx, ROOM, NULL, NULL, 0);
	struct ibv_sge sge = {(uintptr_t)n->arena, BYTES, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr[REQUESTS], *bad;
	uint64_t failures = 0;
	struct node_event e;
	struct ibv_qp *qp;

	(void)job;
	NEED(cq);
	qp = connect_uc(n, cq);
	for (uint32_t i = 0; i < REQUESTS; i++)
		wr[i] = (struct ibv_send_wr){.next = i + 1 < REQUESTS ? &wr[i + 1] : NULL,
					     .opcode = IBV_WR_SEND,
					     .sg_list = &sge,
					     .num_sge = 1};
	NEED(ibv_post_send(qp, wr, &bad) == 0);
	while ((e = node_async(n, failures ? BRIEFLY : PATIENCE)).any)
		failures += e.type == IBV_EVENT_QP_FATAL;
	NEED(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
	return failures;
}

static void unreliable(void)
{
	uint64_t failures;
	uint32_t n;

	row("UC");
	side_begin(&b, &(struct side_job){{0}});
	failures = side_end(&b);
	n = in_order(ROOM + 1);
	EXPECT(n == ROOM + 1, "%u packets", n);
	EXPECT(failures == 1, "%lu events", failures);
}

int main(int argc, char **argv)
{
	side_work = overrun;
	two_hosts_open(argc, argv);
	forge_open();
	two_hosts_start(&b, 1, "");
	reliable();
	unreliable();
	side_stop(&b);
	return summary();
}
