/* SPDX-License-Identifier: MIT */
/* User-mode memory registration: keys made of other keys by IBV_EXP_WR_UMR_FILL. They end with
 * ibv_dereg_mr(). */
#ifndef INFINIBAND_EXP_UMR_H
#define INFINIBAND_EXP_UMR_H

#include <infiniband/exp/base.h>
#include <infiniband/verbs.h>

enum ibv_exp_mr_create_flags {
	IBV_EXP_MR_SIGNATURE_EN = 1 << 0,
	IBV_EXP_MR_INDIRECT_KLMS = 1 << 1,
	IBV_EXP_MR_FIXED_BUFFER_SIZE = 1 << 2,
};

struct ibv_exp_mr_init_attr {
	uint32_t max_klm_list_size;
	uint32_t create_flags;
	uint64_t exp_access_flags;
};

enum ibv_exp_create_mr_in_comp_mask {
	IBV_EXP_CREATE_MR_IN_RESERVED = 1 << 0,
};

struct ibv_exp_create_mr_in {
	struct ibv_pd *pd;
	struct ibv_exp_mr_init_attr attr;
	uint32_t comp_mask;
};

enum ibv_exp_mkey_attr_comp_mask {
	IBV_EXP_MKEY_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_mkey_attr {
	uint32_t max_klm_list_size; /* out */
	uint32_t comp_mask;
};

enum ibv_exp_mkey_list_type {
	IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR = 0,
};

enum ibv_exp_alloc_mkey_list_comp_mask {
	IBV_EXP_MKEY_LIST_CONTAINER_RESERVED = 1 << 0,
};

struct ibv_exp_mkey_list_container {
	uint32_t max_klm_list_size;
	struct ibv_context *context;
};

struct ibv_exp_mkey_list_container_attr {
	struct ibv_pd *pd;
	uint32_t mkey_list_type;
	uint32_t max_klm_list_size;
	uint32_t comp_mask;
};

struct ibv_exp_mem_region {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t length;
};

struct ibv_exp_mem_repeat_block {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t *byte_count; /* arrays of stride_dim elements */
	size_t *stride;
};

enum ibv_exp_umr_wr_type {
	IBV_EXP_UMR_MR_LIST = 0,
	IBV_EXP_UMR_REPEAT = 1,
	IBV_EXP_UMR_MR_LIST_FIXED_SIZE = 2,
};

IBV_EXP_BEGIN_DECLS_
struct ibv_mr *ibv_exp_create_mr(struct ibv_exp_create_mr_in *in);
int ibv_exp_query_mkey(struct ibv_mr *mr, struct ibv_exp_mkey_attr *attr);
struct ibv_exp_mkey_list_container *
ibv_exp_alloc_mkey_list_memory(struct ibv_exp_mkey_list_container_attr *attr);
int ibv_exp_dealloc_mkey_list_memory(struct ibv_exp_mkey_list_container *mem);
IBV_EXP_END_DECLS_

#endif
