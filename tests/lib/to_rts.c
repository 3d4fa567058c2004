/* SPDX-License-Identifier: MIT */
#include "lib/to_rts.h"

#define PATH	 (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define ANSWERS	 (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define REQUESTS (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

/* The attributes that not all service types need. */
static const struct {
	int init, rtr, rts;
} masks[] = {
	[IBV_QPT_RC] = {IBV_QP_ACCESS_FLAGS, PATH | ANSWERS, REQUESTS},
	[IBV_QPT_UC] = {IBV_QP_ACCESS_FLAGS, PATH, 0},
	[IBV_QPT_UD] = {IBV_QP_QKEY, 0, 0},
	[IBV_QPT_XRC_SEND] = {IBV_QP_ACCESS_FLAGS, PATH, REQUESTS},
	[IBV_QPT_XRC_RECV] = {IBV_QP_ACCESS_FLAGS, PATH | ANSWERS, IBV_QP_TIMEOUT},
};

int connect_mask(enum ibv_qp_type type, enum ibv_qp_state to)
{
	if (to == IBV_QPS_INIT)
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | masks[type].init;
	if (to == IBV_QPS_RTR)
		return IBV_QP_STATE | masks[type].rtr;
	return IBV_QP_STATE | IBV_QP_SQ_PSN | masks[type].rts;
}

struct ibv_qp_attr connect_attr(uint32_t dest, const union ibv_gid *gid)
{
	return (struct ibv_qp_attr){
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 64}},
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 17, /* 0.5 s, and 4 s with all retries: a busy peer answers */
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
}

int connect_step(struct ibv_qp *qp, struct ibv_qp_attr attr, enum ibv_qp_state to)
{
	attr.qp_state = to;
	return ibv_modify_qp(qp, &attr, connect_mask(qp->qp_type, to));
}

int connect_qp(struct ibv_qp *qp, struct ibv_qp_attr attr)
{
	int ret = connect_step(qp, attr, IBV_QPS_INIT);

	if (ret == 0)
		ret = connect_step(qp, attr, IBV_QPS_RTR);
	return ret ? ret : connect_step(qp, attr, IBV_QPS_RTS);
}
