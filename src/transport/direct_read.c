/* SPDX-License-Identifier: MIT */
/* What a request brings back. */
#include "transport/direct_read.h"

#include "memory/xfer.h"

enum av_fault av_direct_check_rd_atomic(const struct av_work *w)
{
	if (w->req->qp->attr.max_rd_atomic == 0)
		return AV_FAULT_LOC_QP_OP;
	return w->rsp->qp->attr.max_dest_rd_atomic == 0 ? AV_FAULT_REM_NO_RD_ATOMIC : AV_FAULT_NONE;
}

/*
 * Inline receive of the requester: another process leaves a short answer for the poller. The
 * requester's own has no shorter way than to place it.
 */
static bool leaves_answer(const struct av_work *w)
{
	const struct av_qp_shared *q = w->req->qp;

	return av_unlikely(!w->req->seg->own) && w->head.bytes <= q->inline_answer &&
	       w->head.bytes <= AV_CQE_DATA;
}

static enum av_fault leave_answer(struct av_work *w, const struct av_spans *from)
{
	struct av_spans to;
	enum av_fault fault;

	av_spans_local(&to, NULL, w->answer, from->bytes);
	fault = av_work_moved(w, av_xfer_copy(&to, from), AV_FAULT_REM_ACCESS, AV_FAULT_LOC_PROT);
	if (fault == AV_FAULT_NONE && w->result.park == AV_PARK_NOT)
		w->result.answer_bytes = (uint8_t)from->bytes;
	return fault;
}

enum av_fault av_direct_answer(struct av_work *w, const struct av_spans *from)
{
	enum av_fault fault;

	if (leaves_answer(w))
		return leave_answer(w, from);
	fault = av_work_local(w, IBV_ACCESS_LOCAL_WRITE);
	if (fault != AV_FAULT_NONE)
		return fault;
	fault = av_work_moved(w, av_xfer_copy(&w->local, from), AV_FAULT_REM_ACCESS,
			      AV_FAULT_LOC_PROT);
	av_work_local_end(w);
	return fault;
}

enum av_fault av_direct_read(struct av_work *w)
{
	struct av_mem_request req = av_work_request(w, IBV_ACCESS_REMOTE_READ);
	enum av_fault fault = av_direct_check_rd_atomic(w);
	struct av_spans remote;

	if (fault != AV_FAULT_NONE)
		return fault;
	if (!(w->rsp->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ))
		return AV_FAULT_REM_OP_DENIED;
	if (w->head.bytes == 0)
		return AV_FAULT_NONE;
	fault = av_work_remote(w, &req, &remote);
	if (fault != AV_FAULT_NONE)
		return fault;
	fault = av_direct_answer(w, &remote);
	av_mem_put(&remote.at[0]);
	return fault;
}
