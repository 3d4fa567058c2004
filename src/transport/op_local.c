/* SPDX-License-Identifier: MIT */
/* A requester's own keys. */
#include "transport/op_local.h"

#include "memory/klm_list.h"
#include "memory/why.h"
#include "memory/window.h"

enum av_fault av_op_bind(struct av_work *w)
{
	struct av_window_bind bind = {
		.window = w->wqe->window,
		.rkey = w->wqe->rkey,
		.region = w->wqe->region,
		.access = w->wqe->access,
		.pd = w->req->qp->pd,
		.qpn = atomic_load_explicit(&w->req->qp->qpn, memory_order_relaxed),
		.addr = w->wqe->remote_addr,
		.length = w->wqe->compare_add,
	};
	enum av_check found = av_window_bind(w->req->seg, &bind);

	if (found == AV_CHECK_NONE)
		return AV_FAULT_NONE;
	av_window_why(w->req->seg, &bind, found);
	return AV_FAULT_MW_BIND;
}

enum av_fault av_op_local_inv(struct av_work *w)
{
	struct av_window_bind what = {
		.rkey = w->wqe->imm,
		.pd = w->req->qp->pd,
		.qpn = atomic_load_explicit(&w->req->qp->qpn, memory_order_relaxed),
	};
	enum av_check found = av_window_invalidate(w->req->seg, what.rkey, what.qpn);

	if (found == AV_CHECK_NONE)
		return AV_FAULT_NONE;
	av_invalidate_why(w->req->seg, &what, found);
	return found == AV_CHECK_INVALIDATE_UNBOUND ? AV_FAULT_MW_BIND : AV_FAULT_LOC_QP_OP;
}

enum av_fault av_op_nop(struct av_work *w)
{
	return AV_FAULT_NONE;
}

enum av_fault av_op_umr_fill(struct av_work *w)
{
	struct av_klm_fill fill = {
		.key = w->wqe->rkey,
		.pd = w->req->qp->pd,
		.access = w->wqe->rights,
		.base = w->wqe->umr.base,
		.rounds = w->wqe->umr.rounds,
		.entries = av_sq_list(w->req, w->wqe),
		.count = w->wqe->count,
	};

	return fill.entries && av_klm_fill(w->req->seg, &fill) == 0 ? AV_FAULT_NONE
								    : AV_FAULT_MW_BIND;
}

enum av_fault av_op_umr_invalidate(struct av_work *w)
{
	struct av_klm_fill nothing = {.key = w->wqe->rkey, .pd = w->req->qp->pd};

	return av_klm_fill(w->req->seg, &nothing) ? AV_FAULT_MW_BIND : AV_FAULT_NONE;
}
