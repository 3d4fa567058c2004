/* SPDX-License-Identifier: MIT */
/* What happens to queues by themselves, other services than RC, and devices that fail. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/tool.h"
#include "recorder.h"

#define PATIENCE 20000u

static struct node *n;

static bool find(const char *name, enum av_check check, enum av_flight_kind kind, uint64_t limit,
		 struct av_flight_record *r)
{
	const struct seed seed = {name, check, kind, ANY, limit};

	return recorder_find(&seed, r);
}

static struct ibv_send_wr plain_send(struct ibv_sge *sge, uint32_t bytes)
{
	*sge = (struct ibv_sge){(uintptr_t)n->arena, bytes, n->info.lkey[KEY_FULL]};
	return (struct ibv_send_wr){.wr_id = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED,
				    .sg_list = sge,
				    .num_sge = 1};
}

static void post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	EXPECT(ibv_post_send(qp, wr, &bad) == 0, "ibv_post_send");
}

/* Two queue pairs of this process, 0 and 2; that one receives into a CQ of @entries. */
static void connect_own(int send_entries, int recv_entries)
{
	struct node_qp_spec spec = spec_default();

	if (node_create_cq(n, 4, send_entries, false) || node_create_cq(n, 5, recv_entries, false))
		DIE("CQs");
	spec.send_cq = 4;
	spec.recv_cq = 5;
	pair_create(&a, 0, &a, 2, &spec);
	pair_connect(&a, 0, NULL, &a, 2, NULL);
}

static void disconnect_own(void)
{
	struct node_event e;

	pair_destroy(&a, 0, &a, 2);
	do
		e = node_async(n, 0);
	while (e.any);
	node_destroy_cq(n, 4);
	node_destroy_cq(n, 5);
}

static void post_recvs(int count)
{
	while (count-- > 0)
		side_recv_one(&a, 2, 0, 0, 64);
}

static void seed_overruns(void)
{
	struct av_flight_record r;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	row("event: send CQ full");
	connect_own(1, 16);
	post_recvs(2);
	recorder_begin();
	wr = plain_send(&sge, 8);
	post(n->qp[0], &wr);
	post(n->qp[0], &wr);
	if (find("CQ overrun", AV_CHECK_CQ_OVERRUN, AV_FLIGHT_EVENT, 1, &r))
		EXPECT(r.object == AV_OBJECT_CQ && r.number == n->cq[4]->handle &&
			       r.event == IBV_EVENT_CQ_ERR,
		       "CQ %u event %d", r.number, r.event);
	if (find("send CQ full", AV_CHECK_SEND_CQ_FULL, AV_FLIGHT_EVENT, 1, &r))
		EXPECT(r.number == n->qp[0]->qp_num && r.event == IBV_EVENT_QP_FATAL,
		       "QP %u event %d", r.number, r.event);
	disconnect_own();

	row("event: receive CQ full");
	connect_own(16, 1);
	post_recvs(2);
	recorder_begin();
	wr = plain_send(&sge, 8);
	post(n->qp[0], &wr);
	post(n->qp[0], &wr);
	if (find("receive CQ full", AV_CHECK_RECV_CQ_FULL, AV_FLIGHT_RECEIVE, 1, &r))
		EXPECT(r.number == n->qp[2]->qp_num && r.event == IBV_EVENT_QP_FATAL,
		       "QP %u event %d", r.number, r.event);
	if (find("receive CQ full", AV_CHECK_RECV_CQ_FULL, AV_FLIGHT_REQUEST, 1, &r))
		EXPECT(r.status == IBV_WC_REM_OP_ERR, "status %u", r.status);
	disconnect_own();
}

static unsigned int flushes(const struct ibv_qp *qp)
{
	const struct seed seed = {"flush", AV_CHECK_FLUSHED, AV_FLIGHT_FLUSH, ANY, ANY};

	return recorder_count(&seed, qp->qp_num);
}

