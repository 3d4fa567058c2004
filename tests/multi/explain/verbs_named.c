/* SPDX-License-Identifier: MIT */
/* Verbs on a device that behaves as siw. Opened last: records name the device from then on. */
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void open_named(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	size_t i = 0;

	NEED(list);
	while (list[i] && strcmp(list[i]->name, "siw0"))
		i++;
	NEED(list[i]);
	ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	NEED(ctx);
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	NEED(pd && cq);
}

static struct ibv_qp *create_named_qp(uint64_t type)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = (enum ibv_qp_type)type,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 2, .max_recv_sge = 1},
	};

	return ibv_create_qp(pd, &attr);
}

static int named_window(uint64_t verb)
{
	return failed(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
}

static int named_qp(uint64_t type)
{
	return failed(create_named_qp(type));
}

static int named_region(uint64_t access)
{
	return failed(ibv_reg_mr(pd, &ctx, sizeof(ctx), (int)access));
}

static int post_to_named(enum ibv_wr_opcode opcode, int elements)
{
	struct ibv_send_wr wr = {.opcode = opcode, .num_sge = elements}, *bad;
	struct ibv_qp *qp = create_named_qp(IBV_QPT_RC);
	int ret;

	NEED(qp);
	ret = ibv_post_send(qp, &wr, &bad);
	ibv_destroy_qp(qp);
	return -ret; /* siw's are negative */
}

static int named_request(uint64_t opcode)
{
	return post_to_named((enum ibv_wr_opcode)opcode, 1);
}

static int named_read(uint64_t elements)
{
	return post_to_named(IBV_WR_RDMA_READ, (int)elements);
}

/* clang-format off */
static const struct verb_row rows[] = {
	{"verb of no siw",      "ibv_alloc_mw",  AV_CHECK_MODEL_VERB,   EOPNOTSUPP, named_window, 0, AV_VERB_ALLOC_MW, 0, false},
	{"QP type of no siw",   "ibv_create_qp", AV_CHECK_MODEL_TYPE,   EOPNOTSUPP, named_qp, IBV_QPT_UD, IBV_QPT_UD, 0, false},
	{"access of no siw",    "ibv_reg_mr",    AV_CHECK_MODEL_ACCESS, EOPNOTSUPP, named_region, IBV_ACCESS_ON_DEMAND, IBV_ACCESS_ON_DEMAND, 0, false},
	{"request of no siw",   "ibv_post_send", AV_CHECK_MODEL_OPCODE, EINVAL, named_request, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, false},
	{"elements of no siw",  "ibv_post_send", AV_CHECK_MODEL_READ,   EINVAL, named_read, 2, 2, 1, false},
};
/* clang-format on */

void seed_named(void)
{
	open_named();
	recorder_device = "siw0";
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		verb_run(&rows[i]);
	EXPECT(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx), "closing");
}
