/* SPDX-License-Identifier: MIT */
/*
 * An address comes after a datagram queue pair has entered RTR: what the queue pair sends from
 * there is lost, also while another one has that address open, whose socket may end at any moment.
 * After a RESET it is sent.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/forge.h"
#include "lib/to_rts.h"
#include "lib/two_hosts.h"
#include "lib/wait.h"

#define PATIENCE 30000u /* ms */
#define PEER_QPN 0x4711u
#define QKEY	 0x111u
#define BYTES	 8u

enum { OLD, NEW, QPS };
enum job { CREATE, CONNECT, RESET, AWAIT_LATE, SEND_LATE, DESTROY };

static struct side b; /* on host 1; host 0 is this process, with a socket */

static const union ibv_gid late = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 8}};

/* --- in b's process -------------------------------------------------------------- */

static struct ibv_qp *qps[QPS];

static uint64_t create(struct node *n, uint64_t i)
{
	struct ibv_qp_init_attr init = {.send_cq = n->cq[0],
					.recv_cq = n->cq[1],
					.cap = {4, 1, 1, 1, 0},
					.qp_type = IBV_QPT_UD,
					.sq_sig_all = 1};

	NEED(qps[i] = ibv_create_qp(n->pd, &init));
	return 0;
}

static uint64_t to_rts(uint64_t i)
{
	struct ibv_qp_attr attr = connect_attr(PEER_QPN, &forge_gid);

	attr.qkey = QKEY;
	return (uint64_t)connect_qp(qps[i], attr);
}

static uint64_t reset(uint64_t i)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	return (uint64_t)ibv_modify_qp(qps[i], &attr, IBV_QP_STATE);
}

/* -1: there is none */
static int row_of_late(struct ibv_context *ctx)
{
	union ibv_gid gid;

	for (int row = 0; ibv_query_gid(ctx, 1, row, &gid) == 0; row++)
		if (memcmp(&gid, &late, sizeof(gid)) == 0)
			return row;
	return -1;
}

/* The event of a change may be another one's: the host gives itself addresses, too. */
static uint64_t await_late(struct ibv_context *ctx)
{
	return !WAIT_UNTIL(row_of_late(ctx) >= 0, PATIENCE);
}

static uint64_t send_late(struct node *n, uint64_t i, uint32_t imm)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.dgid = forge_gid,
					   .sgid_index = (uint8_t)row_of_late(n->ctx),
					   .hop_limit = 64}};
	struct ibv_ah *ah = ibv_create_ah(n->pd, &attr);
	struct ibv_sge sge = {(uintptr_t)n->arena, BYTES, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .imm_data = htonl(imm)},
			   *bad;
	struct ibv_wc wc;
	uint64_t ret;

	NEED(ah);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = PEER_QPN;
	wr.wr.ud.remote_qkey = QKEY;
	NEED(ibv_post_send(qps[i], &wr, &bad) == 0);
	ret = node_poll(n, 0, 1, PATIENCE, &wc) == 1 ? (uint64_t)wc.status : UINT64_MAX;
	NEED(ibv_destroy_ah(ah) == 0);
	return ret;
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	uint64_t i = job->arg[1];

	switch ((enum job)job->arg[0]) {
	case CREATE:
		return create(n, i);
	case CONNECT:
		return to_rts(i);
	case RESET:
		return reset(i);
	case AWAIT_LATE:
		return await_late(n->ctx);
	case SEND_LATE:
		return send_late(n, i, (uint32_t)job->arg[2]);
	case DESTROY:
		return (uint64_t)ibv_destroy_qp(qps[i]);
	}
	return 0;
}

/* --- in this one ----------------------------------------------------------------- */

static uint64_t ask(enum job what, uint64_t qp, uint64_t imm)
{
	side_begin(&b, &(struct side_job){.arg = {what, qp, imm}});
	return side_end(&b);
}

static void make(uint64_t qp)
{
	NEED(ask(CREATE, qp, 0) == 0 && ask(CONNECT, qp, 0) == 0);
}

static void expect_datagram(uint32_t imm)
{
	struct av_packet p;

	if (EXPECT(forge_receive(&p, PATIENCE), "datagram %u does not come", imm))
		EXPECT(p.imm == imm, "datagram %u instead of %u", p.imm, imm);
}

static void comes_late(void)
{
	two_hosts_be(1);
	NEED(system("ip addr add 192.0.2.8/24 dev v1") == 0);
	two_hosts_be(0);
	NEED(ask(AWAIT_LATE, 0, 0) == 0);
}

int main(int argc, char **argv)
{
	side_work = work;
	two_hosts_open(argc, argv);
	forge_open();
	two_hosts_start(&b, 1, "");
	row("an address that comes late");
	make(OLD);
	comes_late();
	make(NEW);
	EXPECT(ask(SEND_LATE, OLD, 1) == IBV_WC_SUCCESS, "status");
	EXPECT(ask(SEND_LATE, NEW, 2) == IBV_WC_SUCCESS, "status");
	expect_datagram(2);
	NEED(ask(RESET, OLD, 0) == 0 && ask(CONNECT, OLD, 0) == 0);
	EXPECT(ask(SEND_LATE, OLD, 3) == IBV_WC_SUCCESS, "status");
	expect_datagram(3);
	NEED(ask(DESTROY, NEW, 0) == 0 && ask(DESTROY, OLD, 0) == 0);
	side_stop(&b);
	return summary();
}
