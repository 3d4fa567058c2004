/* SPDX-License-Identifier: MIT */
/* Extended and tunneled atomics over XRC, between two processes: the other one only has the memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/to_rts.h"
#include "lib/exp_objects.h"
#include "lib/expect.h"
#include "lib/extended.h"
#include "lib/sandbox.h"
#include "lib/spawn.h"
#include "lib/switches_in_force.h"

#define ROLE	"--receiver"
#define BYTES	4096u
#define AT	64u /* of the operand in the memory */
#define SUCCESS IBV_WC_SUCCESS
#define RIGHTS                                                                                   \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | \
	 IBV_EXP_ACCESS_REMOTE_ATOMIC)

/* What each tells the other. */
struct hello {
	uint32_t qpn, srqn, rkey, tunneled_rkey;
	uint64_t addr;
	union ibv_gid gid;
};

/* The parts of a node that the library of the tests for extended atomics uses, and what XRC needs
 * beside. */
static struct node n;
static struct ibv_xrcd *xrcd;
static struct ibv_srq *srq;
static struct ibv_mr *mr, *tunneled;
static uint8_t memory[BYTES] __attribute__((aligned(4096)));

static struct ibv_mr *need_mr(uint64_t rights)
{
	return exp_need_mr((struct ibv_exp_reg_mr_in){
		.pd = n.pd, .addr = memory, .length = BYTES, .exp_access = rights});
}

static void open_end(void)
{
	n.ctx = node_open_device();
	n.pd = ibv_alloc_pd(n.ctx);
	xrcd = node_open_xrcd(n.ctx);
	n.cq[0] = n.cq[1] = ibv_create_cq(n.ctx, 64, NULL, NULL, 0);
	if (!n.pd || !xrcd || !n.cq[0] || ibv_query_gid(n.ctx, 1, 0, &n.info.gid))
		DIE("cannot open: %s", strerror(errno));
	mr = need_mr(RIGHTS);
	tunneled = need_mr(RIGHTS | IBV_EXP_ACCESS_TUNNELED_ATOMIC);
}

static void close_end(void)
{
	EXPECT(ibv_destroy_qp(n.qp[0]) == 0 && (!srq || ibv_destroy_srq(srq) == 0) &&
		       ibv_dereg_mr(tunneled) == 0 && ibv_dereg_mr(mr) == 0 &&
		       ibv_destroy_cq(n.cq[0]) == 0 && ibv_close_xrcd(xrcd) == 0 &&
		       ibv_dealloc_pd(n.pd) == 0 && ibv_close_device(n.ctx) == 0,
	       "closing");
}

static void connect_to(const struct hello *peer)
{
	struct ibv_qp_attr attr = connect_attr(peer->qpn, &peer->gid);

	attr.min_rnr_timer = 1;
	if (connect_qp(n.qp[0], attr))
		DIE("cannot connect: errno %d", errno);
}

/* --- the receiver ---------------------------------------------------------------- */

