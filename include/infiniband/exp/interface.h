/* SPDX-License-Identifier: MIT */
/* Families of verbs for one queue pair or completion queue: ibv_exp_query_intf(). anyverbs has
 * none, the verbs answer ENOSYS. */
#ifndef INFINIBAND_EXP_INTERFACE_H
#define INFINIBAND_EXP_INTERFACE_H

#include <infiniband/exp/base.h>
#include <infiniband/verbs.h>

enum ibv_exp_query_intf_flags {
	IBV_EXP_QUERY_INTF_FLAG_ENABLE_CHECKS = 1 << 0,
};

enum ibv_exp_intf_family {
	IBV_EXP_INTF_QP_BURST = 0,
	IBV_EXP_INTF_CQ = 1,
	IBV_EXP_INTF_WQ = 2,
	IBV_EXP_INTF_RESERVED = 3,
};

enum ibv_exp_experimental_intf_family {
	IBV_EXP_EXPERIMENTAL_INTF_RESERVED = 0,
};

/* What the number of a family means. */
enum ibv_exp_intf_scope {
	IBV_EXP_INTF_GLOBAL = 0, /* enum ibv_exp_intf_family */
	IBV_EXP_INTF_EXPERIMENTAL = 1,
	IBV_EXP_INTF_VENDOR = 2,
	IBV_EXP_INTF_VENDOR_EXPERIMENTAL = 3,
};

enum ibv_exp_query_intf_status {
	IBV_EXP_INTF_STAT_OK = 0,
	IBV_EXP_INTF_STAT_VENDOR_NOT_SUPPORTED = 1,
	IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED = 2,
	IBV_EXP_INTF_STAT_VERSION_NOT_SUPPORTED = 3,
	IBV_EXP_INTF_STAT_INVAL_PARARM = 4, /* so it is spelled */
	IBV_EXP_INTF_STAT_INVAL_OBJ_STATE = 5,
	IBV_EXP_INTF_STAT_INVAL_OBJ = 6,
	IBV_EXP_INTF_STAT_FLAGS_NOT_SUPPORTED = 7,
	IBV_EXP_INTF_STAT_FAMILY_FLAGS_NOT_SUPPORTED = 8,
};

enum ibv_exp_query_intf_comp_mask {
	IBV_EXP_QUERY_INTF_RESERVED = 1 << 0,
};

struct ibv_exp_query_intf_params {
	uint32_t flags; /* enum ibv_exp_query_intf_flags */
	enum ibv_exp_intf_scope intf_scope;
	uint64_t vendor_guid;
	uint32_t intf;
	uint32_t intf_version;
	void *obj;
	void *family_params;
	uint32_t family_flags;
	uint32_t comp_mask;
};

enum ibv_exp_release_intf_comp_mask {
	IBV_EXP_RELEASE_INTF_RESERVED = 1 << 0,
};

struct ibv_exp_release_intf_params {
	uint32_t comp_mask;
};

/* --- family QP_BURST ------------------------------------------------------------- */

enum ibv_exp_qp_burst_family_create_flags {
	IBV_EXP_QP_BURST_CREATE_DISABLE_ETH_LOOPBACK = 1 << 0,
	IBV_EXP_QP_BURST_CREATE_ENABLE_MULTI_PACKET_SEND_WR = 1 << 1,
};

enum ibv_exp_qp_burst_family_flags {
	IBV_EXP_QP_BURST_SIGNALED = 1 << 0,
	IBV_EXP_QP_BURST_SOLICITED = 1 << 1,
	IBV_EXP_QP_BURST_IP_CSUM = 1 << 2,
	IBV_EXP_QP_BURST_TUNNEL = 1 << 3,
	IBV_EXP_QP_BURST_FENCE = 1 << 4,
};

struct ibv_exp_qp_burst_family {
	int (*send_pending)(struct ibv_qp *qp, uint64_t addr, uint32_t length, uint32_t lkey,
			    uint32_t flags);
	int (*send_pending_inline)(struct ibv_qp *qp, void *addr, uint32_t length, uint32_t flags);
	int (*send_pending_sg_list)(struct ibv_qp *qp, struct ibv_sge *sg_list, uint32_t num,
				    uint32_t flags);
	int (*send_flush)(struct ibv_qp *qp);
	int (*send_burst)(struct ibv_qp *qp, struct ibv_sge *msg_list, uint32_t num,
			  uint32_t flags);
	int (*recv_burst)(struct ibv_qp *qp, struct ibv_sge *msg_list, uint32_t num);
};

/* --- family CQ ------------------------------------------------------------------- */

enum ibv_exp_cq_family_flags {
	IBV_EXP_CQ_RX_IP_CSUM_OK = 1 << 0,
	IBV_EXP_CQ_RX_TCP_UDP_CSUM_OK = 1 << 1,
	IBV_EXP_CQ_RX_IPV4_PACKET = 1 << 2,
	IBV_EXP_CQ_RX_IPV6_PACKET = 1 << 3,
	IBV_EXP_CQ_RX_TUNNEL_PACKET = 1 << 4,
	IBV_EXP_CQ_RX_OUTER_IP_CSUM_OK = 1 << 5,
	IBV_EXP_CQ_RX_OUTER_TCP_UDP_CSUM_OK = 1 << 6,
	IBV_EXP_CQ_RX_OUTER_IPV4_PACKET = 1 << 7,
	IBV_EXP_CQ_RX_OUTER_IPV6_PACKET = 1 << 8,
};

struct ibv_exp_cq_family {
	int32_t (*poll_cnt)(struct ibv_cq *cq, uint32_t max);
	int32_t (*poll_length)(struct ibv_cq *cq, void *buf, uint32_t *inl);
	int32_t (*poll_length_flags)(struct ibv_cq *cq, void *buf, uint32_t *inl, uint32_t *flags);
};

IBV_EXP_BEGIN_DECLS_
void *ibv_exp_query_intf(struct ibv_context *context, struct ibv_exp_query_intf_params *params,
			 enum ibv_exp_query_intf_status *status);
int ibv_exp_release_intf(struct ibv_context *context, void *intf,
			 struct ibv_exp_release_intf_params *params);
IBV_EXP_END_DECLS_

#endif
