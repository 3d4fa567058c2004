/* SPDX-License-Identifier: MIT */
#include "lib/exp_objects.h"

#include <errno.h>

#include "lib/expect.h"
#include "lib/side.h"

struct ibv_mr *exp_need_mr(struct ibv_exp_reg_mr_in in)
{
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);

	NEED(mr);
	return mr;
}

void exp_need_rc(struct node *n, int qp, struct ibv_exp_qp_init_attr *init)
{
	if (!init->send_cq)
		init->send_cq = n->cq[0];
	if (!init->recv_cq)
		init->recv_cq = n->cq[1];
	if (!init->cap.max_send_wr)
		init->cap = spec_default().cap;
	init->qp_type = IBV_QPT_RC;
	init->comp_mask |= IBV_EXP_QP_INIT_ATTR_PD;
	init->pd = n->pd;
	n->qp[qp] = ibv_exp_create_qp(n->ctx, init);
	if (!n->qp[qp])
		DIE("ibv_exp_create_qp: errno %d", errno);
}
