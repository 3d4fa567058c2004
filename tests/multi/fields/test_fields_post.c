/* SPDX-License-Identifier: MIT */
/* Which fields of a work request count for which operation. */
#include "fields_fixture.h"

#include "lib/to_rts.h"

#define KEEPS 256u /* bytes apart: what requests read, and what they write */

static struct ibv_qp *qp;
static struct ibv_mw *mw;
static struct ibv_mr *mr; /* that windows may be bound to */

static void drain(enum ibv_wc_opcode want, int count)
{
	struct ibv_wc wc[2];

	for (int i = 0; i < count; i++)
		EXPECT(node_poll(n, i == 0 ? 0 : 1, 1, PATIENCE, wc) == 1 &&
			       wc[0].status == IBV_WC_SUCCESS && (i || wc[0].opcode == want),
		       "completion %d: status %d, opcode %d", i, (int)wc[0].status,
		       (int)wc[0].opcode);
}

static enum ibv_wc_opcode completes_as(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

static void post(void *what)
{
	struct ibv_send_wr *wr = what, *bad;
	struct ibv_sge sge = {(uintptr_t)n->arena + KEEPS, 64, n->mr[KEY_FULL]->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	bool send = completes_as(wr->opcode) == IBV_WC_SEND;

	if (send)
		NEED(ibv_post_recv(qp, &recv, &bad_recv) == 0);
	if (!EXPECT(ibv_post_send(qp, wr, &bad) == 0, "errno %d", errno))
		return;
	drain(completes_as(wr->opcode), send ? 2 : 1);
}

/* A window has to be invalid for a bind, and bound for an invalidation. */
static void post_window(void *what)
{
	struct ibv_send_wr *wr = what, *bad;
	struct ibv_send_wr other = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = mw,
			    .rkey = ibv_inc_rkey(mw->rkey),
			    .bind_info = {.mr = mr,
					  .addr = (uintptr_t)n->arena,
					  .length = 64,
					  .mw_access_flags = IBV_ACCESS_REMOTE_READ}},
	};

	if (wr->opcode == IBV_WR_BIND_MW) {
		wr->bind_mw = other.bind_mw;
		post(wr);
	} else {
		NEED(ibv_post_send(qp, &other, &bad) == 0);
		drain(IBV_WC_BIND_MW, 1);
		wr->invalidate_rkey = mw->rkey;
		post(wr);
		return;
	}
	other = (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV,
				     .send_flags = IBV_SEND_SIGNALED,
				     .invalidate_rkey = mw->rkey};
	NEED(ibv_post_send(qp, &other, &bad) == 0);
	drain(IBV_WC_LOCAL_INV, 1);
}

static void message_rows(struct ibv_send_wr wr)
{
	const struct garbage fields[] = {
		GARBAGE(ibv_send_wr, imm_data),
		GARBAGE(ibv_send_wr, wr.rdma.remote_addr),
		GARBAGE(ibv_send_wr, wr.rdma.rkey),
		GARBAGE(ibv_send_wr, wr.ud.ah),
		GARBAGE(ibv_send_wr, wr.ud.remote_qpn),
		GARBAGE(ibv_send_wr, wr.ud.remote_qkey),
		GARBAGE(ibv_send_wr, wr.atomic.rkey),
		GARBAGE(ibv_send_wr, qp_type.xrc.remote_srqn),
		GARBAGE(ibv_send_wr, bind_mw.mw),
		GARBAGE(ibv_send_wr, bind_mw.rkey),
		GARBAGE(ibv_send_wr, bind_mw.bind_info),
		GARBAGE(ibv_send_wr, tso.hdr),
		GARBAGE(ibv_send_wr, tso.hdr_sz),
		GARBAGE(ibv_send_wr, tso.mss),
	};
	const struct garbage no_list[] = {GARBAGE(ibv_send_wr, sg_list)};
	struct ibv_sge sge = *wr.sg_list;

	with_garbage(&wr, sizeof(wr), fields, COUNT_OF(fields), post);
	wr.num_sge = 0;
	with_garbage(&wr, sizeof(wr), no_list, 1, post);
	wr.num_sge = 1;
	wr.sg_list = &sge;
	wr.send_flags |= IBV_SEND_INLINE;
	row("garbage in the lkey of inline data");
	spoil(&sge, &(struct garbage)GARBAGE(ibv_sge, lkey));
	post(&wr);
}

