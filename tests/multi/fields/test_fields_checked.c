/* SPDX-License-Identifier: MIT */
/* What is looked at where little else has a test: masks, sizes, and the error of each. */
#include "fields_fixture.h"

/* One value in one field of an otherwise good structure, and what the call says. */
#define CHECKED(type, member, value, call, want)                                    \
	do {                                                                        \
		struct type attr = good_##type;                                     \
		row(#type "." #member);                                             \
		attr.member = (value);                                              \
		errno = 0;                                                          \
		EXPECT(!(call) && errno == (want), "accepted, or errno %d", errno); \
	} while (0)

static void mask_rows(void)
{
	struct ibv_parent_domain_init_attr good_ibv_parent_domain_init_attr = {.pd = n->pd};
	struct ibv_td_init_attr good_ibv_td_init_attr = {0};
	struct ibv_alloc_dm_attr good_ibv_alloc_dm_attr = {.length = 64};
	struct ibv_xrcd_init_attr good_ibv_xrcd_init_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_cq_init_attr_ex good_ibv_cq_init_attr_ex = {.cqe = 4};
	struct ibv_modify_cq_attr good_ibv_modify_cq_attr = {0};
	const struct ibv_query_device_ex_input input = {.comp_mask = 1};
	struct ibv_values_ex good_ibv_values_ex = {0};
	struct ibv_qp_open_attr good_ibv_qp_open_attr = {0};
	struct ibv_device_attr_ex device;

	CHECKED(ibv_parent_domain_init_attr, comp_mask, 8, ibv_alloc_parent_domain(n->ctx, &attr),
		EOPNOTSUPP);
	CHECKED(ibv_parent_domain_init_attr, pd, NULL, ibv_alloc_parent_domain(n->ctx, &attr),
		EINVAL);
	CHECKED(ibv_td_init_attr, comp_mask, 1, ibv_alloc_td(n->ctx, &attr), EINVAL);
	CHECKED(ibv_alloc_dm_attr, comp_mask, 1, ibv_alloc_dm(n->ctx, &attr), EINVAL);
	CHECKED(ibv_alloc_dm_attr, length, 0, ibv_alloc_dm(n->ctx, &attr), EINVAL);
	CHECKED(ibv_alloc_dm_attr, log_align_req, 13, ibv_alloc_dm(n->ctx, &attr), EINVAL);
	CHECKED(ibv_xrcd_init_attr, comp_mask, 0, ibv_open_xrcd(n->ctx, &attr), EINVAL);
	CHECKED(ibv_xrcd_init_attr, comp_mask, 4, ibv_open_xrcd(n->ctx, &attr), EOPNOTSUPP);
	CHECKED(ibv_xrcd_init_attr, fd, -2, ibv_open_xrcd(n->ctx, &attr), EBADF);
	CHECKED(ibv_cq_init_attr_ex, comp_mask, 4, ibv_create_cq_ex(n->ctx, &attr), EINVAL);
	CHECKED(ibv_cq_init_attr_ex, cqe, 0, ibv_create_cq_ex(n->ctx, &attr), EINVAL);
	CHECKED(ibv_cq_init_attr_ex, comp_vector, 1 << 20, ibv_create_cq_ex(n->ctx, &attr), EINVAL);
	CHECKED(ibv_cq_init_attr_ex, wc_flags, 1 << 12, ibv_create_cq_ex(n->ctx, &attr),
		EOPNOTSUPP);
	CHECKED(ibv_modify_cq_attr, attr_mask, 2, !ibv_modify_cq(n->cq[0], &attr), EINVAL);
	CHECKED(ibv_values_ex, comp_mask, 2, !ibv_query_rt_values_ex(n->ctx, &attr), EINVAL);
	CHECKED(ibv_qp_open_attr, comp_mask, 0, ibv_open_qp(n->ctx, &attr), EINVAL);
	CHECKED(ibv_qp_open_attr, comp_mask, 1 << 4, ibv_open_qp(n->ctx, &attr), EOPNOTSUPP);
	row("(ibv_query_device_ex_input, comp_mask)");
	EXPECT(ibv_query_device_ex(n->ctx, &input, &device) == EINVAL, "accepted");
}

static void srq_rows(void)
{
	struct ibv_srq_init_attr good_ibv_srq_init_attr = {.attr = {.max_wr = 4}};

	CHECKED(ibv_srq_init_attr, attr.max_wr, 1 << 30, ibv_create_srq(n->pd, &attr), EINVAL);
	CHECKED(ibv_srq_init_attr, attr.max_sge, 1 << 20, ibv_create_srq(n->pd, &attr), EINVAL);
}

static void ah_rows(void)
{
	struct ibv_ah_attr good_ibv_ah_attr = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = here.info.gid}};

	CHECKED(ibv_ah_attr, port_num, 2, ibv_create_ah(n->pd, &attr), EINVAL);
	CHECKED(ibv_ah_attr, is_global, 0, ibv_create_ah(n->pd, &attr), EINVAL);
	CHECKED(ibv_ah_attr, grh.sgid_index, 0xa5, ibv_create_ah(n->pd, &attr), EINVAL);
}

static void poll_row(void)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 4};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(n->ctx, &init);
	struct ibv_poll_cq_attr attr = {.comp_mask = 1};

	NEED(cq);
	row("(ibv_poll_cq_attr, comp_mask)");
	EXPECT(ibv_start_poll(cq, &attr) == EINVAL, "accepted");
	row("the same without a bit: nothing to poll");
	attr.comp_mask = 0;
	EXPECT(ibv_start_poll(cq, &attr) == ENOENT, "refused");
	NEED(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

static void run(void)
{
	mask_rows();
	srq_rows();
	ah_rows();
	poll_row();
}

int main(int argc, char **argv)
{
	return fields_test(argc, argv, run);
}
