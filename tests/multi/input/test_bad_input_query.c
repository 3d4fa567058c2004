/* SPDX-License-Identifier: MIT */
/* What can be asked for and what is refused: events, tables of the port, attributes of a queue
 * pair. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>

#include "bad_input_fixture.h"

static void event_rows(void)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	row("get_cq_event: nothing to read, non-blocking");
	fcntl(n->channel->fd, F_SETFL, fcntl(n->channel->fd, F_GETFL) | O_NONBLOCK);
	EXPECT_MINUS_ONE(ibv_get_cq_event(n->channel, &cq, &context), EAGAIN);
	row("get_async_event: nothing to read, non-blocking");
	EXPECT_MINUS_ONE(ibv_get_async_event(n->ctx, &event), EAGAIN);
	row("poll_cq: no entries wanted, and none there");
	EXPECT(ibv_poll_cq(n->cq[0], 0, &wc) == 0 && ibv_poll_cq(n->cq[0], 1, &wc) == 0, "not 0");
}

static void gid_rows(void)
{
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	union ibv_gid gid;

	ibv_query_port(n->ctx, 1, &port);
	row("query_gid: bounds of index and port");
	EXPECT_MINUS_ONE(ibv_query_gid(n->ctx, 1, -1, &gid), EINVAL);
	EXPECT_MINUS_ONE(ibv_query_gid(n->ctx, 1, port.gid_tbl_len, &gid), EINVAL);
	EXPECT_MINUS_ONE(ibv_query_gid(n->ctx, 0, 0, &gid), EINVAL);
	EXPECT_MINUS_ONE(ibv_query_gid(n->ctx, 2, 0, &gid), EINVAL);
	row("query_gid: an empty row is all zeros");
	EXPECT(ibv_query_gid(n->ctx, 1, port.gid_tbl_len - 1, &gid) == 0 &&
		       !gid.global.interface_id && !gid.global.subnet_prefix,
	       "it is not");
	row("query_gid_ex: bounds, flags, an empty row");
	EXPECT_RET(ibv_query_gid_ex(n->ctx, 1, (uint32_t)port.gid_tbl_len, &entry, 0), EINVAL);
	EXPECT_RET(ibv_query_gid_ex(n->ctx, 2, 0, &entry, 0), EINVAL);
	EXPECT_RET(ibv_query_gid_ex(n->ctx, 1, 0, &entry, 1), EINVAL);
	EXPECT_RET(ibv_query_gid_ex(n->ctx, 1, (uint32_t)port.gid_tbl_len - 1, &entry, 0), ENODATA);
	EXPECT_RET(ibv_query_gid_ex(n->ctx, 1, 0, &entry, 0), 0);
	row("query_gid_table: no room, bad flags");
	EXPECT(ibv_query_gid_table(n->ctx, &entry, 0, 0) == -EINVAL, "no room");
	EXPECT(ibv_query_gid_table(n->ctx, &entry, 1, 1) == -EINVAL, "flags");
}

static void query_rows(void)
{
	struct ibv_query_device_ex_input input = {.comp_mask = 1};
	struct ibv_device_attr_ex ex;
	struct ibv_port_attr port;
	__be16 pkey;

	row("query_pkey: bounds of index and port");
	EXPECT_MINUS_ONE(ibv_query_pkey(n->ctx, 1, -1, &pkey), EINVAL);
	EXPECT_MINUS_ONE(ibv_query_pkey(n->ctx, 1, 1, &pkey), EINVAL);
	EXPECT_MINUS_ONE(ibv_query_pkey(n->ctx, 0, 0, &pkey), EINVAL);
	EXPECT_MINUS_ONE(ibv_query_pkey(n->ctx, 2, 0, &pkey), EINVAL);
	EXPECT(ibv_query_pkey(n->ctx, 1, 0, &pkey) == 0 && pkey == htons(0xffff),
	       "the default P_Key");
	EXPECT(ibv_get_pkey_index(n->ctx, 1, htons(0xffff)) == 0, "its index");
	EXPECT(ibv_get_pkey_index(n->ctx, 1, htons(0x1234)) == -1, "an unknown one's");
	row("query_port: bounds of the port");
	EXPECT_RET(ibv_query_port(n->ctx, 0, &port), EINVAL);
	EXPECT_RET(ibv_query_port(n->ctx, 2, &port), EINVAL);
	row("query_device_ex: unknown input");
	EXPECT(ibv_query_device_ex(n->ctx, &input, &ex) == EINVAL,
	       "the inline verb refuses it without errno");
}

/* --- ibv_query_qp ---------------------------------------------------------------- */

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK                                                                        \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                               \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static const int full_mask[] = {
	[IBV_QPS_INIT] = INIT_MASK, [IBV_QPS_RTR] = RTR_MASK, [IBV_QPS_RTS] = RTS_MASK};

static struct ibv_qp_attr good_attr(enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {
		.qp_state = to,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = n->qp[0]->qp_num,
		.rq_psn = 0x123456,
		.sq_psn = 0x123456,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = here.info.gid, .hop_limit = 64}},
	};

	return attr;
}

static void connect_with_itself(void)
{
	struct node_qp_spec spec = {.cap = {4, 4, 2, 2, 64}, .recv_cq = 1};

	if (node_create_qp(n, 0, &spec))
		DIE("ibv_create_qp");
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr attr = good_attr(s);

		EXPECT_RET(ibv_modify_qp(n->qp[0], &attr, full_mask[s]), 0);
	}
}

static void query_qp_rows(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	row("query_qp: everything reads back as set");
	connect_with_itself();
	EXPECT_RET(ibv_query_qp(n->qp[0], &attr, -1, &init), 0);
	EXPECT(attr.qp_state == IBV_QPS_RTS && attr.cur_qp_state == IBV_QPS_RTS, "state");
	EXPECT(attr.sq_psn == 0x123456 && attr.rq_psn == 0x123456, "PSNs 0x%x 0x%x", attr.sq_psn,
	       attr.rq_psn);
	EXPECT(attr.path_mtu == IBV_MTU_1024 && attr.dest_qp_num == n->qp[0]->qp_num &&
		       attr.qp_access_flags == (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
	       "MTU, destination, access");
	EXPECT(attr.timeout == 14 && attr.retry_cnt == 7 && attr.rnr_retry == 7 &&
		       attr.min_rnr_timer == 12,
	       "timers");
	EXPECT(attr.max_rd_atomic == 1 && attr.max_dest_rd_atomic == 1 && attr.port_num == 1,
	       "resources, port");
	EXPECT(!memcmp(&attr.ah_attr.grh.dgid, &here.info.gid, 16) && attr.ah_attr.is_global,
	       "address");
	EXPECT(init.qp_type == IBV_QPT_RC && init.send_cq == n->cq[0] && init.recv_cq == n->cq[1] &&
		       init.cap.max_send_wr == 4 && attr.cap.max_recv_wr == 4,
	       "creation attributes");
	row("destroy_qp: in RTS");
	EXPECT(node_destroy_qp(n, 0) == 0, "ibv_destroy_qp");
}

static void run(void)
{
	event_rows();
	gid_rows();
	query_rows();
	query_qp_rows();
}

int main(int argc, char **argv)
{
	return bad_input_test(argc, argv, run);
}
