/* SPDX-License-Identifier: MIT */
/* Queues that are made too large or too small, or destroyed in the wrong order. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/expect.h"
#include "mistakes.h"

static void large_cq(void)
{
	EXPECT_NULL(ibv_create_cq(scene.ctx, 100000000, NULL, NULL, 0), EINVAL);
}

static void negative_cq(void)
{
	EXPECT_NULL(ibv_create_cq(scene.ctx, -1, NULL, NULL, 0), EINVAL);
}

static void negative_vector(void)
{
	printed("%d", scene.ctx->num_comp_vectors);
	EXPECT_NULL(ibv_create_cq(scene.ctx, 16, NULL, NULL, -1), EINVAL);
}

static void negative_elements(void)
{
	struct ibv_recv_wr wr = {.num_sge = -1}, *bad;

	need(IBV_QPT_RC);
	connect_both();
	EXPECT_RET(ibv_post_recv(scene.qp[0], &wr, &bad), EINVAL);
}

static void many_vectors(void)
{
	printed("%d", scene.ctx->num_comp_vectors);
	EXPECT_NULL(ibv_create_cq(scene.ctx, 16, NULL, NULL, 1000), EINVAL);
}

static void small_cq(void)
{
	struct ibv_qp_init_attr init = usual(IBV_QPT_RC);
	struct ibv_cq *cq = ibv_create_cq(scene.ctx, 1, NULL, NULL, 0);
	struct ibv_async_event event;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	NEED(cq);
	printed("%u", cq->handle);
	need(IBV_QPT_RC);
	NEED(ibv_destroy_qp(scene.qp[0]) == 0);
	init.send_cq = cq;
	scene.qp[0] = ibv_create_qp(scene.pd, &init);
	NEED(scene.qp[0]);
	scene.qpn[0] = scene.qp[0]->qp_num;
	connect_both();
	wr = request(IBV_WR_RDMA_WRITE, &sge);
	for (int i = 0; i < 2; i++)
		(void)post(&wr);
	for (int i = 0; i < 2; i++) { /* of the CQ, and of the queue pair */
		NEED(ibv_get_async_event(scene.ctx, &event) == 0);
		ibv_ack_async_event(&event);
	}
	NEED(ibv_destroy_qp(scene.qp[0]) == 0 && ibv_destroy_cq(cq) == 0);
	scene.qp[0] = NULL;
}

/* --- queue pairs that the device does not have ------------------------------------ */

static void not_made(struct ibv_qp_init_attr init)
{
	EXPECT_NULL(ibv_create_qp(scene.pd, &init), EINVAL);
}

#define WRONG(function, assignment)                               \
	static void function(void)                                \
	{                                                         \
		struct ibv_qp_init_attr init = usual(IBV_QPT_RC); \
                                                                  \
		init.assignment;                                  \
		not_made(init);                                   \
	}
WRONG(many_sends, cap.max_send_wr = 1000000)
WRONG(many_recvs, cap.max_recv_wr = 1000000)
WRONG(many_sges, cap.max_send_sge = 1000)
WRONG(long_inline, cap.max_inline_data = 5000)
WRONG(no_send_cq, send_cq = NULL)
WRONG(no_type, qp_type = (enum ibv_qp_type)0)

static void raw_packets(void)
{
	struct ibv_qp_init_attr init = usual(IBV_QPT_RAW_PACKET);

	EXPECT_NULL(ibv_create_qp(scene.pd, &init), EOPNOTSUPP);
}

static void adapters_own_type(void)
{
	struct ibv_qp_init_attr init = usual(IBV_QPT_DRIVER);

	EXPECT_NULL(ibv_create_qp(scene.pd, &init), EOPNOTSUPP);
}

/* --- shared receive queues -------------------------------------------------------- */

static struct ibv_srq *make_srq(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(scene.pd, &init);

	NEED(srq);
	return srq;
}

static void recv_beside_srq(void)
{
	struct ibv_srq *srq = make_srq();
	struct ibv_qp_init_attr init = usual(IBV_QPT_RC);
	struct ibv_recv_wr wr = {.wr_id = WR_ID}, *bad;

	init.srq = srq;
	scene.qp[0] = ibv_create_qp(scene.pd, &init);
	NEED(scene.qp[0]);
	scene.qpn[0] = scene.qp[0]->qp_num;
	EXPECT_RET(ibv_post_recv(scene.qp[0], &wr, &bad), EINVAL);
	NEED(ibv_destroy_qp(scene.qp[0]) == 0 && ibv_destroy_srq(srq) == 0);
	scene.qp[0] = NULL;
}

