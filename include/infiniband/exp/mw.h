/* SPDX-License-Identifier: MIT */
/* Memory windows of type 1; those of type 2 are bound by IBV_EXP_WR_BIND_MW. */
#ifndef INFINIBAND_EXP_MW_H
#define INFINIBAND_EXP_MW_H

#include <infiniband/exp/base.h>
#include <infiniband/verbs.h>

struct ibv_exp_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr;
	uint64_t length;
	uint64_t exp_mw_access_flags; /* enum ibv_exp_access_flags */
};

enum ibv_exp_bind_mw_comp_mask {
	IBV_EXP_BIND_MW_RESERVED = 1 << 0,
};

struct ibv_exp_mw_bind {
	struct ibv_qp *qp;
	struct ibv_mw *mw;
	uint64_t wr_id;
	uint64_t exp_send_flags;
	struct ibv_exp_mw_bind_info bind_info;
	uint32_t comp_mask;
};

IBV_EXP_BEGIN_DECLS_
int ibv_exp_bind_mw(struct ibv_exp_mw_bind *mw_bind);
IBV_EXP_END_DECLS_

/*
 * Also as MLNX_OFED's manual prints it: ibv_exp_bind_mw(qp, mw, &mw_bind), where the queue pair and
 * the window are those of the arguments, whatever the structure names.
 */
static inline int ibv_exp_bind_mw_on_(struct ibv_qp *qp, struct ibv_mw *mw,
				      const struct ibv_exp_mw_bind *mw_bind)
{
	struct ibv_exp_mw_bind bind = *mw_bind;

	bind.qp = qp;
	bind.mw = mw;
	return ibv_exp_bind_mw(&bind);
}

#ifdef __cplusplus
static inline int ibv_exp_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
				  const struct ibv_exp_mw_bind *mw_bind)
{
	return ibv_exp_bind_mw_on_(qp, mw, mw_bind);
}
#else
/* Three arguments, or one: a compound literal may have more commas. */
#define IBV_EXP_BIND_MW_(a, b, c, d, e, f, g, name, ...) name
#define ibv_exp_bind_mw(...)                                                                     \
	IBV_EXP_BIND_MW_(__VA_ARGS__, ibv_exp_bind_mw, ibv_exp_bind_mw, ibv_exp_bind_mw,         \
			 ibv_exp_bind_mw, ibv_exp_bind_mw_on_, ibv_exp_bind_mw, ibv_exp_bind_mw, \
			 0)                                                                      \
	(__VA_ARGS__)
#endif

#endif
