/* SPDX-License-Identifier: MIT */
#include "ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/to_rts.h"
#include "lib/expect.h"
#include "lib/node.h"
#include "measure.h"

#define CQ_ENTRIES 256
#define BATCHES	   25
#define POLLS_MAX  1000000000ull /* after this, no completion will come */

void end_open(struct end *e)
{
	memset(e, 0, sizeof(*e));
	e->ctx = node_open_device();
	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = ibv_create_cq(e->ctx, CQ_ENTRIES, NULL, NULL, 0);
	if (!e->pd || !e->cq || ibv_query_gid(e->ctx, 1, 0, &e->gid))
		DIE("opening: errno %d", errno);
}

void end_close(struct end *e)
{
	while (e->qps)
		end_drop_qp(e);
	if (ibv_destroy_cq(e->cq) || ibv_dealloc_pd(e->pd) || ibv_close_device(e->ctx))
		DIE("closing: errno %d", errno);
	free(e->qp);
}

static void make_room(struct end *e)
{
	if (e->qps < e->room)
		return;
	e->room = e->room * 2 + 16;
	e->qp = realloc(e->qp, (size_t)e->room * sizeof(struct ibv_qp *));
	if (!e->qp)
		DIE("no memory");
}

struct ibv_qp *end_add_qp(struct end *e, uint32_t depth)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = {.max_send_wr = depth,
			.max_recv_wr = depth,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &attr);

	if (!qp)
		DIE("ibv_create_qp, the %dth: errno %d", e->qps + 1, errno);
	make_room(e);
	e->qp[e->qps++] = qp;
	return qp;
}

void end_drop_qp(struct end *e)
{
	if (ibv_destroy_qp(e->qp[--e->qps]))
		DIE("ibv_destroy_qp: errno %d", errno);
}

void end_connect(struct ibv_qp *qp, uint32_t qpn, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = connect_attr(qpn, gid);

	attr.qp_access_flags = END_RIGHTS;
	attr.path_mtu = IBV_MTU_4096;
	attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
	if (connect_qp(qp, attr))
		DIE("connecting: errno %d", errno);
}

void end_add_pairs(struct end *e, int count, uint32_t depth)
{
	while (e->qps < count) {
		struct ibv_qp *a = end_add_qp(e, depth), *b = end_add_qp(e, depth);

		end_connect(a, b->qp_num, &e->gid);
		end_connect(b, a->qp_num, &e->gid);
	}
}

struct ibv_mr *end_reg(struct end *e, void *at, size_t bytes, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(e->pd, at, bytes, access);

	if (!mr)
		DIE("ibv_reg_mr of %zu bytes: errno %d", bytes, errno);
	return mr;
}

void end_dereg(struct ibv_mr *mr)
{
	if (ibv_dereg_mr(mr))
		DIE("ibv_dereg_mr: errno %d", errno);
}

void end_wait(struct end *e)
{
	struct ibv_wc wc;
	int got = 0;

	for (uint64_t i = 0; i < POLLS_MAX && got == 0; i++)
		got = ibv_poll_cq(e->cq, 1, &wc);
	if (got != 1)
		DIE("no completion");
	if (wc.status != IBV_WC_SUCCESS)
		DIE("completion: %s", ibv_wc_status_str(wc.status));
}

void end_transfer(struct end *e, struct ibv_qp *qp, const struct transfer *t)
{
	struct ibv_sge sge = {.addr = t->local, .length = t->bytes, .lkey = t->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = t->opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = t->remote, .rkey = t->rkey}},
			   *bad;

	if (t->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = t->remote;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = t->rkey;
	}
	if (ibv_post_send(qp, &wr, &bad))
		DIE("ibv_post_send: errno %d", errno);
	end_wait(e);
}

double end_transfer_ns(struct end *e, struct ibv_qp *qp, const struct transfer *t, int count)
{
	int each = count / BATCHES + 1;
	double ns[BATCHES];

	for (int b = 0; b < BATCHES; b++) {
		uint64_t begin = now_ns();

		for (int i = 0; i < each; i++)
			end_transfer(e, qp, t);
		ns[b] = ns_each(begin, each);
	}
	return median_of(ns, BATCHES);
}
