/* SPDX-License-Identifier: MIT */
/* With which capacities and attributes CQs and queue pairs are created, and with which they are
 * refused. */
#include <limits.h>

#include "bad_input_fixture.h"

static void cq_rows(void)
{
	int max = here.info.device.max_cqe, vectors = (int)here.info.comp_vectors;
	const struct {
		const char *name;
		int cqe, vector;
		struct ibv_comp_channel *channel;
		int want;
	} rows[] = {
		{"no entries", 0, 0, NULL, EINVAL},
		{"-1 entries", -1, 0, NULL, EINVAL},
		{"INT_MIN entries", INT_MIN, 0, NULL, EINVAL},
		{"max_cqe + 1 entries", max + 1, 0, NULL, EINVAL},
		{"INT_MAX entries", INT_MAX, 0, NULL, EINVAL},
		{"vector -1", 1, -1, NULL, EINVAL},
		{"vector num_comp_vectors", 1, vectors, NULL, EINVAL},
		{"channel of another context", 1, 0, m->channel, EINVAL},
		{"1 entry", 1, 0, NULL, 0},
		{"3 entries, last vector", 3, vectors - 1, n->channel, 0},
		{"max_cqe / 2 entries", max / 2, 0, NULL, 0},
		{"max_cqe entries", max, 0, NULL, 0},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_cq *cq;

		row("create_cq: %s", rows[i].name);
		errno = 0;
		cq = ibv_create_cq(n->ctx, rows[i].cqe, n, rows[i].channel, rows[i].vector);
		if (rows[i].want) {
			EXPECT_MADE(cq, rows[i].want);
		} else if (EXPECT(cq, "errno %d", errno)) {
			EXPECT(cq->cqe == rows[i].cqe, "cqe %d", cq->cqe);
			EXPECT(cq->cq_context == n && cq->channel == rows[i].channel, "fields");
			EXPECT(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
		}
	}
}

/* --- ibv_create_qp --------------------------------------------------------------- */

static void check_created(struct ibv_qp *qp, const struct ibv_qp_init_attr *asked,
			  const struct ibv_qp_init_attr *got)
{
	EXPECT(got->cap.max_send_wr >= asked->cap.max_send_wr &&
		       got->cap.max_recv_wr >= asked->cap.max_recv_wr &&
		       got->cap.max_send_sge >= asked->cap.max_send_sge &&
		       got->cap.max_recv_sge >= asked->cap.max_recv_sge &&
		       got->cap.max_inline_data >= asked->cap.max_inline_data,
	       "a capacity is smaller than asked for");
	EXPECT(qp->state == IBV_QPS_RESET && qp->qp_type == IBV_QPT_RC && qp->pd == n->pd &&
		       qp->context == n->ctx && qp->send_cq == asked->send_cq &&
		       qp->recv_cq == asked->recv_cq && qp->qp_context == asked->qp_context,
	       "a field of the queue pair");
	EXPECT(qp->qp_num > 1 && qp->qp_num < 0xffffff, "number 0x%x", qp->qp_num);
	EXPECT(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
}

static void qp_row(const char *name, const struct ibv_qp_init_attr *asked, int want)
{
	struct ibv_qp_init_attr attr = *asked;
	struct ibv_qp *qp;

	row("create_qp: %s", name);
	errno = 0;
	qp = ibv_create_qp(n->pd, &attr);
	if (want)
		EXPECT_MADE(qp, want);
	else if (EXPECT(qp, "errno %d", errno))
		check_created(qp, asked, &attr);
}

static void qp_cap_rows(const struct ibv_qp_init_attr *good)
{
	uint32_t wr = (uint32_t)here.info.device.max_qp_wr,
		 sge = (uint32_t)here.info.device.max_sge;
	const struct {
		const char *name;
		struct ibv_qp_cap cap;
		int want;
	} rows[] = {
		{"max_send_wr one too many", {wr + 1, 1, 1, 1, 0}, EINVAL},
		{"max_recv_wr one too many", {1, wr + 1, 1, 1, 0}, EINVAL},
		{"max_send_sge one too many", {1, 1, sge + 1, 1, 0}, EINVAL},
		{"max_recv_sge one too many", {1, 1, 1, sge + 1, 0}, EINVAL},
		{"everything UINT32_MAX",
		 {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0},
		 EINVAL},
		{"1 MiB of inline data", {1, 1, 1, 1, 1 << 20}, EINVAL},
		{"no send queue", {0, 1, 1, 1, 0}, 0},
		{"no receive queue", {1, 0, 1, 0, 0}, 0},
		{"nothing at all", {0, 0, 0, 0, 0}, 0},
		{"the largest queues", {wr, wr, sge, sge, 0}, 0},
		{"the largest queues, once more", {wr, wr, sge, sge, 0}, 0},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_qp_init_attr attr = *good;

		attr.cap = rows[i].cap;
		qp_row(rows[i].name, &attr, rows[i].want);
	}
}

static void qp_rows(void)
{
	const struct ibv_qp_init_attr good = {
		.qp_context = &here,
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = {4, 4, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_init_attr attr = good;

	qp_row("all in order", &good, 0);
	attr.recv_cq = n->cq[0];
	qp_row("one CQ for both", &attr, 0);
	qp_cap_rows(&good);
	for (int type = 0; type < 300; type += type == 0 ? 1 : 99) {
		attr = good;
		attr.qp_type = (enum ibv_qp_type)type;
		qp_row("unknown type", &attr, EINVAL);
	}
	attr = good;
	attr.qp_type = IBV_QPT_DRIVER;
	qp_row("type DRIVER", &attr, EOPNOTSUPP);
	attr = good;
	attr.send_cq = NULL;
	qp_row("no send CQ", &attr, EINVAL);
	attr = good;
	attr.recv_cq = NULL;
	qp_row("no receive CQ", &attr, EINVAL);
	attr = good;
	attr.recv_cq = m->cq[0];
	qp_row("receive CQ of another context", &attr, EINVAL);
}

static void run(void)
{
	cq_rows();
	qp_rows();
}

int main(int argc, char **argv)
{
	return bad_input_test(argc, argv, run);
}
