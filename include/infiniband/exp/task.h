/* SPDX-License-Identifier: MIT */
/* Lists of work requests for several queue pairs (cross-channel): ibv_exp_post_task(). */
#ifndef INFINIBAND_EXP_TASK_H
#define INFINIBAND_EXP_TASK_H

#include <infiniband/exp/base.h>
#include <infiniband/exp/send.h>
#include <infiniband/verbs.h>

enum ibv_exp_task_type {
	IBV_EXP_TASK_SEND = 0,
	IBV_EXP_TASK_RECV = 1,
};

struct ibv_exp_task {
	enum ibv_exp_task_type task_type;
	struct {
		struct ibv_qp *qp;
		__extension__ union {
			struct ibv_exp_send_wr *send_wr;
			struct ibv_recv_wr *recv_wr;
		};
	} item;
	struct ibv_exp_task *next;
	uint32_t comp_mask;
};

IBV_EXP_BEGIN_DECLS_
int ibv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task,
		      struct ibv_exp_task **bad_task);
IBV_EXP_END_DECLS_

#endif
