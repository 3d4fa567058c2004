/* SPDX-License-Identifier: MIT */
/* Device memory. A region on it is made by ibv_exp_reg_mr() with IBV_EXP_REG_MR_DM. */
#ifndef INFINIBAND_EXP_DM_H
#define INFINIBAND_EXP_DM_H

#include <infiniband/exp/base.h>
#include <infiniband/verbs.h>

enum ibv_exp_alloc_dm_attr_comp_mask {
	IBV_EXP_ALLOC_DM_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_alloc_dm_attr {
	size_t length;
	uint32_t comp_mask;
};

enum ibv_exp_dm_comp_mask {
	IBV_EXP_DM_COMP_MASK_RESERVED = 1 << 0,
};

struct ibv_exp_dm {
	struct ibv_context *context;
	uint32_t handle;
	uint32_t comp_mask;
};

enum ibv_exp_dm_memcpy_dir {
	IBV_EXP_DM_CPY_TO_DEVICE = 0,
	IBV_EXP_DM_CPY_TO_HOST = 1,
};

enum ibv_exp_memcpy_dm_attr_comp_mask {
	IBV_EXP_DM_CPY_COMP_MASK_RESERVED = 1 << 0,
};

struct ibv_exp_memcpy_dm_attr {
	enum ibv_exp_dm_memcpy_dir memcpy_dir;
	void *host_addr;
	uint64_t dm_offset;
	size_t length;
	uint32_t comp_mask;
};

IBV_EXP_BEGIN_DECLS_
struct ibv_exp_dm *ibv_exp_alloc_dm(struct ibv_context *context,
				    struct ibv_exp_alloc_dm_attr *attr);
int ibv_exp_free_dm(struct ibv_exp_dm *dm);
int ibv_exp_memcpy_dm(struct ibv_exp_dm *dm, struct ibv_exp_memcpy_dm_attr *attr);
IBV_EXP_END_DECLS_

#endif
