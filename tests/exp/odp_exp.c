/* SPDX-License-Identifier: MIT */
/* The rows of multi/odp/test_odp_*.c by experimental verbs. */
#include <errno.h>
#include <string.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "multi/odp/odp_fixture.h"

#define RIGHTS                                                                                   \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | \
	 IBV_EXP_ACCESS_REMOTE_ATOMIC)
#define GARBAGE 0xa5 /* what programs leave in structures that they do not clear */

const uint32_t api_operations = IBV_EXP_ODP_SUPPORT_SEND | IBV_EXP_ODP_SUPPORT_RECV |
				IBV_EXP_ODP_SUPPORT_WRITE | IBV_EXP_ODP_SUPPORT_READ |
				IBV_EXP_ODP_SUPPORT_ATOMIC | IBV_EXP_ODP_SUPPORT_SRQ_RECV;

/* As the page has it. */
void api_query(struct ibv_context *ctx, struct odp_answer *answer)
{
	struct ibv_exp_device_attr dattr;

	memset(&dattr, GARBAGE, sizeof(dattr));
	dattr.comp_mask = IBV_EXP_DEVICE_ATTR_ODP | IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS;
	NEED(ibv_exp_query_device(ctx, &dattr) == 0);
	row("ibv_exp_query_device: on-demand paging");
	EXPECT(dattr.exp_device_cap_flags & IBV_EXP_DEVICE_ODP, "not there");
	EXPECT(dattr.odp_caps.per_transport_caps.dc_odp_caps == 0 &&
		       dattr.odp_caps.per_transport_caps.raw_eth_odp_caps == 0,
	       "transports that the device does not have");
	answer->general = dattr.odp_caps.general_odp_caps;
	answer->of[RC] = dattr.odp_caps.per_transport_caps.rc_odp_caps;
	answer->of[UC] = dattr.odp_caps.per_transport_caps.uc_odp_caps;
	answer->of[UD] = dattr.odp_caps.per_transport_caps.ud_odp_caps;
	answer->of[XRC] = dattr.odp_caps.per_transport_caps.xrc_odp_caps;
}

/* The fields behind the mask are garbage, as in the page's example. */
struct ibv_mr *api_register(struct ibv_pd *pd, void *addr, size_t length, bool on_demand)
{
	struct ibv_exp_reg_mr_in in;

	memset(&in, GARBAGE, sizeof(in));
	in.pd = pd;
	in.addr = addr;
	in.length = addr ? length : IBV_EXP_IMPLICIT_MR_SIZE;
	in.exp_access = RIGHTS | (on_demand ? IBV_EXP_ACCESS_ON_DEMAND : 0);
	in.comp_mask = 0;
	return ibv_exp_reg_mr(&in);
}

const int api_unmapped = 0;

int api_prefetch(struct ibv_mr *mr, void *addr, size_t length, bool for_writing)
{
	struct ibv_exp_prefetch_attr attr;
	int ret;

	memset(&attr, GARBAGE, sizeof(attr));
	attr.flags = for_writing ? IBV_EXP_PREFETCH_WRITE_ACCESS : 0;
	attr.addr = addr;
	attr.length = length;
	attr.comp_mask = 0;
	errno = 0;
	ret = ibv_exp_prefetch_mr(mr, &attr);
	EXPECT(errno == ret, "errno %d", errno);
	return ret;
}

struct ibv_qp *api_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *init)
{
	struct ibv_exp_qp_init_attr attr;

	memset(&attr, GARBAGE, sizeof(attr));
	attr.qp_context = NULL;
	attr.send_cq = init->send_cq;
	attr.recv_cq = init->recv_cq;
	attr.srq = init->srq;
	attr.cap = init->cap;
	attr.qp_type = init->qp_type;
	attr.sq_sig_all = 0;
	attr.pd = init->pd;
	attr.xrcd = init->xrcd;
	attr.max_inl_recv = 0;
	attr.comp_mask = IBV_EXP_QP_INIT_ATTR_INL_RECV |
			 (init->qp_type == IBV_QPT_XRC_RECV ? IBV_EXP_QP_INIT_ATTR_XRCD
							    : IBV_EXP_QP_INIT_ATTR_PD);
	return ibv_exp_create_qp(ctx, &attr);
}

int api_modify_qp(struct ibv_qp *qp, const struct ibv_qp_attr *plain, int mask)
{
	struct ibv_exp_qp_attr attr;

	memset(&attr, GARBAGE, sizeof(attr));
	memcpy(&attr, plain, offsetof(struct ibv_exp_qp_attr, alt_timeout));
	attr.comp_mask = 0;
	return ibv_exp_modify_qp(qp, &attr, (uint64_t)mask);
}

int api_post_send(struct ibv_qp *qp, struct ibv_send_wr *plain)
{
	struct ibv_exp_send_wr wr, *bad;

	memset(&wr, GARBAGE, sizeof(wr));
	wr.wr_id = plain->wr_id;
	wr.next = NULL;
	wr.sg_list = plain->sg_list;
	wr.num_sge = plain->num_sge;
	wr.exp_opcode = (enum ibv_exp_wr_opcode)plain->opcode;
	wr.exp_send_flags = plain->send_flags;
	memcpy(&wr.wr, &plain->wr, sizeof(wr.wr));
	wr.qp_type.xrc.remote_srqn = plain->qp_type.xrc.remote_srqn;
	return ibv_exp_post_send(qp, &wr, &bad);
}

int api_poll(struct ibv_cq *cq, enum ibv_wc_status *status)
{
	struct ibv_exp_wc wc;
	int got = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));

	if (got == 1)
		*status = wc.status;
	return got;
}
