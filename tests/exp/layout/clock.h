/* SPDX-License-Identifier: MIT */
/* Rows of ../layout.c: what <infiniband/exp/clock.h> declares. */

OFFSET(ibv_exp_values, comp_mask, 0);
OFFSET(ibv_exp_values, hwclock_ns, 8);
OFFSET(ibv_exp_values, hwclock, 16);
OFFSET(ibv_exp_values, clock_info, 24);
SIZE(ibv_exp_values, 72);
OFFSET(ibv_exp_clock_info, cycles, 0);
OFFSET(ibv_exp_clock_info, nsec, 8);
OFFSET(ibv_exp_clock_info, frac, 16);
OFFSET(ibv_exp_clock_info, mask, 24);
OFFSET(ibv_exp_clock_info, shift, 32);
OFFSET(ibv_exp_clock_info, mult, 36);
OFFSET(ibv_exp_clock_info, comp_mask, 40);
SIZE(ibv_exp_clock_info, 48);
VALUE(IBV_EXP_VALUES_HW_CLOCK_NS, 1);
VALUE(IBV_EXP_VALUES_HW_CLOCK, 2);
VALUE(IBV_EXP_VALUES_CLOCK_INFO, 4);
VALUE(IBV_EXP_VALUES_RESERVED, 8);
