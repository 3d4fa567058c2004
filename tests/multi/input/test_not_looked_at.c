/* SPDX-License-Identifier: MIT */
/*
 * What an adapter's library and kernel do not look at is not refused. Each row says what one gets.
 * Source: rdma-core, providers/mlx5 (create_cq(),
 * mlx5_alloc_parent_domain(), mlx5_create_srq_ex()).
 */
#include <errno.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"

#define PATIENCE 20000u /* ms */
#define QP	 0

static struct node n;

/* --- fields of a completion that the device does not have ----------------------------- */

/* A queue pair that sends to itself, whose completions are in that CQ. */
static void connect_to_itself(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct node_link link = {.dgid = n.info.gid,
				 .access = IBV_ACCESS_REMOTE_WRITE,
				 .mtu = IBV_MTU_1024,
				 .timeout = 14,
				 .retry_cnt = 7,
				 .to = IBV_QPS_RTS};

	n.qp[QP] = ibv_create_qp(n.pd, &init);
	NEED(n.qp[QP]);
	link.dest_qpn = n.qp[QP]->qp_num;
	NEED(node_connect(&n, QP, &link) == 0);
}

static void expect_zeros(struct ibv_cq_ex *cq)
{
	struct ibv_wc_tm_info info = {.tag = 1, .priv = 1};
	struct ibv_poll_cq_attr attr = {0};
	int ret;

	while ((ret = ibv_start_poll(cq, &attr)) == ENOENT)
		;
	if (!EXPECT(ret == 0, "ibv_start_poll: %d", ret))
		return;
	EXPECT(cq->status == IBV_WC_SUCCESS, "status %d", cq->status);
	EXPECT(ibv_wc_read_cvlan(cq) == 0 && ibv_wc_read_flow_tag(cq) == 0, "not 0");
	ibv_wc_read_tm_info(cq, &info);
	EXPECT(info.tag == 0 && info.priv == 0, "tag %lu, priv %u", info.tag, info.priv);
	ibv_end_poll(cq);
}

static void wc_row(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 4, .wc_flags = IBV_CREATE_CQ_SUP_WC_FLAGS};
	struct node_send s = {.opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(n.ctx, &attr);

	row("all fields of a completion");
	if (!EXPECT(cq, "errno %d", errno))
		return;
	connect_to_itself(ibv_cq_ex_to_cq(cq));
	EXPECT(node_post_send(&n, QP, &s, 1).ret == 0, "post_send");
	expect_zeros(cq);
	EXPECT(node_destroy_qp(&n, QP) == 0, "ibv_destroy_qp");
	EXPECT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0, "ibv_destroy_cq");
}

/* --- domains -------------------------------------------------------------------------- */

