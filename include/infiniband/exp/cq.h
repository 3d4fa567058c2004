/* SPDX-License-Identifier: MIT */
/* Completion queues and completions. They end with ibv_destroy_cq(). */
#ifndef INFINIBAND_EXP_CQ_H
#define INFINIBAND_EXP_CQ_H

#include <infiniband/exp/base.h>
#include <infiniband/exp/domain.h>
#include <infiniband/verbs.h>

/* --- creating and modifying ------------------------------------------------------ */

enum ibv_exp_cq_create_flags {
	IBV_EXP_CQ_CREATE_CROSS_CHANNEL = 1 << 0,
	IBV_EXP_CQ_TIMESTAMP = 1 << 1,
	IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME = 1 << 2,
	IBV_EXP_CQ_COMPRESSED_CQE = 1 << 3,
	IBV_EXP_CQ_AS_NOTIFY = 1 << 4,
};
enum {
	IBV_EXP_CQ_CREATE_FLAGS_MASK = (1 << 5) - 1,
};

enum ibv_exp_cq_init_attr_mask {
	IBV_EXP_CQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_EXP_CQ_INIT_ATTR_RESERVED = 1 << 1, /* not the bound: that is RESERVED1 */
	IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN = 1 << 1,
	IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT = 1 << 2,
	IBV_EXP_CQ_INIT_ATTR_RESERVED1 = 1 << 3,
};

struct ibv_exp_cq_init_attr {
	uint32_t comp_mask;
	uint32_t flags; /* enum ibv_exp_cq_create_flags */
	struct ibv_exp_res_domain *res_domain;
	struct ibv_exp_peer_direct_attr *peer_direct_attrs;
};

enum ibv_exp_cq_attr_mask {
	IBV_EXP_CQ_MODERATION = 1 << 0,
	IBV_EXP_CQ_CAP_FLAGS = 1 << 1,
};

enum ibv_exp_cq_cap_flags {
	IBV_EXP_CQ_IGNORE_OVERRUN = 1 << 0,
	IBV_EXP_CQ_CAP_MASK = IBV_EXP_CQ_IGNORE_OVERRUN,
};

enum ibv_exp_cq_attr_comp_mask {
	IBV_EXP_CQ_ATTR_MODERATION = 1 << 0,
	IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS = 1 << 1,
	IBV_EXP_CQ_ATTR_RESERVED = 1 << 2,
};

struct ibv_exp_cq_attr {
	uint32_t comp_mask;
	struct {
		uint16_t cq_count;
		uint16_t cq_period;
	} moderation;
	uint32_t cq_cap_flags;
};

/* --- polling --------------------------------------------------------------------- */

enum ibv_exp_wc_opcode {
	IBV_EXP_WC_SEND = 0,
	IBV_EXP_WC_RDMA_WRITE = 1,
	IBV_EXP_WC_RDMA_READ = 2,
	IBV_EXP_WC_COMP_SWAP = 3,
	IBV_EXP_WC_FETCH_ADD = 4,
	IBV_EXP_WC_BIND_MW = 5,
	IBV_EXP_WC_LOCAL_INV = 6,
	IBV_EXP_WC_MASKED_COMP_SWAP = 9,
	IBV_EXP_WC_MASKED_FETCH_ADD = 10,
	IBV_EXP_WC_TSO = 11,
	IBV_EXP_WC_RECV = 128,
	IBV_EXP_WC_RECV_RDMA_WITH_IMM = 129,
	IBV_EXP_WC_TM_ADD = 192,
	IBV_EXP_WC_TM_DEL = 193,
	IBV_EXP_WC_TM_SYNC = 194,
	IBV_EXP_WC_TM_RECV = 195,
	IBV_EXP_WC_TM_NO_TAG = 196,
	IBV_EXP_WC_RECV_NOP = 197,
	IBV_EXP_WC_UMR = 0x100,
};

