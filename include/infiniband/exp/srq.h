/* SPDX-License-Identifier: MIT */
/* Shared receive queues, basic and of XRC. They end with ibv_destroy_srq(). */
#ifndef INFINIBAND_EXP_SRQ_H
#define INFINIBAND_EXP_SRQ_H

#include <infiniband/exp/base.h>
#include <infiniband/verbs.h>

enum ibv_exp_srq_type {
	IBV_EXP_SRQT_BASIC = 0,
	IBV_EXP_SRQT_XRC = 1,
	IBV_EXP_SRQT_TAG_MATCHING = 1 << 5, /* ENOTSUP */
};

enum ibv_exp_create_srq_comp_mask {
	IBV_EXP_CREATE_SRQ_CQ = 1 << 0,
	IBV_EXP_CREATE_SRQ_XRCD = 1 << 1,
	IBV_EXP_CREATE_SRQ_TM = 1 << 2,
	IBV_EXP_CREATE_SRQ_DC_OFFLOAD_PARAMS = 1 << 3,
	IBV_EXP_CREATE_SRQ_MP_WR = 1 << 4,
	IBV_EXP_CREATE_SRQ_RESERVED = 1 << 5,
};

struct ibv_exp_tm_cap {
	uint32_t max_num_tags;
	uint32_t max_ops;
};

struct ibv_exp_mp_wr {
	uint8_t log_num_of_strides;
	uint8_t log_stride_size;
};

struct ibv_exp_srq_dc_offload_params {
	uint16_t pkey_index;
	enum ibv_mtu path_mtu;
	uint8_t sl;
	uint8_t max_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint64_t dct_key;
	uint32_t ooo_caps;
	uint32_t comp_mask;
};

struct ibv_exp_create_srq_attr {
	struct ibv_srq_init_attr base; /* out: base.attr.max_wr */
	enum ibv_exp_srq_type srq_type;
	struct ibv_pd *pd;
	uint32_t comp_mask;
	struct ibv_cq *cq; /* a basic queue has none: not looked at */
	struct ibv_xrcd *xrcd;
	struct ibv_exp_tm_cap tm_cap;
	struct ibv_exp_srq_dc_offload_params *dc_offload_params;
	struct ibv_exp_mp_wr mp_wr;
};

IBV_EXP_BEGIN_DECLS_
struct ibv_srq *ibv_exp_create_srq(struct ibv_context *context,
				   struct ibv_exp_create_srq_attr *attr);
IBV_EXP_END_DECLS_

#endif
