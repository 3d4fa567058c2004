/* SPDX-License-Identifier: MIT */
/* Queue pairs that do not come up, or not to the right peer. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/to_rts.h"
#include "mistakes.h"

/* Move queue pair 0 to the state before @to. */
static void before(enum ibv_qp_state to)
{
	need(IBV_QPT_RC);
	if (to > IBV_QPS_INIT)
		NEED(connect_step(scene.qp[0], attr_of(0), IBV_QPS_INIT) == 0);
	if (to > IBV_QPS_RTR)
		NEED(connect_step(scene.qp[0], attr_of(0), IBV_QPS_RTR) == 0);
}

static void refused(struct ibv_qp_attr attr, enum ibv_qp_state to, int mask)
{
	attr.qp_state = to;
	EXPECT_RET(ibv_modify_qp(scene.qp[0], &attr, mask), EINVAL);
}

/* One attribute is wrong. */
#define WRONG(function, to, assignment)                                              \
	static void function(void)                                                   \
	{                                                                            \
		struct ibv_qp_attr attr;                                             \
                                                                                     \
		before(IBV_QPS_##to);                                                \
		attr = attr_of(0);                                                   \
		attr.assignment;                                                     \
		refused(attr, IBV_QPS_##to, connect_mask(IBV_QPT_RC, IBV_QPS_##to)); \
	}
WRONG(gid_row, RTR, ah_attr.grh.sgid_index = 9)
WRONG(no_grh, RTR, ah_attr.is_global = 0)
WRONG(path_port, RTR, ah_attr.port_num = 0)
WRONG(port_0, INIT, port_num = 0)
WRONG(port_2, INIT, port_num = 2)
WRONG(pkey, INIT, pkey_index = 1)
WRONG(mtu_in_bytes, RTR, path_mtu = (enum ibv_mtu)1024)
WRONG(mtu_forgotten, RTR, path_mtu = (enum ibv_mtu)0)
WRONG(rd_atomic, RTS, max_rd_atomic = 255)
WRONG(dest_rd_atomic, RTR, max_dest_rd_atomic = 255)

/* One bit of the mask is missing, or is too many. */
#define MASK(function, to, change)                                                                \
	static void function(void)                                                                \
	{                                                                                         \
		before(IBV_QPS_##to);                                                             \
		refused(attr_of(0), IBV_QPS_##to, connect_mask(IBV_QPT_RC, IBV_QPS_##to) change); \
	}
MASK(no_access_flags, INIT, &~IBV_QP_ACCESS_FLAGS)
MASK(no_responder, RTR, &~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
MASK(no_rnr_retry, RTS, &~IBV_QP_RNR_RETRY)
MASK(timeout_early, RTR, | IBV_QP_TIMEOUT)

static void no_qkey(void)
{
	need(IBV_QPT_UD);
	refused(attr_of(0), IBV_QPS_INIT, connect_mask(IBV_QPT_RC, IBV_QPS_INIT));
}

static void no_init(void)
{
	need(IBV_QPT_RC);
	refused(attr_of(0), IBV_QPS_RTR, connect_mask(IBV_QPT_RC, IBV_QPS_RTR));
}

static void no_rtr(void)
{
	before(IBV_QPS_RTR);
	refused(attr_of(0), IBV_QPS_RTS, connect_mask(IBV_QPT_RC, IBV_QPS_RTS));
}

static void send_early(void)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	before(IBV_QPS_RTS);
	wr = request(IBV_WR_SEND, &sge);
	EXPECT_RET(post(&wr), EINVAL);
}

static void recv_early(void)
{
	struct ibv_recv_wr wr = {.wr_id = WR_ID}, *bad;

	need(IBV_QPT_RC);
	EXPECT_RET(ibv_post_recv(scene.qp[0], &wr, &bad), EINVAL);
}

/* --- nobody answers -------------------------------------------------------------- */

static void is_unanswered(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(IBV_WR_SEND, &sge);

	EXPECT(run(&wr) == IBV_WC_RETRY_EXC_ERR, "status");
}

/* Connect both, queue pair 0 with @attr. */
static void misconnect(struct ibv_qp_attr attr)
{
	NEED(connect_qp(scene.qp[1], attr_of(1)) == 0);
	NEED(connect_qp(scene.qp[0], attr) == 0);
	is_unanswered();
}

static uint32_t swapped(uint32_t qpn)
{
	return htonl(qpn) >> 8;
}

static void swapped_qpn(void)
{
	struct ibv_qp_attr attr;

	need(IBV_QPT_RC);
	while (swapped(scene.qpn[1]) == scene.qpn[1]) { /* one in 256 reads the same both ways */
		NEED(ibv_destroy_qp(scene.qp[0]) == 0 && ibv_destroy_qp(scene.qp[1]) == 0);
		need(IBV_QPT_RC);
	}
	attr = attr_of(0);
	attr.dest_qp_num = swapped(scene.qpn[1]);
	printed("0x%06x", attr.dest_qp_num);
	misconnect(attr);
}

static void no_gid(void)
{
	struct ibv_qp_attr attr;

	need(IBV_QPT_RC);
	attr = attr_of(0);
	memset(&attr.ah_attr.grh.dgid, 0, sizeof(attr.ah_attr.grh.dgid));
	misconnect(attr);
}

static void own_qpn(void)
{
	struct ibv_qp_attr attr;

	need(IBV_QPT_RC);
	attr = attr_of(1);
	connect_to((attr.dest_qp_num = scene.qpn[1], attr));
	is_unanswered();
}

static void other_psn(void)
{
	struct ibv_qp_attr attr;

	need(IBV_QPT_RC);
	attr = attr_of(0);
	attr.sq_psn = 0x123;
	misconnect(attr);
}

static void peer_in_init(void)
{
	need(IBV_QPT_RC);
	NEED(connect_step(scene.qp[1], attr_of(1), IBV_QPS_INIT) == 0);
	NEED(connect_qp(scene.qp[0], attr_of(0)) == 0);
	is_unanswered();
}

static void peer_destroyed(void)
{
	need(IBV_QPT_RC);
	connect_both();
	NEED(ibv_destroy_qp(scene.qp[1]) == 0);
	scene.qp[1] = NULL;
	is_unanswered();
}

/* clang-format off */
static const struct mistake mistakes[] = {
	{"wrong row of the GID table", gid_row,
	 "ibv_modify_qp of QP <qp0>: row 9 of the GID table is empty (EINVAL)"},
	{"no GRH on Ethernet", no_grh,
	 "ibv_modify_qp of QP <qp0>: on Ethernet, an address vector needs a GRH; a program that knows only LIDs runs with ANYVERBS_DEVICES=any0:link=infiniband (EINVAL)"},
	{"port of the path not set", path_port,
	 "ibv_modify_qp of QP <qp0>: port_num 0 in the address vector; the device has 1 port(s) (EINVAL)"},
	{"ports counted from 0", port_0,
	 "ibv_modify_qp of QP <qp0>: port_num 0; the device has 1 port(s) (EINVAL)"},
	{"port that is not there", port_2,
	 "ibv_modify_qp of QP <qp0>: port_num 2; the device has 1 port(s) (EINVAL)"},
	{"wrong P_Key index", pkey,
	 "ibv_modify_qp of QP <qp0>: pkey_index 1; the last one is 0 (EINVAL)"},
	{"MTU in bytes", mtu_in_bytes,
	 "ibv_modify_qp of QP <qp0>: path_mtu is 1024; the port takes IBV_MTU_256 to IBV_MTU_4096 (EINVAL)"},
	{"MTU not set", mtu_forgotten,
	 "ibv_modify_qp of QP <qp0>: path_mtu is 0; the port takes IBV_MTU_256 to IBV_MTU_4096 (EINVAL)"},
	{"max_rd_atomic too large", rd_atomic,
	 "ibv_modify_qp of QP <qp0>: max_rd_atomic 255 is above the device's 128 (EINVAL)"},
	{"max_dest_rd_atomic too large", dest_rd_atomic,
	 "ibv_modify_qp of QP <qp0>: max_dest_rd_atomic 255 is above the device's 128 (EINVAL)"},
	{"access flags forgotten in the mask", no_access_flags,
	 "ibv_modify_qp of QP <qp0>: attr_mask lacks IBV_QP_ACCESS_FLAGS; the move to INIT requires IBV_QP_ACCESS_FLAGS | PKEY_INDEX | PORT (EINVAL)"},
	{"responder's attributes forgotten", no_responder,
	 "ibv_modify_qp of QP <qp0>: attr_mask lacks IBV_QP_MIN_RNR_TIMER | MAX_DEST_RD_ATOMIC; the move to RTR requires IBV_QP_AV | PATH_MTU | RQ_PSN | MIN_RNR_TIMER | MAX_DEST_RD_ATOMIC | DEST_QPN (EINVAL)"},
	{"rnr_retry forgotten", no_rnr_retry,
	 "ibv_modify_qp of QP <qp0>: attr_mask lacks IBV_QP_RNR_RETRY; the move to RTS requires IBV_QP_TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC | SQ_PSN (EINVAL)"},
	{"timeout on the way to RTR", timeout_early,
	 "ibv_modify_qp of QP <qp0>: attr_mask has IBV_QP_TIMEOUT; the move to RTR accepts IBV_QP_ACCESS_FLAGS | PKEY_INDEX | AV | PATH_MTU | RQ_PSN | ALT_PATH | MIN_RNR_TIMER | MAX_DEST_RD_ATOMIC | DEST_QPN (EINVAL)"},
	{"UD brought up like RC", no_qkey,
	 "ibv_modify_qp of QP <qp0>: attr_mask lacks IBV_QP_QKEY; the move to INIT requires IBV_QP_PKEY_INDEX | PORT | QKEY (EINVAL)"},
	{"INIT forgotten", no_init,
	 "ibv_modify_qp of QP <qp0>: there is no transition from state RESET to state RTR (EINVAL)"},
	{"RTR forgotten", no_rtr,
	 "ibv_modify_qp of QP <qp0>: there is no transition from state INIT to state RTS (EINVAL)"},
	{"send before RTS", send_early,
	 "ibv_post_send of QP <qp0>: the queue pair is in state RTR, which accepts no send requests (EINVAL)"},
	{"receive before INIT", recv_early,
	 "ibv_post_recv of QP <qp0>: the queue pair is in state RESET, which accepts no receive requests (EINVAL)"},
	{"QP number in the wrong byte order", swapped_qpn,
	 "QP <qp0>: SEND: nobody answers: the address is this host's, but it has no QP <number>: the number is wrong, or that of another container or user (IBV_WC_RETRY_EXC_ERR, wr_id 7)"},
	{"GID not exchanged", no_gid,
	 "QP <qp0>: SEND: nobody is there: the GID of the address vector is all zero (IBV_WC_RETRY_EXC_ERR, wr_id 7)"},
	{"peer connected to itself", own_qpn,
	 "QP <qp0>: SEND: nobody answers: QP <qp1> is connected to QP <qp1> (IBV_WC_RETRY_EXC_ERR, wr_id 7)"},
	{"PSNs that do not match", other_psn,
	 "QP <qp0>: SEND: nobody answers: this queue pair sends PSN 291, but QP <qp1> expects 0 (IBV_WC_RETRY_EXC_ERR, wr_id 7)"},
	{"peer not yet in RTR", peer_in_init,
	 "QP <qp0>: SEND: nobody answers: QP <qp1> is in state INIT (IBV_WC_RETRY_EXC_ERR, wr_id 7)"},
	{"peer destroyed", peer_destroyed,
	 "QP <qp0>: SEND: nobody answers: there is no QP <qp1> at that address, or its process has ended (IBV_WC_RETRY_EXC_ERR, wr_id 7)"},
};
/* clang-format on */

void make_connecting_mistakes(void)
{
	run_mistakes(mistakes, COUNT_OF(mistakes));
}
