/* SPDX-License-Identifier: MIT */
/* Rows of ../layout.c: what <infiniband/exp/provider.h> declares. */

VALUE(IBV_EXP_POST_SEND_FUNC, 0);
VALUE(IBV_EXP_POLL_CQ_FUNC, 1);
VALUE(IBV_POST_SEND_FUNC, 2);
VALUE(IBV_POLL_CQ_FUNC, 3);
VALUE(IBV_POST_RECV_FUNC, 4);
