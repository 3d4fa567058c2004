/* SPDX-License-Identifier: MIT */
/*
 * Limits are what the device really does: of each kind of object, as many as the attributes say can
 * be made, in one process, and not one more; and each object as large as they say.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/sandbox.h"

static struct ibv_context *ctx;
static struct ibv_device_attr dev;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint8_t page[4096];

static void *make_pd(void)
{
	return ibv_alloc_pd(ctx);
}

static void *make_mr(void)
{
	return ibv_reg_mr(pd, page, sizeof(page), IBV_ACCESS_LOCAL_WRITE);
}

static void *make_cq(void)
{
	return ibv_create_cq(ctx, 1, NULL, NULL, 0);
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(pd, &init);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};

	return ibv_create_srq(pd, &init);
}

static int end_pd(void *object)
{
	return ibv_dealloc_pd(object);
}

static int end_mr(void *object)
{
	return ibv_dereg_mr(object);
}

static int end_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static int end_qp(void *object)
{
	return ibv_destroy_qp(object);
}

static int end_srq(void *object)
{
	return ibv_destroy_srq(object);
}

/* @already: how many there are before. */
static void number_row(const char *what, int limit, int already, void *(*make)(void),
		       int (*end)(void *))
{
	void **object = calloc((size_t)limit + 1, sizeof(*object));
	int n = 0, ended = 0;

	row("%s: %d and not one more", what, limit);
	EXPECT(object, "memory for the test");
	while (object && n <= limit && (object[n] = make()))
		n++;
	EXPECT(n + already == limit, "%d could be made", n + already);
	EXPECT(errno == ENOMEM, "errno %d", errno);
	while (ended < n && end(object[ended]) == 0)
		ended++;
	EXPECT(ended == n, "only %d could be ended", ended);
	free(object);
}

static void size_row(void)
{
	struct ibv_cq *large =
		ibv_create_cq(ctx, dev.max_cqe, NULL, NULL, ctx->num_comp_vectors - 1);
	struct ibv_qp_init_attr init = {
		.send_cq = large,
		.recv_cq = large,
		.cap = {.max_send_wr = (uint32_t)dev.max_qp_wr,
			.max_recv_wr = (uint32_t)dev.max_qp_wr,
			.max_send_sge = (uint32_t)dev.max_sge,
			.max_recv_sge = (uint32_t)dev.max_sge},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp;

	row("the largest CQ and the largest queue pair");
	EXPECT(large, "CQ: errno %d", errno);
	qp = large ? ibv_create_qp(pd, &init) : NULL;
	EXPECT(qp, "queue pair: errno %d", errno);
	EXPECT(!qp || ibv_destroy_qp(qp) == 0, "destroying it");
	EXPECT(!large || ibv_destroy_cq(large) == 0, "destroying the CQ");
}

int main(void)
{
	sandbox_begin(230);
	ctx = node_open_device();
	EXPECT(ibv_query_device(ctx, &dev) == 0, "query_device");
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);
	number_row("PDs", dev.max_pd, 1, make_pd, end_pd);
	number_row("MRs", dev.max_mr, 0, make_mr, end_mr);
	number_row("CQs", dev.max_cq, 1, make_cq, end_cq);
	number_row("QPs", dev.max_qp, 0, make_qp, end_qp);
	number_row("SRQs", dev.max_srq, 0, make_srq, end_srq);
	size_row();
	EXPECT(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(ctx) == 0,
	       "the end");
	return sandbox_end();
}