static void nested_row(void)
{
	struct ibv_parent_domain_init_attr attr = {.pd = n.pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(n.ctx, &attr), *outer;
	struct node_send s = {.opcode = IBV_WR_RDMA_WRITE,
			      .flags = IBV_SEND_SIGNALED,
			      .num_sge = 1,
			      .remote_addr = n.info.base[KEY_FULL],
			      .rkey = n.info.key[KEY_FULL]};
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	struct ibv_mr *mr;

	row("a parent domain that contains one");
	attr.pd = parent;
	outer = ibv_alloc_parent_domain(n.ctx, &attr);
	if (!EXPECT(outer, "errno %d", errno))
		return;
	EXPECT(ibv_dealloc_pd(parent) == EBUSY, "the inner one is not busy");
	mr = ibv_reg_mr(outer, n.arena, 4096, IBV_ACCESS_LOCAL_WRITE);
	NEED(mr);
	s.sge[0] = (struct ibv_sge){(uintptr_t)n.arena, 8, mr->lkey};
	connect_to_itself(n.cq[0]);
	EXPECT(node_post_send(&n, QP, &s, 1).ret == 0, "post_send");
	EXPECT(node_poll(&n, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "its region cannot be used by the innermost: %s", ibv_wc_status_str(wc.status));
	EXPECT(node_destroy_qp(&n, QP) == 0 && ibv_dereg_mr(mr) == 0, "the end");
	EXPECT(ibv_dealloc_pd(outer) == 0 && ibv_dealloc_pd(parent) == 0, "ibv_dealloc_pd");
}

/* --- shared receive queues ------------------------------------------------------------ */

static void srq_ex_rows(void)
{
	const uint32_t type = IBV_SRQ_INIT_ATTR_TYPE, pd = IBV_SRQ_INIT_ATTR_PD;
	const struct {
		const char *name;
		uint32_t comp_mask, srq_type;
		struct ibv_pd *pd;
		int want;
	} rows[] = {
		{"basic, with a CQ", type | pd | IBV_SRQ_INIT_ATTR_CQ, IBV_SRQT_BASIC, n.pd, 0},
		{"of no type, with a CQ", pd | IBV_SRQ_INIT_ATTR_CQ, IBV_SRQT_XRC, n.pd, 0},
		{"basic, with an XRC domain and tags",
		 type | pd | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_TM, IBV_SRQT_BASIC, n.pd,
		 0},
		{"basic, without the domain's bit", type | IBV_SRQ_INIT_ATTR_CQ, IBV_SRQT_BASIC,
		 n.pd, EINVAL},
		{"basic, without a domain", type | pd | IBV_SRQ_INIT_ATTR_CQ, IBV_SRQT_BASIC, NULL,
		 EINVAL},
		{"of XRC, without the bits of its CQ and domain", type | pd, IBV_SRQT_XRC, n.pd,
		 EINVAL},
		{"of tags", type | pd | IBV_SRQ_INIT_ATTR_CQ, IBV_SRQT_TM, n.pd, EOPNOTSUPP},
		{"of an unknown type", type | pd | IBV_SRQ_INIT_ATTR_CQ, 7, n.pd, EINVAL},
		{"with an unknown bit", type | pd | IBV_SRQ_INIT_ATTR_RESERVED, IBV_SRQT_BASIC,
		 n.pd, EOPNOTSUPP},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_srq_init_attr_ex attr = {
			.attr = {.max_wr = 8, .max_sge = 1},
			.comp_mask = rows[i].comp_mask,
			.srq_type = (enum ibv_srq_type)rows[i].srq_type,
			.pd = rows[i].pd,
			.cq = (struct ibv_cq *)1, /* nobody looks */
		};
		struct ibv_srq *srq;

		row("SRQ: %s", rows[i].name);
		errno = 0;
		srq = ibv_create_srq_ex(n.ctx, &attr);
		EXPECT(srq ? !rows[i].want : errno == rows[i].want, "errno %d, not %d", errno,
		       rows[i].want);
		EXPECT(!srq || ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
	}
}

static void small_srq_row(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 0, .max_sge = 1}};
	struct ibv_sge sge = {(uintptr_t)n.arena, 8, n.mr[KEY_FULL]->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_srq *srq = ibv_create_srq(n.pd, &init);
	struct ibv_srq_attr attr;

	row("SRQ: of no request");
	if (!EXPECT(srq, "errno %d", errno))
		return;
	EXPECT(init.attr.max_wr == 1, "told: %u", init.attr.max_wr);
	EXPECT(ibv_query_srq(srq, &attr) == 0 && attr.max_wr == 1, "asked: %u", attr.max_wr);
	EXPECT(ibv_post_srq_recv(srq, &wr, &bad) == 0, "the first is refused");
	EXPECT(ibv_post_srq_recv(srq, &wr, &bad) == ENOMEM, "the second is accepted");
	EXPECT(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
}

int main(void)
{
	sandbox_begin(100);
	node_open(&n, NULL);
	wc_row();
	nested_row();
	srq_ex_rows();
	small_srq_row();
	node_close(&n);
	return sandbox_end();
}
