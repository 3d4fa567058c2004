/* SPDX-License-Identifier: MIT */
/* RDMA WRITE, RDMA READ and FLUSH. */
#include "transport/op_rdma.h"

#include "base/newer_verbs.h"
#include "transport/op_atomic.h"

/* --- WRITE ----------------------------------------------------------------------- */

enum av_fault av_op_write_bytes(struct av_work *w, bool copy)
{
	struct av_mem_request req = av_work_request(w, IBV_ACCESS_REMOTE_WRITE);
	struct av_spans remote;
	enum av_fault fault;

	req.payload = true;
	fault = av_unlikely(w->piece != NULL) ? av_work_piece(w, &req, &remote)
					      : av_work_remote(w, &req, &remote);
	if (av_unlikely(fault == AV_FAULT_TUNNELED)) /* the payload is commands */
		return av_op_tunneled(w, copy);
	if (fault != AV_FAULT_NONE)
		return fault;
	if (copy)
		fault = av_work_moved(w, av_xfer_copy(&remote, &w->local, w->now_ns),
				      AV_FAULT_LOC_PROT, AV_FAULT_REM_ACCESS);
	av_pin_end(remote.at[0].pin);
	return fault;
}

enum av_fault av_op_write(struct av_work *w)
{
	enum av_fault fault = av_work_local(w, 0);

	if (fault != AV_FAULT_NONE)
		return fault;
	fault = av_work_permitted(w, IBV_ACCESS_REMOTE_WRITE);
	if (fault == AV_FAULT_NONE && w->wqe->bytes > 0)
		fault = av_op_write_bytes(w, true);
	av_mem_put_list(&w->local);
	return fault;
}

/* --- READ ------------------------------------------------------------------------ */

enum av_fault av_op_read(struct av_work *w)
{
	struct av_mem_request req = av_work_request(w, IBV_ACCESS_REMOTE_READ);
	enum av_fault fault = av_work_permitted(w, IBV_ACCESS_REMOTE_READ);
	struct av_spans remote;

	if (fault != AV_FAULT_NONE || w->wqe->bytes == 0)
		return fault;
	fault = av_unlikely(w->piece != NULL) ? av_work_piece(w, &req, &remote)
					      : av_work_remote(w, &req, &remote);
	if (fault != AV_FAULT_NONE)
		return fault;
	fault = av_work_answer(w, &remote);
	av_pin_end(remote.at[0].pin);
	return fault;
}

/* --- FLUSH ----------------------------------------------------------------------- */

/* The access rights that a FLUSH needs, of the queue pair and of the key. */
static uint32_t flush_rights(uint32_t placement)
{
	return (placement & AV_FLUSH_GLOBAL ? AV_ACCESS_FLUSH_GLOBAL : 0) |
	       (placement & ~(uint32_t)AV_FLUSH_GLOBAL ? AV_ACCESS_FLUSH_PERSISTENT : 0);
}

enum av_fault av_op_flush(struct av_work *w)
{
	uint32_t rights = flush_rights(w->wqe->placement);
	struct av_mem_request req = av_work_request(w, rights);
	enum av_fault fault = av_work_permitted(w, rights);
	struct av_spans remote;

	req.length = w->wqe->compare_add;
	req.whole = w->wqe->selectivity == AV_FLUSH_MR || req.length == 0;
	if (fault != AV_FAULT_NONE)
		return fault;
	fault = av_work_remote(w, &req, &remote);
	if (fault != AV_FAULT_NONE)
		return fault;
	atomic_thread_fence(memory_order_seq_cst);
	av_pin_end(remote.at[0].pin);
	return AV_FAULT_NONE;
}
