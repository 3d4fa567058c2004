/* SPDX-License-Identifier: MIT */
/* Rows of ../layout.c: what <infiniband/exp/domain.h> declares. */

OFFSET(ibv_exp_res_domain_init_attr, comp_mask, 0);
OFFSET(ibv_exp_res_domain_init_attr, thread_model, 4);
OFFSET(ibv_exp_res_domain_init_attr, msg_model, 8);
SIZE(ibv_exp_res_domain_init_attr, 12);
VALUE(IBV_EXP_RES_DOMAIN_THREAD_MODEL, 1);
VALUE(IBV_EXP_RES_DOMAIN_MSG_MODEL, 2);
VALUE(IBV_EXP_RES_DOMAIN_RESERVED, 4);
VALUE(IBV_EXP_THREAD_SAFE, 0);
VALUE(IBV_EXP_THREAD_UNSAFE, 1);
VALUE(IBV_EXP_THREAD_SINGLE, 2);
VALUE(IBV_EXP_MSG_DEFAULT, 0);
VALUE(IBV_EXP_MSG_LOW_LATENCY, 1);
VALUE(IBV_EXP_MSG_HIGH_BW, 2);
VALUE(IBV_EXP_MSG_FORCE_LOW_LATENCY, 3);
