/* SPDX-License-Identifier: MIT */
/* Rows of ../layout.c: what <infiniband/exp/mw.h> declares. */

OFFSET(ibv_exp_mw_bind_info, mr, 0);
OFFSET(ibv_exp_mw_bind_info, addr, 8);
OFFSET(ibv_exp_mw_bind_info, length, 16);
OFFSET(ibv_exp_mw_bind_info, exp_mw_access_flags, 24);
SIZE(ibv_exp_mw_bind_info, 32);
OFFSET(ibv_exp_mw_bind, qp, 0);
OFFSET(ibv_exp_mw_bind, mw, 8);
OFFSET(ibv_exp_mw_bind, wr_id, 16);
OFFSET(ibv_exp_mw_bind, exp_send_flags, 24);
OFFSET(ibv_exp_mw_bind, bind_info, 32);
OFFSET(ibv_exp_mw_bind, comp_mask, 64);
SIZE(ibv_exp_mw_bind, 72);
VALUE(IBV_EXP_BIND_MW_RESERVED, 1);
