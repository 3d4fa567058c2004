/* SPDX-License-Identifier: MIT */
/* What the creation of objects does not look at, and by how much capacities are rounded up. */
#include "fields_fixture.h"

static struct ibv_srq *srq;
static struct ibv_xrcd *xrcd;

/* --- shared receive queues ------------------------------------------------------- */

static void check_srq(struct ibv_srq *made)
{
	struct ibv_srq_attr attr;

	if (!EXPECT(made, "errno %d", errno))
		return;
	EXPECT(ibv_query_srq(made, &attr) == 0 && attr.max_wr == 4 && attr.max_sge == 1 &&
		       attr.srq_limit == 0,
	       "max_wr %u, max_sge %u, srq_limit %u", attr.max_wr, attr.max_sge, attr.srq_limit);
	EXPECT(ibv_destroy_srq(made) == 0, "ibv_destroy_srq");
}

static void create_srq(void *init)
{
	check_srq(ibv_create_srq(n->pd, init));
}

static void create_srq_ex(void *init)
{
	check_srq(ibv_create_srq_ex(n->ctx, init));
}

static void modify_srq(void *attr)
{
	EXPECT(ibv_modify_srq(srq, attr, 0) == 0, "nothing to change: errno %d", errno);
}

static void srq_rows(void)
{
	const struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	const struct ibv_srq_init_attr_ex ex = node_xrc_srq(4, n->pd, xrcd, n->cq[0]);
	const struct ibv_srq_attr none = {0};
	const struct garbage in_init[] = {
		GARBAGE(ibv_srq_init_attr, srq_context),
		GARBAGE_IN(offsetof(struct ibv_srq_init_attr, attr), ibv_srq_attr, srq_limit),
	};
	const struct garbage in_ex[] = {
		GARBAGE(ibv_srq_init_attr_ex, srq_context),
		GARBAGE(ibv_srq_init_attr_ex, tm_cap),
		GARBAGE_IN(offsetof(struct ibv_srq_init_attr_ex, attr), ibv_srq_attr, srq_limit),
	};
	const struct garbage in_attr[] = {
		GARBAGE(ibv_srq_attr, max_wr),
		GARBAGE(ibv_srq_attr, max_sge),
		GARBAGE(ibv_srq_attr, srq_limit),
	};

	with_garbage(&init, sizeof(init), in_init, COUNT_OF(in_init), create_srq);
	with_garbage(&ex, sizeof(ex), in_ex, COUNT_OF(in_ex), create_srq_ex);
	with_garbage(&none, sizeof(none), in_attr, COUNT_OF(in_attr), modify_srq);
}

/* --- queue pairs ----------------------------------------------------------------- */

#define CAP offsetof(struct ibv_qp_init_attr_ex, cap)

