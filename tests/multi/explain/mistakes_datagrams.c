/* SPDX-License-Identifier: MIT */
/* Datagrams that cannot be sent, or get lost: their senders hear of success. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/to_rts.h"
#include "mistakes.h"

#define QKEY 0x11111111u

static struct ibv_sge sge;
static struct ibv_send_wr wr;
static struct ibv_ah *ah;

static void up(int i, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = attr_of(i);

	attr.qkey = QKEY;
	NEED(connect_step(scene.qp[i], attr, IBV_QPS_INIT) == 0);
	if (to == IBV_QPS_RTS)
		NEED(connect_step(scene.qp[i], attr, IBV_QPS_RTR) == 0 &&
		     connect_step(scene.qp[i], attr, IBV_QPS_RTS) == 0);
}

/* @to: the receiver's state */
static void start(enum ibv_qp_state to)
{
	struct ibv_ah_attr path = attr_of(0).ah_attr;

	path.grh.dgid = scene.gid;
	need(IBV_QPT_UD);
	up(0, IBV_QPS_RTS);
	up(1, to);
	ah = ibv_create_ah(scene.pd, &path);
	NEED(ah);
	wr = request(IBV_WR_SEND, &sge);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = scene.qpn[1];
	wr.wr.ud.remote_qkey = QKEY;
}

static void ends(enum ibv_wc_status status)
{
	enum ibv_wc_status got = run(&wr);

	EXPECT(got == status, "status %d, not %d", got, status);
	NEED(ibv_destroy_ah(ah) == 0);
}

static void no_room(void)
{
	start(IBV_QPS_RTS);
	post_recv(64, scene.mr->lkey);
	ends(IBV_WC_SUCCESS);
}

static void wrong_qkey(void)
{
	start(IBV_QPS_RTS);
	post_recv(104, scene.mr->lkey);
	wr.wr.ud.remote_qkey = 0x22222222;
	ends(IBV_WC_SUCCESS);
}

static void no_recv(void)
{
	start(IBV_QPS_RTS);
	ends(IBV_WC_SUCCESS);
}

static void not_ready(void)
{
	start(IBV_QPS_INIT);
	post_recv(104, scene.mr->lkey);
	ends(IBV_WC_SUCCESS);
}

static void read_only_recv(void)
{
	struct ibv_mr *mr = reg(scene.pd, 0);

	start(IBV_QPS_RTS);
	post_recv(104, mr->lkey);
	ends(IBV_WC_SUCCESS);
	NEED(ibv_dereg_mr(mr) == 0);
}

static void wrong_qpn(void)
{
	start(IBV_QPS_RTS);
	wr.wr.ud.remote_qpn = 1;
	ends(IBV_WC_SUCCESS);
}

static void no_gid(void)
{
	struct ibv_ah_attr path = attr_of(0).ah_attr;

	memset(&path.grh.dgid, 0, sizeof(path.grh.dgid));
	start(IBV_QPS_RTS);
	NEED(ibv_destroy_ah(ah) == 0);
	ah = wr.wr.ud.ah = ibv_create_ah(scene.pd, &path);
	NEED(ah);
	ends(IBV_WC_SUCCESS);
}

static void above_mtu(void)
{
	struct ibv_port_attr port;

	NEED(ibv_query_port(scene.ctx, 1, &port) == 0);
	printed("%u", 128u << port.active_mtu);
	start(IBV_QPS_RTS);
	sge.length = 2 * BYTES;
	ends(IBV_WC_LOC_LEN_ERR);
}

static void write_on_ud(void)
{
	start(IBV_QPS_RTS);
	wr.opcode = IBV_WR_RDMA_WRITE;
	ends(IBV_WC_LOC_QP_OP_ERR);
}

static void no_ah(void)
{
	start(IBV_QPS_RTS);
	wr.wr.ud.ah = NULL;
	EXPECT_RET(post(&wr), EINVAL);
	NEED(ibv_destroy_ah(ah) == 0);
}

static void ah_without_grh(void)
{
	struct ibv_ah_attr path = {.dlid = 1, .port_num = 1};

	EXPECT_NULL(ibv_create_ah(scene.pd, &path), EINVAL);
}

static void group_of_rc(void)
{
	need(IBV_QPT_RC);
	EXPECT_RET(ibv_attach_mcast(scene.qp[0], &scene.gid, 0), EINVAL);
}

static void group_that_is_none(void)
{
	need(IBV_QPT_UD);
	EXPECT_RET(ibv_attach_mcast(scene.qp[0], &scene.gid, 0), EINVAL);
}

/* clang-format off */
static const struct mistake mistakes[] = {
	{"no room for the GRH", no_room,
	 "QP <qp1>: peer's SEND: a datagram of 64 B does not fit the receive request of 64 B: its first 40 B are for the GRH (dropped silently)"},
	{"wrong Q_Key", wrong_qkey,
	 "QP <qp1>: peer's SEND: the datagram has Q_Key 0x22222222, the queue pair 0x11111111 (dropped silently)"},
	{"no receive posted", no_recv,
	 "QP <qp1>: peer's SEND: no receive request is posted for it (dropped silently)"},
	{"receiver in INIT", not_ready,
	 "QP <qp1>: peer's SEND: the queue pair is in state INIT, which takes no datagrams (dropped silently)"},
	{"receive buffer not writable", read_only_recv,
	 "QP <qp1>: peer's SEND of 104 B at <remote> under lkey <key>: the region permits no access flag, and IBV_ACCESS_LOCAL_WRITE is needed (IBV_WC_LOC_PROT_ERR, wr_id 7)"},
	{"QP number not exchanged", wrong_qpn,
	 "QP <qp0>: SEND: the datagram is for QP 0x000001, and there is no such UD queue pair (dropped silently)"},
	{"GID not exchanged", no_gid,
	 "QP <qp0>: SEND: nobody is there: the GID of the address vector is all zero (dropped silently)"},
	{"datagram above the MTU", above_mtu,
	 "QP <qp0>: SEND: 8192 B; a datagram may have at most the port's MTU, <number> B (IBV_WC_LOC_LEN_ERR, wr_id 7)"},
	{"WRITE on UD", write_on_ud,
	 "QP <qp0>: RDMA WRITE: a UD queue pair does not support RDMA WRITE (IBV_WC_LOC_QP_OP_ERR, wr_id 7)"},
	{"no address handle", no_ah,
	 "ibv_post_send of QP <qp0>: the datagram's address handle is invalid (EINVAL)"},
	{"address handle of a LID", ah_without_grh,
	 "ibv_create_ah: on Ethernet, an address vector needs a GRH; a program that knows only LIDs runs with ANYVERBS_DEVICES=any0:link=infiniband (EINVAL)"},
	{"RC queue pair in a group", group_of_rc,
	 "ibv_attach_mcast: the queue pair is not of type UD (EINVAL)"},
	{"group that is none", group_that_is_none,
	 "ibv_attach_mcast: the GID is not a multicast address (EINVAL)"},
};
/* clang-format on */

void make_datagram_mistakes(void)
{
	run_mistakes(mistakes, COUNT_OF(mistakes));
}
