/* SPDX-License-Identifier: MIT */
/* Requests whose list is NULL although it has elements, binds without a window, and invalidations
 * with inline data, by each call that posts: EINVAL, and bad_wr is that request. */
#include <infiniband/verbs_exp.h>

#include "bad_input_fixture.h"

#define MIDDLE 1 /* of the lists here, which have 3 requests */

/* Queue pair 0, connected with itself, that extended verbs post to, too. */
static struct ibv_qp *create_self(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {.max_send_wr = 8,
			.max_recv_wr = 8,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = n->pd,
		.send_ops_flags =
			IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
	};
	struct node_link link = link_default();

	n->qp[0] = ibv_create_qp_ex(n->ctx, &attr);
	if (!n->qp[0])
		DIE("ibv_create_qp_ex");
	pair_connect(&here, 0, &link, &here, 0, &link);
	return n->qp[0];
}

/* clang-format off */
static const struct send_row {
	const char *name;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	int num_sge;
	int want;
} sends[] = {
	{"SEND without data",         IBV_WR_SEND,                 0,               0, 0},
	{"SEND inline without data",  IBV_WR_SEND,                 IBV_SEND_INLINE, 0, 0},
	{"SEND, one element",         IBV_WR_SEND,                 0,               1, EINVAL},
	{"SEND, two elements",        IBV_WR_SEND,                 0,               2, EINVAL},
	{"SEND inline, one element",  IBV_WR_SEND,                 IBV_SEND_INLINE, 1, EINVAL},
	{"SEND inline, two elements", IBV_WR_SEND,                 IBV_SEND_INLINE, 2, EINVAL},
	{"SEND_WITH_IMM",             IBV_WR_SEND_WITH_IMM,        0,               1, EINVAL},
	{"SEND_WITH_INV",             IBV_WR_SEND_WITH_INV,        0,               1, EINVAL},
	{"RDMA_WRITE",                IBV_WR_RDMA_WRITE,           0,               1, EINVAL},
	{"RDMA_WRITE_WITH_IMM",       IBV_WR_RDMA_WRITE_WITH_IMM,  IBV_SEND_INLINE, 1, EINVAL},
	{"RDMA_READ",                 IBV_WR_RDMA_READ,            0,               2, EINVAL},
	{"CMP_AND_SWP",               IBV_WR_ATOMIC_CMP_AND_SWP,   0,               1, EINVAL},
	{"FETCH_AND_ADD",             IBV_WR_ATOMIC_FETCH_AND_ADD, 0,               1, EINVAL},
	{"BIND_MW without a window",  IBV_WR_BIND_MW,              0,               0, EINVAL},
};
/* clang-format on */

static void expect_posted(int ret, int errno_, bool bad_is_middle, bool none_is_bad, int want)
{
	EXPECT(ret == want && (want == 0 || errno_ == want), "returned %d, errno %d instead of %d",
	       ret, errno_, want);
	EXPECT(want ? bad_is_middle : none_is_bad, "bad_wr");
}

static void post_send(const struct send_row *r)
{
	struct ibv_send_wr wr[3] = {{.opcode = IBV_WR_SEND}, {0}, {.opcode = IBV_WR_SEND}};
	struct ibv_send_wr *bad = NULL;
	int ret;

	wr[MIDDLE].opcode = r->opcode;
	wr[MIDDLE].send_flags = r->flags;
	wr[MIDDLE].num_sge = r->num_sge;
	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	errno = 0;
	ret = ibv_post_send(n->qp[0], wr, &bad);
	expect_posted(ret, errno, bad == &wr[MIDDLE], !bad, r->want);
}

static void exp_post_send(const struct send_row *r)
{
	struct ibv_exp_send_wr wr[3] = {{.exp_opcode = IBV_EXP_WR_SEND},
					{.exp_opcode = (enum ibv_exp_wr_opcode)r->opcode,
					 .exp_send_flags = r->flags,
					 .num_sge = r->num_sge},
					{.exp_opcode = IBV_EXP_WR_SEND}};
	struct ibv_exp_send_wr *bad = NULL;
	int ret;

	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	errno = 0;
	ret = ibv_exp_post_send(n->qp[0], wr, &bad);
	expect_posted(ret, errno, bad == &wr[MIDDLE], !bad, r->want);
}

static void send_rows(void)
{
	for (size_t i = 0; i < COUNT_OF(sends); i++) {
		row("ibv_post_send: %s", sends[i].name);
		(void)create_self();
		post_send(&sends[i]);
		node_destroy_qp(n, 0);
		row("ibv_exp_post_send: %s", sends[i].name);
		(void)create_self();
		exp_post_send(&sends[i]);
		node_destroy_qp(n, 0);
	}
}

static void recv_rows(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 8, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(n->pd, &attr);

	for (int num_sge = 0; num_sge <= 2; num_sge++) {
		struct ibv_recv_wr wr[3] = {
			{.next = &wr[1]}, {.next = &wr[2], .num_sge = num_sge}, {0}};
		struct ibv_recv_wr *bad = NULL;
		int ret, want = num_sge ? EINVAL : 0;

		row("ibv_post_recv: %d elements", num_sge);
		(void)create_self();
		errno = 0;
		ret = ibv_post_recv(n->qp[0], wr, &bad);
		expect_posted(ret, errno, bad == &wr[MIDDLE], !bad, want);
		node_destroy_qp(n, 0);

		row("ibv_post_srq_recv: %d elements", num_sge);
		bad = NULL;
		errno = 0;
		ret = ibv_post_srq_recv(srq, wr, &bad);
		expect_posted(ret, errno, bad == &wr[MIDDLE], !bad, want);
	}
	EXPECT_RET(ibv_destroy_srq(srq), 0);
}

static void no_elements(struct ibv_qp_ex *ex)
{
	ibv_wr_set_sge_list(ex, 0, NULL);
}

static void list_of_two(struct ibv_qp_ex *ex)
{
	ibv_wr_set_sge_list(ex, 2, NULL);
}

static void no_inline_data(struct ibv_qp_ex *ex)
{
	ibv_wr_set_inline_data_list(ex, 0, NULL);
}

static void inline_list_of_two(struct ibv_qp_ex *ex)
{
	ibv_wr_set_inline_data_list(ex, 2, NULL);
}

static void bind_nothing(struct ibv_qp_ex *ex)
{
	struct ibv_mw_bind_info info = {0};

	ibv_wr_bind_mw(ex, NULL, 0, &info);
}

static void inline_invalidate(struct ibv_qp_ex *ex)
{
	char bytes[8] = {0};

	ibv_wr_local_inv(ex, 0);
	ibv_wr_set_inline_data(ex, bytes, sizeof(bytes));
}

static void builder_rows(void)
{
	static const struct {
		const char *name;
		void (*set)(struct ibv_qp_ex *ex);
		int want;
	} rows[] = {
		{"no elements", no_elements, 0},
		{"no inline data", no_inline_data, 0},
		{"ibv_wr_set_sge_list", list_of_two, EINVAL},
		{"ibv_wr_set_inline_data_list", inline_list_of_two, EINVAL},
		{"ibv_wr_bind_mw without a window", bind_nothing, EINVAL},
		{"inline data of ibv_wr_local_inv", inline_invalidate, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(create_self());

		row("builders: %s", rows[i].name);
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		rows[i].set(ex);
		EXPECT_RET(ibv_wr_complete(ex), rows[i].want);
		node_destroy_qp(n, 0);
	}
}

static void list_rows(void)
{
	send_rows();
	recv_rows();
	builder_rows();
}

int main(int argc, char **argv)
{
	return bad_input_test(argc, argv, list_rows);
}