static void remote_rows(struct ibv_send_wr wr)
{
	const struct garbage fields[] = {
		GARBAGE(ibv_send_wr, imm_data),
		GARBAGE(ibv_send_wr, invalidate_rkey),
		GARBAGE(ibv_send_wr, wr.atomic.compare_add),
		GARBAGE(ibv_send_wr, wr.atomic.swap),
		GARBAGE(ibv_send_wr, qp_type.xrc.remote_srqn),
		GARBAGE(ibv_send_wr, bind_mw.bind_info),
	};
	const struct garbage not_of_write[] = {fields[0], fields[1], fields[4], fields[5]};

	wr.wr.rdma.remote_addr = (uintptr_t)n->arena + KEEPS;
	wr.wr.rdma.rkey = n->mr[KEY_FULL]->rkey;
	wr.opcode = IBV_WR_RDMA_WRITE;
	with_garbage(&wr, sizeof(wr), not_of_write, COUNT_OF(not_of_write), post);
	wr.opcode = IBV_WR_RDMA_READ;
	with_garbage(&wr, sizeof(wr), not_of_write, COUNT_OF(not_of_write), post);
	wr.wr.atomic.remote_addr = (uintptr_t)n->arena + KEEPS;
	wr.wr.atomic.rkey = n->mr[KEY_FULL]->rkey;
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	with_garbage(&wr, sizeof(wr), fields + 3, 2, post);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	with_garbage(&wr, sizeof(wr), fields + 4, 1, post);
}

/* They have no data. */
static void window_rows(void)
{
	const struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
	const struct garbage fields[] = {
		GARBAGE(ibv_send_wr, sg_list),
		GARBAGE(ibv_send_wr, num_sge),
		GARBAGE(ibv_send_wr, wr),
		GARBAGE(ibv_send_wr, qp_type.xrc.remote_srqn),
	};
	struct ibv_send_wr one = wr;

	with_garbage(&wr, sizeof(wr), fields, COUNT_OF(fields), post_window);
	one.num_sge = 1; /* the usual garbage, with a list that leads nowhere */
	with_garbage(&one, sizeof(one), fields, 1, post_window);
	one.opcode = IBV_WR_LOCAL_INV;
	with_garbage(&one, sizeof(one), fields, COUNT_OF(fields), post_window);
}

static void run(void)
{
	struct ibv_qp_init_attr init = {.send_cq = n->cq[0],
					.recv_cq = n->cq[1],
					.cap = {4, 4, 1, 1, 16},
					.qp_type = IBV_QPT_RC};
	struct ibv_sge sge = {(uintptr_t)n->arena, 8, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};

	NEED(qp = ibv_create_qp(n->pd, &init));
	NEED(connect_qp(qp, connect_attr(qp->qp_num, &here.info.gid)) == 0);
	NEED(mr = ibv_reg_mr(n->pd, n->arena, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
	NEED(mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2));
	message_rows(wr);
	remote_rows(wr);
	window_rows();
	row("32 bytes inline where 16 were asked for");
	sge.length = 32;
	wr.send_flags |= IBV_SEND_INLINE;
	post(&wr);
	NEED(ibv_dealloc_mw(mw) == 0);
	NEED(ibv_dereg_mr(mr) == 0);
	NEED(ibv_destroy_qp(qp) == 0);
}

int main(int argc, char **argv)
{
	return fields_test(argc, argv, run);
}