__extension__ enum ibv_exp_wc_flags {
	IBV_EXP_WC_GRH = 1 << 0,
	IBV_EXP_WC_WITH_IMM = 1 << 1,
	IBV_EXP_WC_WITH_INV = 1 << 3,

	IBV_EXP_WC_WITH_SL = IBV_EXP_START_FLAG << 4,
	IBV_EXP_WC_WITH_SLID = IBV_EXP_START_FLAG << 5,
	IBV_EXP_WC_WITH_TIMESTAMP = IBV_EXP_START_FLAG << 6,
	IBV_EXP_WC_QP = IBV_EXP_START_FLAG << 7,
	IBV_EXP_WC_SRQ = IBV_EXP_START_FLAG << 8,
	IBV_EXP_WC_DCT = IBV_EXP_START_FLAG << 9,
	IBV_EXP_WC_RX_IP_CSUM_OK = IBV_EXP_START_FLAG << 10,
	IBV_EXP_WC_RX_TCP_UDP_CSUM_OK = IBV_EXP_START_FLAG << 11,
	IBV_EXP_WC_RX_IPV4_PACKET = IBV_EXP_START_FLAG << 12,
	IBV_EXP_WC_RX_IPV6_PACKET = IBV_EXP_START_FLAG << 13,
	IBV_EXP_WC_RX_TUNNEL_PACKET = IBV_EXP_START_FLAG << 14,
	IBV_EXP_WC_RX_OUTER_IP_CSUM_OK = IBV_EXP_START_FLAG << 15,
	IBV_EXP_WC_RX_OUTER_TCP_UDP_CSUM_OK = IBV_EXP_START_FLAG << 16,
	IBV_EXP_WC_RX_OUTER_IPV4_PACKET = IBV_EXP_START_FLAG << 17,
	IBV_EXP_WC_RX_OUTER_IPV6_PACKET = IBV_EXP_START_FLAG << 18,
	IBV_EXP_WC_TM_SYNC_REQ = IBV_EXP_START_FLAG << 19,
	IBV_EXP_WC_TM_DEL_FAILED = IBV_EXP_START_FLAG << 20,
	IBV_EXP_WC_TM_MATCH = IBV_EXP_START_FLAG << 21,
	IBV_EXP_WC_TM_DATA_VALID = IBV_EXP_START_FLAG << 22,
	IBV_EXP_WC_TM_RNDV_INCOMPLETE = IBV_EXP_START_FLAG << 23,
	IBV_EXP_WC_MP_WR_MORE_IN_MSG = IBV_EXP_START_FLAG << 24,
	IBV_EXP_WC_MP_WR_CONSUMED = IBV_EXP_START_FLAG << 25,
};

struct ibv_exp_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_exp_wc_opcode exp_opcode;
	uint32_t vendor_err;
	__extension__ union {
		uint32_t byte_len;
		__extension__ struct {
			uint16_t strides_offset;
			uint16_t byte_len;
		} mp_wr;
	};
	uint32_t imm_data; /* network order, or the rkey that was invalidated */
	uint32_t qp_num;
	uint32_t src_qp;
	int reserved;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
	uint64_t timestamp;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_exp_dct *dct;
	uint64_t exp_wc_flags; /* enum ibv_exp_wc_flags */
	struct {
		uint64_t tag;
		uint32_t priv;
	} tm_info;
};

IBV_EXP_BEGIN_DECLS_
struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				 struct ibv_comp_channel *channel, int comp_vector,
				 struct ibv_exp_cq_init_attr *attr);
int ibv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *cq_attr, int cq_attr_mask);
/* wc_size: sizeof(struct ibv_exp_wc) as the caller was compiled with. */
int ibv_exp_poll_cq(struct ibv_cq *ib_cq, int num_entries, struct ibv_exp_wc *wc, uint32_t wc_size);
IBV_EXP_END_DECLS_

#endif
