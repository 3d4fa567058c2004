/* SPDX-License-Identifier: MIT */
/* Rows of ../layout.c: what <infiniband/exp/srq.h> declares. */

OFFSET(ibv_exp_create_srq_attr, base, 0);
OFFSET(ibv_exp_create_srq_attr, srq_type, 24);
OFFSET(ibv_exp_create_srq_attr, pd, 32);
OFFSET(ibv_exp_create_srq_attr, comp_mask, 40);
OFFSET(ibv_exp_create_srq_attr, cq, 48);
OFFSET(ibv_exp_create_srq_attr, xrcd, 56);
OFFSET(ibv_exp_create_srq_attr, tm_cap.max_num_tags, 64);
OFFSET(ibv_exp_create_srq_attr, tm_cap.max_ops, 68);
OFFSET(ibv_exp_create_srq_attr, dc_offload_params, 72);
OFFSET(ibv_exp_create_srq_attr, mp_wr.log_num_of_strides, 80);
OFFSET(ibv_exp_create_srq_attr, mp_wr.log_stride_size, 81);
SIZE(ibv_exp_create_srq_attr, 88);
OFFSET(ibv_exp_srq_dc_offload_params, pkey_index, 0);
OFFSET(ibv_exp_srq_dc_offload_params, path_mtu, 4);
OFFSET(ibv_exp_srq_dc_offload_params, rnr_retry, 13);
OFFSET(ibv_exp_srq_dc_offload_params, dct_key, 16);
OFFSET(ibv_exp_srq_dc_offload_params, comp_mask, 28);
SIZE(ibv_exp_srq_dc_offload_params, 32);
VALUE(IBV_EXP_SRQT_BASIC, 0);
VALUE(IBV_EXP_SRQT_XRC, 1);
VALUE(IBV_EXP_SRQT_TAG_MATCHING, 32);
VALUE(IBV_EXP_CREATE_SRQ_CQ, 1);
VALUE(IBV_EXP_CREATE_SRQ_XRCD, 2);
VALUE(IBV_EXP_CREATE_SRQ_TM, 4);
VALUE(IBV_EXP_CREATE_SRQ_DC_OFFLOAD_PARAMS, 8);
VALUE(IBV_EXP_CREATE_SRQ_MP_WR, 16);
VALUE(IBV_EXP_CREATE_SRQ_RESERVED, 32);