/* Of a queue pair that fails, and not of one that the program itself moves to the error state. */
static void seed_flush(void)
{
	struct av_flight_record r;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	row("flush");
	connect_own(16, 16);
	post_recvs(5);
	recorder_begin();
	wr = plain_send(&sge, 8);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.rkey = n->info.key[KEY_WRONG];
	post(n->qp[0], &wr);
	if (find("receives flushed", AV_CHECK_FLUSHED, AV_FLIGHT_FLUSH, ANY, &r))
		EXPECT(r.count == 5 && r.number == n->qp[2]->qp_num &&
			       r.status == IBV_WC_WR_FLUSH_ERR,
		       "%u requests of QP %u", r.count, r.number);
	wr = plain_send(&sge, 8);
	recorder_begin();
	post(n->qp[0], &wr);
	if (find("send flushed", AV_CHECK_FLUSHED, AV_FLIGHT_FLUSH, ANY, &r))
		EXPECT(r.number == n->qp[0]->qp_num && r.count == 1, "%u requests of QP %u",
		       r.count, r.number);
	disconnect_own();

	row("flush that the program asks for");
	connect_own(16, 16);
	post_recvs(5);
	recorder_begin();
	EXPECT(node_set_state(n, 2, IBV_QPS_ERR) == 0, "to ERR");
	EXPECT(flushes(n->qp[2]) == 0, "it is told");
	disconnect_own();
}

/* --- other services -------------------------------------------------------------- */

static struct ibv_qp *create(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type,
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2},
	};
	struct ibv_qp *qp = ibv_create_qp(n->pd, &init);

	if (!qp)
		DIE("ibv_create_qp: %d", errno);
	return qp;
}

static void move_to(struct ibv_qp *qp, struct ibv_qp_attr *attr, enum ibv_qp_state state, int mask)
{
	int err;

	attr->qp_state = state;
	err = ibv_modify_qp(qp, attr, IBV_QP_STATE | mask);
	if (err)
		DIE("to state %d: %d", state, err);
}

/* To RTS; @dest: the other queue pair, not used by UD */
static void bring_up(struct ibv_qp *qp, uint32_t dest)
{
	const bool rc = qp->qp_type == IBV_QPT_RC, ud = qp->qp_type == IBV_QPT_UD;
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.timeout = 8,
		.retry_cnt = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = n->info.gid, .hop_limit = 1}},
	};

	move_to(qp, &attr, IBV_QPS_INIT,
		IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	move_to(qp, &attr, IBV_QPS_RTR,
		ud ? 0
		   : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				(rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	move_to(qp, &attr, IBV_QPS_RTS,
		IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						 IBV_QP_MAX_QP_RD_ATOMIC
				    : 0));
}

static void expect_request(const char *name, enum av_check check, struct ibv_qp *qp,
			   struct ibv_send_wr *wr, enum ibv_wc_status status, uint64_t limit)
{
	struct av_flight_record r;
	struct ibv_wc wc = {0};

	row("service: %s", name);
	recorder_begin();
	post(qp, wr);
	EXPECT(node_poll(n, 0, 1, PATIENCE, &wc) == 1 && wc.status == status, "status %d",
	       wc.status);
	if (find(name, check, AV_FLIGHT_REQUEST, limit, &r))
		EXPECT(r.status == status && r.number == qp->qp_num, "status %u QP %u", r.status,
		       r.number);
}

static void seed_services(void)
{
	struct ibv_qp *uc = create(IBV_QPT_UC), *ud = create(IBV_QPT_UD), *rc = create(IBV_QPT_RC);
	struct ibv_ah_attr to = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = n->info.gid, .hop_limit = 1}};
	struct ibv_ah *ah = ibv_create_ah(n->pd, &to);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	bring_up(uc, uc->qp_num);
	bring_up(ud, 0);
	bring_up(rc, uc->qp_num);
	wr = plain_send(&sge, 8);
	expect_request("RC to a UC queue pair", AV_CHECK_PEER_TYPE, rc, &wr, IBV_WC_RETRY_EXC_ERR,
		       IBV_QPT_UC);
	wr.opcode = IBV_WR_RDMA_READ;
	expect_request("READ on UC", AV_CHECK_REQUEST_SERVICE, uc, &wr, IBV_WC_LOC_QP_OP_ERR,
		       IBV_QPT_UC);
	wr = plain_send(&sge, 100000);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = ud->qp_num;
	expect_request("datagram above the MTU", AV_CHECK_REQUEST_DATAGRAM, ud, &wr,
		       IBV_WC_LOC_LEN_ERR, ANY);
	EXPECT(!ibv_destroy_qp(uc) && !ibv_destroy_qp(ud) && !ibv_destroy_qp(rc) &&
		       !ibv_destroy_ah(ah),
	       "end");
}