static void srq_limit(void)
{
	struct ibv_srq_attr attr = {.srq_limit = 100};
	struct ibv_srq *srq = make_srq();

	EXPECT_RET(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	NEED(ibv_destroy_srq(srq) == 0);
}

static void large_srq(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 10000000, .max_sge = 1}};

	EXPECT_NULL(ibv_create_srq(scene.pd, &init), EINVAL);
}

static void full_srq(void)
{
	struct ibv_srq *srq = make_srq();
	struct ibv_recv_wr wr = {.wr_id = WR_ID}, *bad;
	int ret = 0;

	for (int i = 0; i < 1000 && ret == 0; i++)
		ret = ibv_post_srq_recv(srq, &wr, &bad);
	EXPECT(ret == ENOMEM, "returned %d", ret);
	NEED(ibv_destroy_srq(srq) == 0);
}

/* --- destroying in the wrong order ------------------------------------------------ */

static void pd_first(void)
{
	struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1, .grh.dgid = scene.gid};
	struct ibv_mw *mw = ibv_alloc_mw(scene.pd, IBV_MW_TYPE_1);
	struct ibv_ah *ah = ibv_create_ah(scene.pd, &attr);
	struct ibv_srq *srq = make_srq();

	need(IBV_QPT_RC);
	NEED(mw && ah);
	EXPECT_RET(ibv_dealloc_pd(scene.pd), EBUSY);
	NEED(ibv_dealloc_mw(mw) == 0 && ibv_destroy_ah(ah) == 0 && ibv_destroy_srq(srq) == 0);
}

/* What another thread of control, or a library, has imported is counted by itself. */
static void imported_pd_first(void)
{
	struct ibv_context *ctx = ibv_import_device(dup(scene.ctx->cmd_fd));
	struct ibv_pd *pd = ibv_import_pd(ctx, scene.pd->handle);
	struct ibv_mr *mr = ibv_reg_mr(pd, scene.buf, BYTES, 0);

	NEED(mr);
	printed("%d", getpid());
	EXPECT_RET(ibv_dealloc_pd(pd), EBUSY);
	NEED(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(ctx) == 0);
}

static void cq_first(void)
{
	need(IBV_QPT_RC);
	EXPECT_RET(ibv_destroy_cq(scene.cq), EBUSY);
}

static void channel_first(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(scene.ctx);
	struct ibv_cq *cq = ibv_create_cq(scene.ctx, 1, NULL, channel, 0);

	NEED(channel && cq);
	EXPECT_RET(ibv_destroy_comp_channel(channel), EBUSY);
	NEED(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
}

static void srq_first(void)
{
	struct ibv_srq *srq = make_srq();
	struct ibv_qp_init_attr init = usual(IBV_QPT_RC);

	init.srq = srq;
	scene.qp[0] = ibv_create_qp(scene.pd, &init);
	NEED(scene.qp[0]);
	EXPECT_RET(ibv_destroy_srq(srq), EBUSY);
	NEED(ibv_destroy_qp(scene.qp[0]) == 0 && ibv_destroy_srq(srq) == 0);
	scene.qp[0] = NULL;
}

static void qp_in_group(void)
{
	const union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};

	need(IBV_QPT_UD);
	NEED(ibv_attach_mcast(scene.qp[0], &group, 0) == 0);
	EXPECT_RET(ibv_destroy_qp(scene.qp[0]), EBUSY);
	NEED(ibv_detach_mcast(scene.qp[0], &group, 0) == 0);
}