static void create_qp(void *init)
{
	struct ibv_qp_init_attr_ex *attr = init;
	bool has_srq = attr->srq == srq, xrc = attr->qp_type == IBV_QPT_XRC_SEND;
	struct ibv_qp *qp = ibv_create_qp_ex(n->ctx, attr);

	if (!EXPECT(qp, "errno %d", errno))
		return;
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		EXPECT(!attr->cap.max_send_wr && !attr->cap.max_inline_data && !qp->send_cq,
		       "a send queue of %u", attr->cap.max_send_wr);
	else
		EXPECT(attr->cap.max_send_wr == 4, "max_send_wr %u", attr->cap.max_send_wr);
	if (has_srq || xrc)
		EXPECT(!attr->cap.max_recv_wr && !attr->cap.max_recv_sge, "a receive queue of %u",
		       attr->cap.max_recv_wr);
	EXPECT(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
}

static void without_masks_rows(struct ibv_qp_init_attr_ex good)
{
	const struct garbage fields[] = {
		GARBAGE(ibv_qp_init_attr_ex, qp_context),
		GARBAGE(ibv_qp_init_attr_ex, xrcd),
		GARBAGE(ibv_qp_init_attr_ex, create_flags),
		GARBAGE(ibv_qp_init_attr_ex, max_tso_header),
		GARBAGE(ibv_qp_init_attr_ex, rwq_ind_tbl),
		GARBAGE(ibv_qp_init_attr_ex, rx_hash_conf),
		GARBAGE(ibv_qp_init_attr_ex, source_qpn),
	};
	const struct garbage send_ops[] = {GARBAGE(ibv_qp_init_attr_ex, send_ops_flags)};

	good.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS; /* not as ibv_create_qp() */
	good.send_ops_flags = IBV_QP_EX_WITH_SEND;
	with_garbage(&good, sizeof(good), fields, COUNT_OF(fields), create_qp);
	good.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	with_garbage(&good, sizeof(good), send_ops, 1, create_qp);
}

static void without_queues_rows(struct ibv_qp_init_attr_ex good)
{
	const struct garbage of_receiver[] = {
		GARBAGE_IN(CAP, ibv_qp_cap, max_recv_wr),
		GARBAGE_IN(CAP, ibv_qp_cap, max_recv_sge),
		GARBAGE(ibv_qp_init_attr_ex, recv_cq),
		GARBAGE(ibv_qp_init_attr_ex, srq),
	};
	const struct garbage of_both[] = {
		GARBAGE_IN(CAP, ibv_qp_cap, max_send_wr),
		GARBAGE_IN(CAP, ibv_qp_cap, max_send_sge),
		GARBAGE_IN(CAP, ibv_qp_cap, max_inline_data),
		GARBAGE_IN(CAP, ibv_qp_cap, max_recv_wr),
		GARBAGE_IN(CAP, ibv_qp_cap, max_recv_sge),
		GARBAGE(ibv_qp_init_attr_ex, send_cq),
		GARBAGE(ibv_qp_init_attr_ex, recv_cq),
		GARBAGE(ibv_qp_init_attr_ex, srq),
		GARBAGE(ibv_qp_init_attr_ex, sq_sig_all),
		GARBAGE(ibv_qp_init_attr_ex, pd),
	};

	good.srq = srq;
	with_garbage(&good, sizeof(good), of_receiver, 2, create_qp);
	good.qp_type = IBV_QPT_XRC_SEND;
	with_garbage(&good, sizeof(good), of_receiver, COUNT_OF(of_receiver), create_qp);
	good.qp_type = IBV_QPT_XRC_RECV;
	good.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	good.xrcd = xrcd;
	with_garbage(&good, sizeof(good), of_both, COUNT_OF(of_both), create_qp);
}

static void qp_rows(void)
{
	const struct ibv_qp_init_attr_ex good = {
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {4, 4, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = n->pd,
	};

	without_masks_rows(good);
	without_queues_rows(good);
}

/* What is asked for, and what is there. */
static void capacity_rows(void)
{
	const uint32_t most = (uint32_t)here.info.device.max_qp_wr;
	const struct {
		struct ibv_qp_cap asked, got;
	} rows[] = {
		{{16, 16, 1, 1, 16}, {16, 16, 1, 1, 64}},
		{{17, 33, 1, 1, 64}, {32, 64, 1, 1, 64}},
		{{3, 5, 2, 2, 65}, {4, 8, 2, 2, 65}},
		{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}},
		{{most, most - 1, 1, 1, 0}, {most, most, 1, 1, 64}},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = n->cq[0],
			.recv_cq = n->cq[1],
			.cap = rows[i].asked,
			.qp_type = IBV_QPT_RC,
		};
		struct ibv_qp_init_attr then;
		struct ibv_qp_attr attr;
		struct ibv_qp *qp;

		row("capacities: %u and %u requests, %u bytes inline", rows[i].asked.max_send_wr,
		    rows[i].asked.max_recv_wr, rows[i].asked.max_inline_data);
		qp = ibv_create_qp(n->pd, &init);
		if (!EXPECT(qp, "errno %d", errno))
			continue;
		EXPECT(memcmp(&init.cap, &rows[i].got, sizeof(init.cap)) == 0,
		       "%u and %u requests, %u bytes", init.cap.max_send_wr, init.cap.max_recv_wr,
		       init.cap.max_inline_data);
		EXPECT(ibv_query_qp(qp, &attr, IBV_QP_CAP, &then) == 0 &&
			       memcmp(&init.cap, &attr.cap, sizeof(init.cap)) == 0 &&
			       memcmp(&init.cap, &then.cap, sizeof(init.cap)) == 0,
		       "queried: %u bytes", attr.cap.max_inline_data);
		EXPECT(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
	}
}

/* --- completion queues, domains, address handles --------------------------------- */

static void create_cq_ex(void *init)
{
	struct ibv_cq_ex *cq = ibv_create_cq_ex(n->ctx, init);

	if (EXPECT(cq, "errno %d", errno))
		EXPECT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0, "ibv_destroy_cq");
}

