/* SPDX-License-Identifier: MIT */
/* Fields that count and have no other test: what comes of their values. */
#include "fields_fixture.h"

#include "lib/to_rts.h"

#define KEEPS 256u /* bytes apart: what requests read, and what they write */

/* A queue pair that is connected to itself. */
static struct ibv_qp *looped_qp(struct ibv_qp_init_attr_ex *init)
{
	struct ibv_qp *qp = ibv_create_qp_ex(n->ctx, init);

	NEED(qp);
	NEED(connect_qp(qp, connect_attr(qp->qp_num, &here.info.gid)) == 0);
	return qp;
}

static struct ibv_qp_init_attr_ex usual_qp(void)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {4, 4, 1, 1, 64},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = n->pd,
	};
}

/* One completion of success, and no other. */
static void expect_one(int which)
{
	struct ibv_wc wc;

	EXPECT(node_poll(n, which, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "status %d", (int)wc.status);
	EXPECT(ibv_poll_cq(n->cq[which], 1, &wc) == 0, "a second completion");
}

static void srq_rows(void)
{
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_context *other = ibv_open_device(n->ctx->device);
	struct ibv_pd *other_pd;
	struct ibv_srq *srq, *other_srq;
	struct ibv_qp_init_attr init = {.send_cq = n->cq[0],
					.recv_cq = n->cq[1],
					.cap = {4, 4, 1, 1, 0},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp;

	NEED(other && (other_pd = ibv_alloc_pd(other)));
	NEED(srq = ibv_create_srq(n->pd, &srq_init));
	NEED(other_srq = ibv_create_srq(other_pd, &srq_init));
	row("(ibv_qp_init_attr, srq): of another context");
	init.srq = other_srq;
	errno = 0;
	EXPECT(!ibv_create_qp(n->pd, &init) && errno == EINVAL, "accepted, or errno %d", errno);
	row("ibv_qp_init_attr.srq: then there is no receive queue");
	init.srq = srq;
	qp = ibv_create_qp(n->pd, &init);
	if (EXPECT(qp, "errno %d", errno)) {
		EXPECT(qp->srq == srq && init.cap.max_recv_wr == 0, "%u receive requests",
		       init.cap.max_recv_wr);
		EXPECT(ibv_destroy_srq(srq) == EBUSY, "its SRQ was destroyed");
		NEED(ibv_destroy_qp(qp) == 0);
	}
	NEED(ibv_destroy_srq(srq) == 0 && ibv_destroy_srq(other_srq) == 0);
	NEED(ibv_dealloc_pd(other_pd) == 0 && ibv_close_device(other) == 0);
}

static void mask_rows(void)
{
	struct ibv_qp_init_attr_ex init = usual_qp();

	row("(ibv_qp_init_attr_ex, comp_mask): a bit that is newer than the library");
	init.comp_mask |= 1u << 30;
	errno = 0;
	EXPECT(!ibv_create_qp_ex(n->ctx, &init) && errno == EOPNOTSUPP, "accepted, or errno %d",
	       errno);
	row("ibv_qp_init_attr_ex.comp_mask: without a protection domain");
	init.comp_mask = 0;
	errno = 0;
	EXPECT(!ibv_create_qp_ex(n->ctx, &init) && errno == EINVAL, "accepted, or errno %d", errno);
}

static void open_rows(void)
{
	struct ibv_xrcd *xrcd = node_open_xrcd(n->ctx);
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct ibv_qp_open_attr attr = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						     IBV_QP_OPEN_ATTR_TYPE,
					.qp_type = IBV_QPT_XRC_RECV,
					.xrcd = xrcd,
					.qp_context = &attr};
	struct ibv_qp *qp, *opened;

	NEED(xrcd && (qp = ibv_create_qp_ex(n->ctx, &init)));
	attr.qp_num = qp->qp_num;
	for (int masked = 0; masked < 2; masked++) {
		row("(ibv_qp_open_attr, qp_context)%s", masked ? "" : ", without its bit");
		if (masked)
			attr.comp_mask |= IBV_QP_OPEN_ATTR_CONTEXT;
		opened = ibv_open_qp(n->ctx, &attr);
		if (!EXPECT(opened, "errno %d", errno))
			continue;
		EXPECT(opened->qp_context == (masked ? &attr : NULL), "%p", opened->qp_context);
		NEED(ibv_destroy_qp(opened) == 0);
	}
	NEED(ibv_destroy_qp(qp) == 0 && ibv_close_xrcd(xrcd) == 0);
}

/* The first of two binds says nothing, and the second one's completion is the only one. */
static void bind_rows(void)
{
	struct ibv_qp_init_attr_ex init = usual_qp();
	struct ibv_qp *qp = looped_qp(&init);
	struct ibv_mr *mr =
		ibv_reg_mr(n->pd, n->arena, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.bind_info = {.mr = mr,
						 .addr = (uintptr_t)n->arena,
						 .length = 64,
						 .mw_access_flags = IBV_ACCESS_REMOTE_READ}};

	NEED(mr && mw);
	row("(ibv_mw_bind, send_flags): signalled or not");
	EXPECT(ibv_bind_mw(qp, mw, &bind) == 0, "not signalled: refused");
	bind.send_flags = IBV_SEND_SIGNALED;
	EXPECT(ibv_bind_mw(qp, mw, &bind) == 0, "signalled: refused");
	expect_one(0);
	NEED(ibv_destroy_qp(qp) == 0 && ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0);
}

static int write_inline(struct ibv_qp_ex *ex, const struct ibv_data_buf *list, size_t count)
{
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, n->mr[KEY_FULL]->rkey, (uintptr_t)n->arena + KEEPS);
	ibv_wr_set_inline_data_list(ex, count, list);
	return ibv_wr_complete(ex);
}

static void inline_rows(void)
{
	static char bytes[] = "abcdefgh";
	struct ibv_data_buf list[] = {{bytes + 4, 4}, {bytes, 0}, {bytes, 3}};
	struct ibv_qp_init_attr_ex init = usual_qp();
	uint8_t *to = n->arena + KEEPS;
	struct ibv_qp *qp;

	init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
	qp = looped_qp(&init);
	row("(ibv_data_buf, addr): the pieces arrive in the order of the list");
	memset(to, '.', 8);
	EXPECT(write_inline(ibv_qp_to_qp_ex(qp), list, COUNT_OF(list)) == 0, "refused");
	expect_one(0);
	EXPECT(memcmp(to, "efghabc.", 8) == 0, "%.8s", (char *)to);
	row("(ibv_data_buf, length): their sum is within max_inline_data");
	list[2].length = init.cap.max_inline_data - 3;
	EXPECT(write_inline(ibv_qp_to_qp_ex(qp), list, COUNT_OF(list)) == EINVAL, "accepted");
	EXPECT(memcmp(to, "efghabc.", 8) == 0, "something was written: %.8s", (char *)to);
	NEED(ibv_destroy_qp(qp) == 0);
}

static void run(void)
{
	srq_rows();
	mask_rows();
	open_rows();
	bind_rows();
	inline_rows();
}

int main(int argc, char **argv)
{
	return fields_test(argc, argv, run);
}