static void device_memory_first(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm *dm = ibv_alloc_dm(scene.ctx, &attr);
	struct ibv_mr *mr;

	NEED(dm);
	mr = ibv_reg_dm_mr(scene.pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	NEED(mr);
	EXPECT_RET(ibv_free_dm(dm), EBUSY);
	NEED(ibv_dereg_mr(mr) == 0 && ibv_free_dm(dm) == 0);
}

static void twice(void)
{
	struct ibv_mr *mr = reg(scene.pd, ALL_ACCESS), copy = *mr;

	NEED(ibv_dereg_mr(mr) == 0);
	EXPECT_RET(ibv_dereg_mr(&copy), ENOENT);
}

/* clang-format off */
static const struct mistake mistakes[] = {
	{"CQ too large", large_cq,
	 "ibv_create_cq: 100000000 entries; a completion queue may have 1 to 1048575 (EINVAL)"},
	{"negative number of entries", negative_cq,
	 "ibv_create_cq: -1 entries; a completion queue may have 1 to 1048575 (EINVAL)"},
	{"negative completion vector", negative_vector,
	 "ibv_create_cq: comp_vector -1; the device has <number> (EINVAL)"},
	{"negative number of elements", negative_elements,
	 "ibv_post_recv of QP <qp0>: -1 elements; a request may have at most 1 (EINVAL)"},
	{"completion vector that is not there", many_vectors,
	 "ibv_create_cq: comp_vector 1000; the device has <number> (EINVAL)"},
	{"CQ too small", small_cq,
	 "CQ <number>: a completion did not fit: all 1 entries are waiting to be polled (IBV_EVENT_CQ_ERR)"},
	{"max_send_wr too large", many_sends,
	 "ibv_create_qp: max_send_wr 1000000 is above the device's 16384 (EINVAL)"},
	{"max_recv_wr too large", many_recvs,
	 "ibv_create_qp: max_recv_wr 1000000 is above the device's 16384 (EINVAL)"},
	{"DC", adapters_own_type,
	 "ibv_create_qp: the device has no queue pairs of type DRIVER (an adapter's own, such as DC) (EOPNOTSUPP)"},
	{"max_send_sge too large", many_sges,
	 "ibv_create_qp: max_send_sge 1000 is above the device's 32 (EINVAL)"},
	{"max_inline_data too large", long_inline,
	 "ibv_create_qp: max_inline_data 5000 is above the device's 1024 (EINVAL)"},
	{"send_cq not set", no_send_cq,
	 "ibv_create_qp: send_cq is not a completion queue of this context (EINVAL)"},
	{"qp_type not set", no_type,
	 "ibv_create_qp: queue pair type 0 does not exist (EINVAL)"},
	{"raw packets", raw_packets,
	 "ibv_create_qp: the device has no queue pairs of type RAW_PACKET (EOPNOTSUPP)"},
	{"receive posted beside the SRQ", recv_beside_srq,
	 "ibv_post_recv of QP <qp0>: the queue pair has no receive queue of its own: it receives from an SRQ (EINVAL)"},
	{"SRQ's limit above its size", srq_limit,
	 "ibv_modify_srq: srq_limit 100; the queue holds 4 requests (EINVAL)"},
	{"SRQ too large", large_srq,
	 "ibv_create_srq: max_wr 10000000; a shared receive queue may have at most 16384 (EINVAL)"},
	{"SRQ full", full_srq,
	 "ibv_post_srq_recv: the receive queue is full: 4 requests (ENOMEM)"},
	{"PD deallocated first", pd_first,
	 "ibv_dealloc_pd: the protection domain still has 1 MR, 1 MW, 2 QPs, 1 SRQ, 1 AH (EBUSY)"},
	{"imported PD deallocated first", imported_pd_first,
	 "ibv_dealloc_pd: this process still has 1 MR on the protection domain, which it imported from process <number> (EBUSY)"},
	{"CQ destroyed first", cq_first,
	 "ibv_destroy_cq: 4 send or receive queue(s) still complete to it (EBUSY)"},
	{"channel destroyed first", channel_first,
	 "ibv_destroy_comp_channel: 1 completion queue(s) still use the channel (EBUSY)"},
	{"SRQ destroyed first", srq_first,
	 "ibv_destroy_srq: queue pairs still receive from it (EBUSY)"},
	{"queue pair destroyed in its group", qp_in_group,
	 "ibv_destroy_qp: the queue pair is still attached to 1 multicast group(s) (EBUSY)"},
	{"device memory freed first", device_memory_first,
	 "ibv_free_dm: the object is still in use (EBUSY)"},
	{"region deregistered twice", twice,
	 "ibv_dereg_mr: there is no such object: it was destroyed, belongs to another context, or its structure was overwritten (ENOENT)"},
};
/* clang-format on */

void make_queue_mistakes(void)
{
	run_mistakes(mistakes, COUNT_OF(mistakes));
}
