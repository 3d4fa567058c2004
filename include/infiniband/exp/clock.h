/* SPDX-License-Identifier: MIT */
/* The device's clock: ibv_exp_query_values(). */
#ifndef INFINIBAND_EXP_CLOCK_H
#define INFINIBAND_EXP_CLOCK_H

#include <infiniband/exp/base.h>
#include <infiniband/verbs.h>

enum ibv_exp_values_comp_mask {
	IBV_EXP_VALUES_HW_CLOCK_NS = 1 << 0,
	IBV_EXP_VALUES_HW_CLOCK = 1 << 1,
	IBV_EXP_VALUES_CLOCK_INFO = 1 << 2,
	IBV_EXP_VALUES_RESERVED = 1 << 3,
};

/* How cycles of the clock become nanoseconds. */
struct ibv_exp_clock_info {
	uint64_t cycles;
	uint64_t nsec;
	uint64_t frac;
	uint64_t mask;
	uint32_t shift;
	uint32_t mult;
	uint32_t comp_mask;
};

struct ibv_exp_values {
	uint32_t comp_mask; /* out: what was filled */
	uint64_t hwclock_ns;
	uint64_t hwclock;
	struct ibv_exp_clock_info clock_info;
};

IBV_EXP_BEGIN_DECLS_
int ibv_exp_query_values(struct ibv_context *context, int q_values, struct ibv_exp_values *values);
uint64_t ibv_exp_cqe_ts_to_ns(struct ibv_exp_clock_info *clock_info, uint64_t cqe_ts);
IBV_EXP_END_DECLS_

#endif
