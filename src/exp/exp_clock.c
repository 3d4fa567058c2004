/* SPDX-License-Identifier: MIT */
/* The device's clock is the host's monotonic clock in nanoseconds, so a cycle is a nanosecond. */
#include "exp/exp.h"

#include "base/clock.h"

AV_EXPORT int ibv_exp_query_values(struct ibv_context *context, int q_values,
				   struct ibv_exp_values *values)
{
	uint64_t now;

	if (!av_ours(context))
		return -av_exp_absent(AV_VERB_EXP_QUERY_VALUES);
	if (q_values & ~(IBV_EXP_VALUES_RESERVED - 1))
		return -av_fail_errno(AV_VERB_EXP_QUERY_VALUES, EINVAL);
	now = av_now_ns();
	values->comp_mask = (uint32_t)q_values;
	if (q_values & IBV_EXP_VALUES_HW_CLOCK_NS)
		values->hwclock_ns = now;
	if (q_values & IBV_EXP_VALUES_HW_CLOCK)
		values->hwclock = now;
	if (q_values & IBV_EXP_VALUES_CLOCK_INFO)
		values->clock_info = (struct ibv_exp_clock_info){
			.cycles = now,
			.nsec = now,
			.mask = UINT64_MAX,
			.mult = 1,
		};
	return 0;
}

/* The shorter way round the counter: backwards if the time stamp precedes the reading. */
AV_EXPORT uint64_t ibv_exp_cqe_ts_to_ns(struct ibv_exp_clock_info *info, uint64_t cqe_ts)
{
	uint64_t after = (cqe_ts - info->cycles) & info->mask;

	IBV_EXP_RET_ZERO_ON_INVALID_COMP_MASK(info->comp_mask, 0);
	if (after <= info->mask / 2)
		return info->nsec + ((after * info->mult + info->frac) >> info->shift);
	return info->nsec -
	       ((((info->cycles - cqe_ts) & info->mask) * info->mult - info->frac) >> info->shift);
}
