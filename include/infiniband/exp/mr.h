/* SPDX-License-Identifier: MIT */
/* Memory regions: registration, shared regions, re-registration, prefetching. They end with
 * ibv_dereg_mr().
 */
#ifndef INFINIBAND_EXP_MR_H
#define INFINIBAND_EXP_MR_H

#include <infiniband/exp/base.h>
#include <infiniband/exp/dm.h>
#include <infiniband/verbs.h>

#define IBV_EXP_IMPLICIT_MR_SIZE (~((size_t)0))

enum {
	IBV_EXP_ACCESS_FLAGS_SHIFT = 0x0F,
};

__extension__ enum ibv_exp_access_flags {
	IBV_EXP_ACCESS_LOCAL_WRITE = 1 << 0,
	IBV_EXP_ACCESS_REMOTE_WRITE = 1 << 1,
	IBV_EXP_ACCESS_REMOTE_READ = 1 << 2,
	IBV_EXP_ACCESS_REMOTE_ATOMIC = 1 << 3,
	IBV_EXP_ACCESS_MW_BIND = 1 << 4,

	IBV_EXP_ACCESS_ALLOCATE_MR = IBV_EXP_START_FLAG << 5,
	IBV_EXP_ACCESS_SHARED_MR_USER_READ = IBV_EXP_START_FLAG << 6,
	IBV_EXP_ACCESS_SHARED_MR_USER_WRITE = IBV_EXP_START_FLAG << 7,
	IBV_EXP_ACCESS_SHARED_MR_GROUP_READ = IBV_EXP_START_FLAG << 8,
	IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE = IBV_EXP_START_FLAG << 9,
	IBV_EXP_ACCESS_SHARED_MR_OTHER_READ = IBV_EXP_START_FLAG << 10,
	IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE = IBV_EXP_START_FLAG << 11,
	IBV_EXP_ACCESS_NO_RDMA = IBV_EXP_START_FLAG << 12,
	IBV_EXP_ACCESS_MW_ZERO_BASED = IBV_EXP_START_FLAG << 13,
	IBV_EXP_ACCESS_ON_DEMAND = IBV_EXP_START_FLAG << 14,
	IBV_EXP_ACCESS_RELAXED = IBV_EXP_START_FLAG << 15,
	IBV_EXP_ACCESS_PHYSICAL_ADDR = IBV_EXP_START_FLAG << 16,
	IBV_EXP_ACCESS_TUNNELED_ATOMIC = IBV_EXP_START_FLAG << 17,
	IBV_EXP_ACCESS_RELAXED_ORDERING = IBV_EXP_START_FLAG << 18,
	IBV_EXP_ACCESS_RESERVED = IBV_EXP_START_FLAG << 19,

	IBV_ACCESS_ALLOCATE_MR = IBV_EXP_ACCESS_ALLOCATE_MR, /* as MLNX_OFED's manual prints it */
};

enum ibv_exp_reg_mr_in_comp_mask {
	IBV_EXP_REG_MR_CREATE_FLAGS = 1 << 0,
	IBV_EXP_REG_MR_DM = 1 << 1,
	IBV_EXP_REG_MR_RESERVED = 1 << 2,
};

enum ibv_exp_reg_mr_create_flags {
	IBV_EXP_REG_MR_CREATE_CONTIG = 1 << 0,
};

struct ibv_exp_reg_mr_in {
	struct ibv_pd *pd;
	void *addr; /* out, too, if the library allocates */
	size_t length;
	uint64_t exp_access;
	uint32_t comp_mask;
	uint32_t create_flags;
	struct ibv_exp_dm *dm;
};

enum ibv_exp_reg_shared_mr_comp_mask {
	IBV_EXP_REG_SHARED_MR_RESERVED = 1 << 0,
};

struct ibv_exp_reg_shared_mr_in {
	uint32_t mr_handle;
	struct ibv_pd *pd;
	void *addr; /* where it is wanted, NULL: anywhere */
	uint64_t exp_access;
	uint32_t comp_mask;
};

enum ibv_exp_rereg_mr_flags {
	IBV_EXP_REREG_MR_CHANGE_TRANSLATION = 1 << 0,
	IBV_EXP_REREG_MR_CHANGE_PD = 1 << 1,
	IBV_EXP_REREG_MR_CHANGE_ACCESS = 1 << 2,
	IBV_EXP_REREG_MR_KEEP_VALID = 1 << 3,
	IBV_EXP_REREG_MR_FLAGS_SUPPORTED = (1 << 4) - 1,
};

enum ibv_exp_rereg_mr_attr_mask {
	IBV_EXP_REREG_MR_ATTR_RESERVED = 1 << 0,
};

struct ibv_exp_rereg_mr_attr {
	uint32_t comp_mask;
};

enum ibv_exp_prefetch_attr_flags {
	IBV_EXP_PREFETCH_WRITE_ACCESS = 1 << 0,
};

enum ibv_exp_prefetch_attr_comp_mask {
	IBV_EXP_PREFETCH_MR_RESERVED = 1 << 0,
};

struct ibv_exp_prefetch_attr {
	uint32_t flags;
	void *addr;
	size_t length;
	uint32_t comp_mask;
};

IBV_EXP_BEGIN_DECLS_
struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in);
struct ibv_mr *ibv_exp_reg_shared_mr(struct ibv_exp_reg_shared_mr_in *in);
int ibv_exp_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		     uint64_t access, struct ibv_exp_rereg_mr_attr *attr);
int ibv_exp_prefetch_mr(struct ibv_mr *mr, struct ibv_exp_prefetch_attr *attr);
IBV_EXP_END_DECLS_

#endif
