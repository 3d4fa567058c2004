/* SPDX-License-Identifier: MIT */
/* NULL where a verb wants an object, by each verb that gets it from the program, and not from
 * libibverbs' header, which looks into the object first. */
#include <fcntl.h>
#include <infiniband/verbs_exp.h>

#include "bad_input_fixture.h"

static void domain_rows(void)
{
	struct ibv_ah_attr ah = {.port_num = 1};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_qp_init_attr qp = {.send_cq = n->cq[0],
				      .recv_cq = n->cq[0],
				      .cap = {1, 1, 1, 1, 0},
				      .qp_type = IBV_QPT_RC};
	struct ibv_wc wc = {0};
	struct ibv_grh grh = {0};

	row("no domain");
	EXPECT_RET(ibv_dealloc_pd(NULL), EINVAL);
	EXPECT_NULL((ibv_reg_mr)(NULL, n->arena, PAGE, 0), EINVAL);
	EXPECT_NULL((ibv_reg_mr_iova)(NULL, n->arena, PAGE, 0, 0), EINVAL);
	EXPECT_NULL(ibv_reg_mr_iova2(NULL, n->arena, PAGE, 0, 0), EINVAL);
	EXPECT_NULL(ibv_reg_dmabuf_mr(NULL, 0, PAGE, 0, -1, 0), EINVAL);
	EXPECT_NULL(ibv_import_mr(NULL, 1), EINVAL);
	EXPECT_NULL(ibv_create_qp(NULL, &qp), EINVAL);
	EXPECT_NULL(ibv_create_srq(NULL, &srq), EINVAL);
	EXPECT_NULL(ibv_create_ah(NULL, &ah), EINVAL);
	EXPECT_NULL(ibv_create_ah_from_wc(NULL, &wc, &grh, 1), EINVAL);
}

static void exp_domain_rows(void)
{
	struct ibv_exp_reg_mr_in in = {.addr = n->arena, .length = PAGE};
	struct ibv_exp_reg_shared_mr_in shared = {.mr_handle = 1};
	struct ibv_exp_create_mr_in key = {.attr = {.max_klm_list_size = 1}};
	struct ibv_exp_mkey_list_container_attr list = {.max_klm_list_size = 1};
	struct ibv_exp_qp_init_attr qp = {.send_cq = n->cq[0],
					  .recv_cq = n->cq[0],
					  .cap = {1, 1, 1, 1, 0},
					  .qp_type = IBV_QPT_RC,
					  .comp_mask = IBV_EXP_QP_INIT_ATTR_PD};

	row("no domain, experimental verbs");
	EXPECT_NULL(ibv_exp_reg_mr(&in), EINVAL);
	EXPECT_NULL(ibv_exp_reg_shared_mr(&shared), EINVAL);
	EXPECT_NULL(ibv_exp_create_mr(&key), EINVAL);
	EXPECT_NULL(ibv_exp_alloc_mkey_list_memory(&list), EINVAL);
	EXPECT_NULL(ibv_exp_create_qp(n->ctx, &qp), EINVAL);
	qp.comp_mask |= IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS;
	EXPECT_NULL(ibv_exp_create_qp(n->ctx, &qp), EINVAL);
}

static void region_rows(void)
{
	struct ibv_exp_prefetch_attr prefetch = {.addr = n->arena, .length = PAGE};
	struct ibv_exp_mkey_attr key = {0};

	row("no region");
	EXPECT_RET(ibv_dereg_mr(NULL), EINVAL);
	EXPECT_MINUS_ONE(ibv_rereg_mr(NULL, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), EINVAL);
	EXPECT_RET(ibv_exp_rereg_mr(NULL, IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0, NULL),
		   EINVAL);
	EXPECT_RET(ibv_exp_prefetch_mr(NULL, &prefetch), EINVAL);
	EXPECT_RET(ibv_exp_query_mkey(NULL, &key), EINVAL);
	EXPECT_RET(ibv_exp_dealloc_mkey_list_memory(NULL), EINVAL);
}