static void modify_cq(void *attr)
{
	EXPECT(ibv_modify_cq(n->cq[0], attr) == 0, "errno %d", errno);
}

static void make_parent(void *init)
{
	struct ibv_pd *pd = ibv_alloc_parent_domain(n->ctx, init);

	if (EXPECT(pd, "errno %d", errno))
		EXPECT(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
}

static void create_ah(void *attr)
{
	struct ibv_ah *ah = ibv_create_ah(n->pd, attr);

	if (EXPECT(ah, "errno %d", errno))
		EXPECT(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
}

static void open_xrcd(void *attr)
{
	struct ibv_xrcd *made = ibv_open_xrcd(n->ctx, attr);

	if (EXPECT(made, "errno %d", errno))
		EXPECT(ibv_close_xrcd(made) == 0, "ibv_close_xrcd");
}

static void other_rows(void)
{
	const struct ibv_cq_init_attr_ex cq = {.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS};
	const struct ibv_modify_cq_attr moderation = {0};
	const struct ibv_parent_domain_init_attr parent = {.pd = n->pd};
	const struct ibv_ah_attr ah = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = here.info.gid}};
	const struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	const struct garbage in_cq[] = {
		GARBAGE(ibv_cq_init_attr_ex, cq_context),
		GARBAGE(ibv_cq_init_attr_ex, flags),
		GARBAGE(ibv_cq_init_attr_ex, parent_domain),
	};
	const struct garbage in_moderation[] = {
		GARBAGE(ibv_modify_cq_attr, moderate),
		GARBAGE_IN(offsetof(struct ibv_modify_cq_attr, moderate), ibv_moderate_cq,
			   cq_count),
		GARBAGE_IN(offsetof(struct ibv_modify_cq_attr, moderate), ibv_moderate_cq,
			   cq_period),
	};
	const struct garbage in_parent[] = {
		GARBAGE(ibv_parent_domain_init_attr, alloc),
		GARBAGE(ibv_parent_domain_init_attr, free),
		GARBAGE(ibv_parent_domain_init_attr, pd_context),
	};
	const struct garbage in_ah[] = {
		GARBAGE(ibv_ah_attr, dlid),
		GARBAGE(ibv_ah_attr, sl),
		GARBAGE(ibv_ah_attr, src_path_bits),
		GARBAGE(ibv_ah_attr, static_rate),
		GARBAGE_IN(offsetof(struct ibv_ah_attr, grh), ibv_global_route, flow_label),
		GARBAGE_IN(offsetof(struct ibv_ah_attr, grh), ibv_global_route, hop_limit),
		GARBAGE_IN(offsetof(struct ibv_ah_attr, grh), ibv_global_route, traffic_class),
	};
	const struct garbage in_domain[] = {GARBAGE(ibv_xrcd_init_attr, oflags)};

	with_garbage(&cq, sizeof(cq), in_cq, COUNT_OF(in_cq), create_cq_ex);
	with_garbage(&moderation, sizeof(moderation), in_moderation, COUNT_OF(in_moderation),
		     modify_cq);
	with_garbage(&parent, sizeof(parent), in_parent, COUNT_OF(in_parent), make_parent);
	with_garbage(&ah, sizeof(ah), in_ah, COUNT_OF(in_ah), create_ah);
	with_garbage(&domain, sizeof(domain), in_domain, 1, open_xrcd);
}

static void run(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};

	NEED(xrcd = node_open_xrcd(n->ctx));
	NEED(srq = ibv_create_srq(n->pd, &init));
	srq_rows();
	qp_rows();
	capacity_rows();
	other_rows();
	NEED(ibv_destroy_srq(srq) == 0);
	NEED(ibv_close_xrcd(xrcd) == 0);
}

int main(int argc, char **argv)
{
	return fields_test(argc, argv, run);
}