/* An XRC request for a shared receive queue that there is not. */
static void seed_xrc(void)
{
	struct ibv_xrcd *xrcd = node_open_xrcd(n->ctx);
	struct ibv_qp_init_attr_ex recv = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct ibv_qp_init_attr_ex send = {.qp_type = IBV_QPT_XRC_SEND,
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = n->pd,
					   .send_cq = n->cq[0],
					   .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	struct ibv_qp *from = ibv_create_qp_ex(n->ctx, &send),
		      *to = ibv_create_qp_ex(n->ctx, &recv);
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.timeout = 8,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = n->info.gid, .hop_limit = 1}},
	};
	const int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	row("service: XRC");
	if (!from || !to)
		DIE("XRC queue pairs");
	for (int i = 0; i < 2; i++) {
		struct ibv_qp *qp = i ? from : to;

		attr.dest_qp_num = i ? to->qp_num : from->qp_num;
		move_to(qp, &attr, IBV_QPS_INIT,
			IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
		move_to(qp, &attr, IBV_QPS_RTR,
			path | (i ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	}
	move_to(from, &attr, IBV_QPS_RTS,
		IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC);
	wr = plain_send(&sge, 8);
	wr.qp_type.xrc.remote_srqn = 0x4242;
	expect_request("no such XRC SRQ", AV_CHECK_RESPONDER_SRQ, from, &wr, IBV_WC_REM_INV_REQ_ERR,
		       ANY);
	EXPECT(!ibv_destroy_qp(from) && !ibv_destroy_qp(to), "ibv_destroy_qp");
	while (node_async(n, 0).any)
		;
	EXPECT(ibv_close_xrcd(xrcd) == 0, "ibv_close_xrcd");
}

/* --- devices --------------------------------------------------------------------- */

static void device_event(const char *what)
{
	if (tool_run(ANYVERBS_TOOL, "event", "any0", what, NULL))
		DIE("anyverbs event %s", what);
}

static void seed_device(void)
{
	struct av_flight_record r;

	row("event: port");
	recorder_begin();
	device_event("port-err");
	if (find("port down", AV_CHECK_PORT_DOWN, AV_FLIGHT_EVENT, ANY, &r))
		EXPECT(r.object == AV_OBJECT_PORT && r.number == 1 && r.event == IBV_EVENT_PORT_ERR,
		       "event %d", r.event);
	device_event("port-active");
	row("event: device");
	recorder_begin();
	device_event("device-fatal");
	if (find("device failed", AV_CHECK_FATAL, AV_FLIGHT_EVENT, ANY, &r))
		EXPECT(r.event == IBV_EVENT_DEVICE_FATAL, "event %d", r.event);
	recorder_begin();
	EXPECT_NULL(ibv_reg_mr(n->pd, n->arena, 64, 0), EIO);
	if (find("verb of a failed device", AV_CHECK_DEVICE_FAILED, AV_FLIGHT_REFUSAL, ANY, &r))
		EXPECT(r.error == EIO && r.pid == getpid(), "error %d", r.error);
}

void seed_events(void)
{
	n = a.node;
	seed_overruns();
	seed_flush();
	seed_services();
	seed_xrc();
	seed_device();
}
