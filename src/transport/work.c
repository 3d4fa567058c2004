/* SPDX-License-Identifier: MIT */
/* The memory of a request under execution. */
#include "transport/work.h"

#include <sched.h>

#include "base/limits.h"
#include "base/patience.h"
#include "memory/why.h"
#include "observe/diagnosis.h"
#include "transport/to_packets.h"

enum av_fault av_work_local(struct av_work *w, uint32_t access)
{
	struct av_seg *seg = w->req->seg;
	enum av_mem_fault found;

	if (w->wqe->flags & IBV_SEND_INLINE) {
		if (av_unlikely(w->piece != NULL)) {
			av_spans_copy(&w->local, w->piece->bytes);
			return AV_FAULT_NONE;
		}
		av_spans_local(&w->local, seg, (void *)(uintptr_t)w->wqe->data, w->wqe->bytes);
		return w->wqe->bytes <= AV_MAX_INLINE ? AV_FAULT_NONE : AV_FAULT_LOC_LEN;
	}
	found = av_mem_get_list(seg, w->req->qp->pd, access, w->wqe->sge, w->wqe->count,
				w->wqe->bytes, &w->local);
	switch (found) {
	case AV_MEM_OK:
		return AV_FAULT_NONE;
	case AV_MEM_BUSY:
		return AV_FAULT_BUSY;
	default:
		av_mem_why_list(seg, w->req->qp->pd, access, w->wqe->sge, w->wqe->count,
				w->wqe->bytes, found);
		return AV_FAULT_LOC_PROT;
	}
}

enum av_fault av_work_own_buffers(struct av_work *w, uint32_t access)
{
	enum av_fault fault;
	uint64_t until = 0;

	while ((fault = av_work_local(w, access)) == AV_FAULT_BUSY && av_patient(&until))
		sched_yield();
	return fault == AV_FAULT_BUSY ? AV_FAULT_LOC_PROT : fault;
}

enum av_xfer av_work_read_first(const struct av_work *w, const struct av_spans *from)
{
	uint64_t mtu = av_mtu_bytes(w->req->qp->attr.path_mtu);

	return av_xfer_read(from, from->bytes < mtu ? from->bytes : mtu, w->now_ns);
}

struct av_mem_request av_work_request(const struct av_work *w, uint32_t access)
{
	return (struct av_mem_request){
		.key = w->wqe->rkey,
		.pd = w->pd,
		.access = access,
		.qpn = w->qpn,
		.remote = true,
		.addr = w->wqe->remote_addr,
		.length = w->wqe->bytes,
	};
}

enum av_fault av_work_remote(const struct av_work *w, const struct av_mem_request *req,
			     struct av_spans *remote)
{
	enum av_mem_fault found = av_mem_get(w->to.seg, req, &remote->at[0]);

	remote->count = 1;
	remote->bytes = req->length;
	switch (found) {
	case AV_MEM_OK:
		return AV_FAULT_NONE;
	case AV_MEM_BUSY:
		return AV_FAULT_BUSY;
	case AV_MEM_TUNNELED:
		return AV_FAULT_TUNNELED;
	default:
		av_mem_why(w->to.seg, req, found);
		return AV_FAULT_REM_ACCESS;
	}
}

static enum av_fault check_announced(const struct av_work *w, const struct av_mem_request *piece)
{
	struct av_mem_request all = *piece;
	struct av_spans remote;
	enum av_fault fault;

	if (w->piece->whole <= piece->length)
		return AV_FAULT_NONE;
	all.length = w->piece->whole;
	fault = av_work_remote(w, &all, &remote);
	if (fault == AV_FAULT_NONE)
		av_pin_end(remote.at[0].pin);
	return fault;
}

enum av_fault av_work_piece(const struct av_work *w, const struct av_mem_request *req,
			    struct av_spans *remote)
{
	enum av_fault fault = check_announced(w, req);

	if (fault == AV_FAULT_NONE)
		fault = av_work_remote(w, req, remote);
	if (fault == AV_FAULT_NONE)
		av_spans_are_part(remote, w->piece->message);
	return fault;
}

enum av_fault av_work_gone(struct av_work *w)
{
	w->result.gone = true;
	av_work_park(w, AV_PARK_NO_ANSWER);
	return AV_FAULT_NONE;
}

enum av_fault av_work_moved(struct av_work *w, enum av_xfer reach, enum av_fault src,
			    enum av_fault dst)
{
	switch (reach) {
	case AV_XFER_OK:
		return AV_FAULT_NONE;
	case AV_XFER_SRC_FAULT:
	case AV_XFER_DST_FAULT:
		if (!av_seg_alive_now(w->rsp->seg))
			break;
		return reach == AV_XFER_SRC_FAULT ? src : dst;
	case AV_XFER_REFUSED:
		return AV_FAULT_FORBIDDEN;
	case AV_XFER_BUSY:
		return AV_FAULT_BUSY;
	case AV_XFER_SPLIT:
		return AV_FAULT_REM_MISALIGNED;
	case AV_XFER_GONE:
		break;
	}
	return av_work_gone(w);
}

/* --- what a request brings back ---------------------------------------------------- */

enum av_fault av_work_check_rd_atomic(const struct av_work *w)
{
	return w->rsp->qp->attr.max_dest_rd_atomic == 0 ? AV_FAULT_REM_NO_RD_ATOMIC : AV_FAULT_NONE;
}

enum av_fault av_work_answer(struct av_work *w, const struct av_spans *from)
{
	enum av_fault fault = av_work_local(w, IBV_ACCESS_LOCAL_WRITE);

	if (fault == AV_FAULT_NONE) {
		fault = av_work_moved(w, av_xfer_copy(&w->local, from, w->now_ns),
				      AV_FAULT_REM_ACCESS, AV_FAULT_LOC_PROT);
		av_mem_put_list(&w->local);
	}
	if (av_unlikely(fault == AV_FAULT_LOC_PROT) &&
	    av_work_read_first(w, from) == AV_XFER_SRC_FAULT) {
		av_diag_drop();
		fault = av_work_moved(w, AV_XFER_SRC_FAULT, AV_FAULT_REM_ACCESS, AV_FAULT_NONE);
	}
	w->in_vain = fault == AV_FAULT_LOC_PROT;
	return fault;
}