static void queue_rows(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_qp_init_attr init;
	struct ibv_exp_qp_attr exp = {.qp_state = IBV_QPS_INIT};
	struct ibv_exp_mw_bind bind = {0};
	struct ibv_srq_attr srq = {.max_wr = 1};
	const union ibv_gid group = {.raw = {0xff, 0x0e}};

	row("no queue pair");
	EXPECT_RET(ibv_destroy_qp(NULL), EINVAL);
	EXPECT_RET(ibv_modify_qp(NULL, &attr, IBV_QP_STATE), EINVAL);
	EXPECT_RET(ibv_query_qp(NULL, &attr, IBV_QP_STATE, &init), EINVAL);
	EXPECT_RET(ibv_attach_mcast(NULL, &group, 0), EINVAL);
	EXPECT_RET(ibv_detach_mcast(NULL, &group, 0), EINVAL);
	EXPECT_RET(ibv_exp_modify_qp(NULL, &exp, IBV_EXP_QP_STATE), EINVAL);
	EXPECT_RET((ibv_exp_bind_mw)(&bind), EINVAL);
	row("no completion queue");
	EXPECT_RET(ibv_destroy_cq(NULL), EINVAL);
	EXPECT_RET(ibv_resize_cq(NULL, 1), EINVAL);
	row("no shared receive queue");
	EXPECT_RET(ibv_destroy_srq(NULL), EINVAL);
	EXPECT_RET(ibv_modify_srq(NULL, &srq, IBV_SRQ_MAX_WR), EINVAL);
	EXPECT_RET(ibv_query_srq(NULL, &srq), EINVAL);
	row("no address handle, no channel");
	EXPECT_RET(ibv_destroy_ah(NULL), EINVAL);
	EXPECT_RET(ibv_destroy_comp_channel(NULL), EINVAL);
}

/* What the attributes of a new object name: each in turn is NULL. */
static void attribute_rows(void)
{
	struct ibv_xrcd *xrcd = node_open_xrcd(n->ctx);
	const struct ibv_srq_init_attr_ex good = node_xrc_srq(1, n->pd, xrcd, n->cq[0]);
	struct ibv_parent_domain_init_attr parent = {0};
	struct ibv_srq_init_attr_ex attr = good;
	struct ibv_srq *srq;

	NEED(xrcd);
	row("create_srq_ex: all in order");
	srq = ibv_create_srq_ex(n->ctx, &attr);
	if (EXPECT(srq, "errno %d", errno))
		EXPECT_RET(ibv_destroy_srq(srq), 0);
	row("create_srq_ex: no domain");
	attr.pd = NULL;
	EXPECT_NULL(ibv_create_srq_ex(n->ctx, &attr), EINVAL);
	row("create_srq_ex: no XRC domain");
	attr = good;
	attr.xrcd = NULL;
	EXPECT_NULL(ibv_create_srq_ex(n->ctx, &attr), EINVAL);
	row("create_srq_ex: no completion queue");
	attr = good;
	attr.cq = NULL;
	EXPECT_NULL(ibv_create_srq_ex(n->ctx, &attr), EINVAL);
	row("alloc_parent_domain: no domain");
	EXPECT_NULL(ibv_alloc_parent_domain(n->ctx, &parent), EINVAL);
	row("reg_dm_mr: no device memory");
	EXPECT_NULL(ibv_reg_dm_mr(n->pd, NULL, 0, PAGE, IBV_ACCESS_ZERO_BASED), ENOENT);
	EXPECT_RET(ibv_close_xrcd(xrcd), 0);
}

static void run(void)
{
	domain_rows();
	exp_domain_rows();
	region_rows();
	queue_rows();
	attribute_rows();
}

int main(int argc, char **argv)
{
	return bad_input_test(argc, argv, run);
}
