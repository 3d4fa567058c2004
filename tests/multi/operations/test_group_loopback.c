/* SPDX-License-Identifier: MIT */
/*
 * IBV_QP_CREATE_BLOCK_SELF_MCAST_LB: what such a queue pair sends to a group reaches nobody on this
 * host; it receives what others send. Source: ibv_create_qp_ex(3), mckey(1).
 */
#include <arpa/inet.h>
#include <errno.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"
#include "lib/to_rts.h"

#define PATIENCE 20000u /* ms */
#define QKEY	 0x11111111u
#define GRH	 40u
#define BYTES	 8u
#define ROOM	 4 /* receives of each queue pair */

enum who { BLOCKED, PLAIN, MEMBER, WHO_N };

static struct node n;
static struct ibv_qp *qp[WHO_N];
static struct ibv_cq *cq[WHO_N]; /* of receives */
static struct ibv_ah *to_group;
static const union ibv_gid group = {
	.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [14] = 2, [15] = 3}};

static void receive(enum who who)
{
	struct ibv_sge sge = {(uintptr_t)n.arena, GRH + BYTES, n.mr[KEY_FULL]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	for (int i = 0; i < ROOM; i++)
		NEED(ibv_post_recv(qp[who], &wr, &bad) == 0);
}

static void create(enum who who)
{
	struct ibv_qp_attr attr = connect_attr(0, &n.info.gid);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = n.cq[0],
		.recv_cq = n.cq[1 + who],
		.cap = {4, ROOM, 1, 1, 0},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = n.pd,
		.create_flags = who == BLOCKED ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0,
	};

	NEED(who == BLOCKED || node_create_cq(&n, 1 + (int)who, 16, false) == 0);
	init.recv_cq = cq[who] = n.cq[1 + who];
	qp[who] = ibv_create_qp_ex(n.ctx, &init);
	NEED(qp[who]);
	attr.qkey = QKEY;
	NEED(connect_qp(qp[who], attr) == 0);
	NEED(ibv_attach_mcast(qp[who], &group, 0) == 0);
	receive(who);
}

static void send_from(enum who who, uint32_t number)
{
	struct ibv_sge sge = {(uintptr_t)n.arena + 4096, BYTES, n.mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = htonl(number),
				 .wr.ud = {to_group, 0xffffff, QKEY}},
			   *bad;
	struct ibv_wc wc;

	EXPECT(ibv_post_send(qp[who], &wr, &bad) == 0, "ibv_post_send");
	EXPECT(node_poll(&n, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "not sent");
}

/* The next datagram there is that one: those before it would have come before. */
static void expect_next(enum who who, uint32_t number)
{
	struct ibv_wc wc = {0};

	EXPECT(node_poll(&n, 1 + (int)who, 1, PATIENCE, &wc) == 1, "nothing for %d", who);
	EXPECT(ntohl(wc.imm_data) == number, "%d: datagram %u instead of %u", who,
	       ntohl(wc.imm_data), number);
}

static void expect_no_more(void)
{
	struct ibv_wc wc;

	for (int who = 0; who < WHO_N; who++)
		EXPECT(ibv_poll_cq(cq[who], 1, &wc) == 0, "one more for %d", who);
}

static void rows(void)
{
	row("neither itself nor others get what it sends");
	send_from(BLOCKED, 1);
	send_from(PLAIN, 2);
	expect_next(MEMBER, 2);
	row("it gets what others send");
	expect_next(BLOCKED, 2);
	row("others get it, too");
	send_from(MEMBER, 3);
	expect_next(PLAIN, 3);
	expect_next(BLOCKED, 3);
	expect_no_more();
}

static void flag_rows(void)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = n.cq[0],
		.recv_cq = n.cq[0],
		.cap = {1, 1, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = n.pd,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};
	struct ibv_qp *other = ibv_create_qp_ex(n.ctx, &init);

	row("a connected queue pair may have the flag");
	EXPECT(other && ibv_destroy_qp(other) == 0, "errno %d", errno);
	row("another flag is refused");
	init.create_flags |= IBV_QP_CREATE_SCATTER_FCS;
	errno = 0;
	EXPECT(!ibv_create_qp_ex(n.ctx, &init) && errno == EOPNOTSUPP, "errno %d", errno);
}

int main(void)
{
	struct ibv_ah_attr ah = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = group, .hop_limit = 1}};

	sandbox_begin(100);
	node_open(&n, NULL);
	to_group = ibv_create_ah(n.pd, &ah);
	NEED(to_group);
	for (int who = 0; who < WHO_N; who++)
		create((enum who)who);
	rows();
	flag_rows();
	for (int who = 0; who < WHO_N; who++)
		EXPECT(ibv_detach_mcast(qp[who], &group, 0) == 0 && ibv_destroy_qp(qp[who]) == 0,
		       "the end of %d", who);
	EXPECT(ibv_destroy_ah(to_group) == 0, "ibv_destroy_ah");
	node_close(&n);
	return sandbox_end();
}
