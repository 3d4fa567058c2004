/* SPDX-License-Identifier: MIT */
/* The verbs of the data path as plain function pointers: ibv_exp_get_provider_func(). */
#ifndef INFINIBAND_EXP_PROVIDER_H
#define INFINIBAND_EXP_PROVIDER_H

#include <infiniband/exp/base.h>
#include <infiniband/exp/cq.h>
#include <infiniband/exp/send.h>
#include <infiniband/verbs.h>

enum ibv_exp_func_name {
	IBV_EXP_POST_SEND_FUNC = 0,
	IBV_EXP_POLL_CQ_FUNC = 1,
	IBV_POST_SEND_FUNC = 2,
	IBV_POLL_CQ_FUNC = 3,
	IBV_POST_RECV_FUNC = 4,
};

typedef int (*drv_exp_post_send_func)(struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
				      struct ibv_exp_send_wr **bad_wr);
typedef int (*drv_post_send_func)(struct ibv_qp *qp, struct ibv_send_wr *wr,
				  struct ibv_send_wr **bad_wr);
typedef int (*drv_exp_poll_cq_func)(struct ibv_cq *ibcq, int num_entries, struct ibv_exp_wc *wc,
				    uint32_t wc_size);
typedef int (*drv_poll_cq_func)(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc);
typedef int (*drv_post_recv_func)(struct ibv_qp *qp, struct ibv_recv_wr *wr,
				  struct ibv_recv_wr **bad_wr);

IBV_EXP_BEGIN_DECLS_
void *ibv_exp_get_provider_func(struct ibv_context *context, enum ibv_exp_func_name name);
IBV_EXP_END_DECLS_

#endif
