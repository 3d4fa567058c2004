/* SPDX-License-Identifier: MIT */
/* Objects with damaged handles, objects of another context, and objects in use: each call refuses
 * them. */
#include "bad_input_fixture.h"

enum victim { VICTIM_PD, VICTIM_MR, VICTIM_CQ, VICTIM_QP };

struct victims {
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void create_victims(struct victims *v)
{
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	v->pd = ibv_alloc_pd(n->ctx);
	v->mr = ibv_reg_mr(v->pd, n->arena, PAGE, IBV_ACCESS_LOCAL_WRITE);
	v->cq = ibv_create_cq(n->ctx, 10, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = v->cq;
	v->qp = v->cq ? ibv_create_qp(v->pd, &attr) : NULL;
	if (!v->pd || !v->mr || !v->cq || !v->qp)
		DIE("objects: errno %d", errno);
}

static void destroy_victims(struct victims *v)
{
	EXPECT_RET(ibv_destroy_qp(v->qp), 0);
	EXPECT_RET(ibv_destroy_cq(v->cq), 0);
	EXPECT_RET(ibv_dereg_mr(v->mr), 0);
	EXPECT_RET(ibv_dealloc_pd(v->pd), 0);
}

/* --- damaged handles ------------------------------------------------------------- */

static void use_damaged_pd(struct victims *v)
{
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	attr.send_cq = attr.recv_cq = v->cq;
	EXPECT_RET(ibv_dealloc_pd(v->pd), ENOENT);
	EXPECT_NULL(ibv_reg_mr(v->pd, n->arena, PAGE, 0), ENOENT);
	EXPECT(!ibv_create_qp(v->pd, &attr), "ibv_create_qp accepts it");
}

static void use_damaged_mr(struct victims *v)
{
	EXPECT_RET(ibv_dereg_mr(v->mr), ENOENT);
}

static void use_damaged_cq(struct victims *v)
{
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_wc wc;
	int ret;

	attr.send_cq = attr.recv_cq = v->cq;
	EXPECT_RET(ibv_destroy_cq(v->cq), ENOENT);
	EXPECT(!ibv_create_qp(v->pd, &attr), "ibv_create_qp accepts it");
	ret = ibv_req_notify_cq(v->cq, 0);
	EXPECT(ret == ENOENT || ret == EFAULT || ret == EINVAL, "ibv_req_notify_cq: %d", ret);
	EXPECT(ibv_poll_cq(v->cq, 1, &wc) < 0, "ibv_poll_cq accepts it");
}

static bool refused(int ret)
{
	return (ret == ENOENT || ret == EINVAL) && errno == ret;
}

static void use_damaged_qp(struct victims *v)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_init_attr init;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
	struct ibv_recv_wr receive = {0}, *bad_receive = NULL;

	EXPECT(refused(ibv_destroy_qp(v->qp)), "ibv_destroy_qp: errno %d", errno);
	EXPECT(refused(ibv_modify_qp(v->qp, &attr, IBV_QP_STATE)), "ibv_modify_qp: errno %d",
	       errno);
	EXPECT(refused(ibv_query_qp(v->qp, &attr, IBV_QP_STATE, &init)), "ibv_query_qp: errno %d",
	       errno);
	EXPECT(ibv_post_send(v->qp, &send, &bad_send) && bad_send == &send, "ibv_post_send");
	EXPECT(ibv_post_recv(v->qp, &receive, &bad_receive) && bad_receive == &receive,
	       "ibv_post_recv");
}

static uint32_t *handle_of(struct victims *v, enum victim which)
{
	switch (which) {
	case VICTIM_PD:
		return &v->pd->handle;
	case VICTIM_MR:
		return &v->mr->handle;
	case VICTIM_CQ:
		return &v->cq->handle;
	default:
		return &v->qp->handle;
	}
}

static void handle_rows(void)
{
	static const char *const name[] = {"PD", "MR", "CQ", "QP"};
	static void (*const use[])(struct victims *) = {use_damaged_pd, use_damaged_mr,
							use_damaged_cq, use_damaged_qp};

	for (enum victim which = VICTIM_PD; which <= VICTIM_QP; which++) {
		struct victims v;
		uint32_t *handle, good, bad[5];

		create_victims(&v);
		handle = handle_of(&v, which);
		good = *handle;
		bad[0] = good ^ 0xdeadbeef;
		bad[1] = 0;
		bad[2] = UINT32_MAX;
		bad[3] = good + 1;
		bad[4] = good - 1;
		for (size_t i = 0; i < COUNT_OF(bad); i++) {
			row("%s with handle 0x%x instead of 0x%x is unknown", name[which], bad[i],
			    good);
			*handle = bad[i];
			errno = 0;
			use[which](&v);
		}
		row("%s works after its handle is restored", name[which]);
		*handle = good;
		destroy_victims(&v);
	}
}

static void context_rows(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(n->ctx);

	row("dealloc_pd: a PD of another context is unknown");
	pd->context = m->ctx;
	EXPECT_RET(ibv_dealloc_pd(pd), ENOENT);
	pd->context = n->ctx;
	EXPECT_RET(ibv_dealloc_pd(pd), 0);
}

/* --- objects in use -------------------------------------------------------------- */

static void busy_rows(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(n->ctx);
	struct ibv_cq *other = ibv_create_cq(n->ctx, 10, NULL, channel, 0);
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct victims v;
	struct ibv_qp *qp;

	create_victims(&v);
	row("dealloc_pd: a PD with an MR and a QP is busy");
	EXPECT_RET(ibv_dealloc_pd(v.pd), EBUSY);
	row("destroy_cq: a CQ that a QP sends and receives with is busy");
	EXPECT_RET(ibv_destroy_cq(v.cq), EBUSY);
	row("destroy_comp_channel: a channel with a CQ is busy");
	EXPECT_RET(ibv_destroy_comp_channel(channel), EBUSY);
	attr.send_cq = v.cq;
	attr.recv_cq = other;
	qp = ibv_create_qp(v.pd, &attr);
	NEED(qp);
	row("destroy_cq: a CQ that a QP only receives with is busy");
	EXPECT_RET(ibv_destroy_cq(other), EBUSY);
	EXPECT_RET(ibv_destroy_qp(v.qp), 0);
	row("destroy_cq: a CQ that a QP only sends with is busy");
	EXPECT_RET(ibv_destroy_cq(v.cq), EBUSY);
	EXPECT_RET(ibv_destroy_qp(qp), 0);
	row("dealloc_pd: a PD with an MR is busy");
	EXPECT_RET(ibv_dealloc_pd(v.pd), EBUSY);
	EXPECT_RET(ibv_dereg_mr(v.mr), 0);
	row("what was busy goes once it is free");
	EXPECT_RET(ibv_dealloc_pd(v.pd), 0);
	EXPECT_RET(ibv_destroy_cq(v.cq), 0);
	EXPECT_RET(ibv_destroy_cq(other), 0);
	EXPECT_RET(ibv_destroy_comp_channel(channel), 0);
}

/* Its number leads nowhere, and its place may be another queue pair's. */
static void opened_rows(void)
{
	struct ibv_xrcd *xrcd = node_open_xrcd(n->ctx);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp *qp, *opened;

	NEED(xrcd && (qp = node_create_xrc_recv(n->ctx, xrcd)));
	opened = node_open_xrc_recv(n->ctx, xrcd, qp->qp_num);
	NEED(opened);
	row("an opened queue pair is there");
	EXPECT_RET(ibv_query_qp(opened, &attr, IBV_QP_STATE, &init_attr), 0);
	NEED(ibv_destroy_qp(qp) == 0);
	row("an opened queue pair whose creator has destroyed it is not there");
	EXPECT_RET(ibv_query_qp(opened, &attr, IBV_QP_STATE, &init_attr), EINVAL);
	EXPECT_RET(ibv_modify_qp(opened, &attr, IBV_QP_STATE), EINVAL);
	EXPECT_RET(ibv_destroy_qp(opened), 0);
	EXPECT_RET(ibv_close_xrcd(xrcd), 0);
}

static void run(void)
{
	handle_rows();
	context_rows();
	busy_rows();
	opened_rows();
}

int main(int argc, char **argv)
{
	return bad_input_test(argc, argv, run);
}