static void receive(int sock)
{
	struct ibv_srq_init_attr_ex init = node_xrc_srq(4, NULL, NULL, NULL);
	struct ibv_qp_init_attr_ex qp = {.qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct hello me = {0}, peer;

	open_end();
	init.pd = n.pd;
	init.xrcd = xrcd;
	init.cq = n.cq[0];
	srq = ibv_create_srq_ex(n.ctx, &init);
	qp.xrcd = xrcd;
	n.qp[0] = ibv_create_qp_ex(n.ctx, &qp);
	if (!srq || !n.qp[0] || ibv_get_srq_num(srq, &me.srqn))
		DIE("SRQ or queue pair: %s", strerror(errno));
	me.qpn = n.qp[0]->qp_num;
	me.rkey = mr->rkey;
	me.tunneled_rkey = tunneled->rkey;
	me.addr = (uintptr_t)memory;
	me.gid = n.info.gid;
	spawn_receive(sock, &peer, sizeof(peer));
	connect_to(&peer);
	spawn_send(sock, &me, sizeof(me));
	(void)spawn_receive_any(sock, &peer, sizeof(peer)); /* until the other is done */
	close_end();
	exit(failures() != 0);
}

/* --- here ------------------------------------------------------------------------ */

static struct hello to;

static struct ibv_sge local(uint64_t at, uint32_t bytes)
{
	return (struct ibv_sge){.addr = (uintptr_t)memory + at, .length = bytes, .lkey = mr->lkey};
}

static enum ibv_wc_status rdma(enum ibv_exp_wr_opcode opcode, uint64_t from, uint32_t bytes,
			       uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = local(from, bytes);
	struct ibv_exp_send_wr wr = {.exp_opcode = opcode, .sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	wr.qp_type.xrc.remote_srqn = to.srqn;
	return extended_do(&n, 0, &wr).status;
}

static void set_operand(const struct av_operand *old)
{
	memcpy(memory, old, sizeof(*old));
	if (rdma(IBV_EXP_WR_RDMA_WRITE, 0, sizeof(*old), to.addr + AT, to.rkey) != SUCCESS)
		DIE("WRITE");
}

static void expect_operand(const struct av_operand *want)
{
	if (rdma(IBV_EXP_WR_RDMA_READ, 0, sizeof(*want), to.addr + AT, to.rkey) != SUCCESS)
		DIE("READ");
	EXPECT(memcmp(memory, want, sizeof(*want)) == 0, "not what the model has");
}

static void extended_rows(void)
{
	for (int i = 0; i < 24; i++) {
		struct av_atomic a = {.op = i & 1 ? AV_ATOMIC_ADD : AV_ATOMIC_CMP_SWAP,
				      .bytes = 1u << i / 4};
		struct ibv_sge sge = local(512, a.bytes);
		bool masked = i & 2;
		struct ibv_exp_send_wr wr;
		struct av_operand old, want;

		row("%s %d on %u bytes", masked ? "masked" : "sized", i & 1, a.bytes);
		model_random(&a, &old);
		if (!masked) {
			memset(&a.mask, a.op == AV_ATOMIC_ADD ? 0 : 0xff, sizeof(a.mask));
			memset(&a.compare_mask, 0xff, sizeof(a.compare_mask));
		}
		set_operand(&old);
		extended_request(&wr, &a, masked, to.addr + AT, to.rkey, &sge, 1);
		wr.qp_type.xrc.remote_srqn = to.srqn;
		EXPECT(extended_do(&n, 0, &wr).status == SUCCESS, "status");
		EXPECT(memcmp(memory + 512, &old, a.bytes) == 0, "not the old value");
		want = old;
		model_atomic(&a, &want);
		expect_operand(&want);
	}
}

static void tunneled_rows(void)
{
	for (enum av_atomic_op op = 0; op < AV_ATOMIC_OP_N; op++)
		for (uint32_t bytes = 4; bytes <= 8; bytes += 4) {
			struct av_atomic a = {.op = op, .bytes = bytes};
			struct anyverbs_tunneled_atomic c;
			struct av_operand old, want;

			row("tunneled %d on %u bytes", (int)op, bytes);
			model_random(&a, &old);
			set_operand(&old);
			c = tunneled_command(&a, AT);
			memcpy(memory, &c, sizeof(c));
			EXPECT(rdma(IBV_EXP_WR_RDMA_WRITE, 0, sizeof(c), to.addr,
				    to.tunneled_rkey) == SUCCESS,
			       "status");
			want = old;
			model_atomic(&a, &want);
			expect_operand(&want);
		}
}

/* The last: both ends fail. */
static void refused_row(void)
{
	struct av_operand old = {{1, 2, 3, 4}};

	row("no tunneled atomic");
	set_operand(&old);
	expect_operand(&old);
	EXPECT(rdma(IBV_EXP_WR_RDMA_WRITE, 0, 32, to.addr + AT, to.tunneled_rkey) ==
		       IBV_WC_REM_INV_REQ_ERR,
	       "status");
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, ROLE);
	struct spawned receiver;
	struct hello me = {0};

	time_limit(200);
	if (sock >= 0)
		receive(sock);
	sandbox_enter();
	switches_in_force("IBM_TUNNELED_ATOMIC_EN");
	spawn_self(&receiver, ROLE);
	open_end();
	NEED(extended_create_qp(&n, 0, IBV_QPT_XRC_SEND, 32) == 0);
	me.qpn = n.qp[0]->qp_num;
	me.gid = n.info.gid;
	spawn_send(receiver.sock, &me, sizeof(me));
	spawn_receive(receiver.sock, &to, sizeof(to));
	connect_to(&to);
	extended_rows();
	tunneled_rows();
	refused_row();
	spawn_send(receiver.sock, &me, sizeof(me));
	spawn_wait(&receiver);
	close_end();
	switches_in_force(NULL);
	return sandbox_end();
}
