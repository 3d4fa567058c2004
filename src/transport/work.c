/* SPDX-License-Identifier: MIT */
/* The memory of a request under execution. */
#include "transport/work.h"

#include <sched.h>

#include "base/limits.h"
#include "base/patience.h"
#include "memory/why.h"
#include "observe/diagnosis.h"
#include "transport/to_packets.h"

static enum av_fault buffers_of(const struct av_qp_end *req, const struct av_sq_wqe *wqe,
				uint32_t access, struct av_spans *to)
{
	enum av_check found;

	if (wqe->flags & IBV_SEND_INLINE) {
		av_spans_local(to, req->seg, (void *)(uintptr_t)wqe->data, wqe->bytes);
		if (av_likely(wqe->bytes <= AV_MAX_INLINE))
			return AV_FAULT_NONE;
		av_diag_note(AV_CHECK_REQUEST_LENGTH, wqe->bytes, AV_MAX_INLINE);
		return AV_FAULT_LOC_LEN;
	}
	found = av_mem_get_list(req->seg, req->qp->pd, access, wqe->sge, wqe->count, wqe->bytes,
				to);
	return av_likely(found == AV_CHECK_NONE)
		       ? AV_FAULT_NONE
		       : av_mem_why_element(req->seg, req->qp->pd, access, &wqe->sge[to->refused],
					    to->bytes, found, AV_FAULT_LOC_PROT);
}

enum av_fault av_work_local(struct av_work *w, uint32_t access)
{
	if (av_likely(!w->piece || !(w->wqe->flags & IBV_SEND_INLINE)))
		return buffers_of(w->req, w->wqe, access, &w->local);
	av_spans_copy(&w->local, w->piece->bytes);
	return AV_FAULT_NONE;
}

enum av_fault av_request_buffers(const struct av_qp_end *req, const struct av_sq_wqe *wqe,
				 uint32_t access, struct av_spans *to)
{
	enum av_fault fault;
	uint64_t until = 0;

	while ((fault = buffers_of(req, wqe, access, to)) == AV_FAULT_BUSY && av_patient(&until))
		sched_yield();
	return fault == AV_FAULT_BUSY ? AV_FAULT_LOC_PROT : fault;
}

enum av_fault av_work_read_first(const struct av_work *w, const struct av_spans *from)
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
	enum av_check found = av_mem_get(w->to.seg, req, &remote->at[0]);

	remote->count = 1;
	remote->bytes = req->length;
	return av_likely(found == AV_CHECK_NONE)
		       ? AV_FAULT_NONE
		       : av_mem_why(w->to.seg, req, found, AV_FAULT_REM_ACCESS);
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

enum av_fault av_work_moved(struct av_work *w, enum av_fault copied, enum av_fault src,
			    enum av_fault dst)
{
	enum av_fault fault = av_fault_at(copied, src, dst);

	if (copied == AV_FAULT_GONE || (fault != copied && !av_seg_alive_now(w->rsp->seg)))
		return av_work_gone(w);
	return fault;
}

/* --- what a request brings back ---------------------------------------------------- */

enum av_fault av_work_answer(struct av_work *w, const struct av_spans *from)
{
	enum av_fault fault = av_work_local(w, IBV_ACCESS_LOCAL_WRITE);

	if (fault == AV_FAULT_NONE) {
		fault = av_work_moved(w, av_xfer_copy(&w->local, from, w->now_ns),
				      AV_FAULT_REM_ACCESS, AV_FAULT_LOC_PROT);
		av_mem_put_list(&w->local);
	}
	if (av_unlikely(fault == AV_FAULT_LOC_PROT) &&
	    av_work_read_first(w, from) == AV_FAULT_SRC) {
		av_diag_drop();
		fault = av_work_moved(w, AV_FAULT_SRC, AV_FAULT_REM_ACCESS, AV_FAULT_NONE);
	}
	w->in_vain = fault == AV_FAULT_LOC_PROT;
	return fault;
}
