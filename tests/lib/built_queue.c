/* SPDX-License-Identifier: MIT */
#include "lib/built_queue.h"

#include "lib/expect.h"

struct ibv_qp *built_queue(const struct node *n, uint32_t depth, struct ibv_cq **cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {depth, depth, 1, 1, 0},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
		.pd = n->pd,
	};
	struct ibv_qp *qp;

	*cq = ibv_create_cq(n->ctx, (int)(4 * depth), NULL, NULL, 0);
	NEED(*cq);
	attr.send_cq = attr.recv_cq = *cq;
	qp = ibv_create_qp_ex(n->ctx, &attr);
	NEED(qp);
	return qp;
}
