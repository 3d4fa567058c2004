/* SPDX-License-Identifier: MIT */
/* Atomic operations. */
#include "transport/direct_atomic.h"

#include <sched.h>

#include "memory/xfer.h"
#include "transport/direct_read.h"

enum av_fault av_direct_operand(struct av_work *w, const struct av_mem_request *req,
				const struct av_atomic *atomic, struct av_operand *old)
{
	struct av_spans remote;
	enum av_fault fault;

	if (req->addr & (req->length - 1))
		return AV_FAULT_REM_MISALIGNED;
	fault = av_work_remote(w, req, &remote);
	if (fault != AV_FAULT_NONE)
		return fault;
	if (remote.at[0].addr & (req->length - 1)) /* a region whose first byte is not aligned:
						      aligned in key space only */
		fault = AV_FAULT_REM_MISALIGNED;
	else if (old)
		fault = av_work_moved(w, av_xfer_atomic(&remote.at[0], atomic, old),
				      AV_FAULT_REM_ACCESS, AV_FAULT_REM_ACCESS);
	av_mem_put(&remote.at[0]);
	return fault;
}

/* Put the original value where the request wants it; the remote memory is already changed. */
static enum av_fault return_original(struct av_work *w, struct av_operand *old)
{
	struct av_spans from;
	enum av_fault fault;

	av_spans_local(&from, NULL, old, w->head.bytes);
	while ((fault = av_direct_answer(w, &from)) == AV_FAULT_BUSY)
		sched_yield(); /* not the whole operation again: the memory is changed; no pin is
				  held */
	return fault;
}

static enum av_fault atomic_request(struct av_work *w, const struct av_atomic *atomic)
{
	struct av_mem_request req = av_work_request(w, IBV_ACCESS_REMOTE_ATOMIC);
	enum av_fault fault = av_direct_check_rd_atomic(w);
	struct av_operand old;

	if (fault != AV_FAULT_NONE)
		return fault;
	if (!(w->rsp->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC))
		return AV_FAULT_REM_OP_DENIED;
	fault = av_direct_operand(w, &req, atomic, &old);
	if (fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT)
		return fault;
	return return_original(w, &old);
}

enum av_fault av_direct_fetch_add(struct av_work *w)
{
	const struct av_atomic atomic = {
		.op = AV_ATOMIC_ADD,
		.bytes = sizeof(uint64_t),
		.value = {{w->head.compare_add}},
	};

	return atomic_request(w, &atomic);
}

enum av_fault av_direct_cmp_swap(struct av_work *w)
{
	const struct av_atomic atomic = {
		.op = AV_ATOMIC_CMP_SWAP,
		.bytes = sizeof(uint64_t),
		.value = {{w->head.swap}},
		.compare = {{w->head.compare_add}},
		.mask = {{UINT64_MAX}},
		.compare_mask = {{UINT64_MAX}},
	};

	return atomic_request(w, &atomic);
}

enum av_fault av_direct_with_operands(struct av_work *w)
{
	const struct av_atomic *in_ring = av_sq_operands(w->req, w->ring);
	struct av_atomic atomic;

	if (!in_ring)
		return AV_FAULT_LOC_QP_OP;
	atomic = *in_ring;
	if (atomic.op >= AV_ATOMIC_OP_N || !av_atomic_size_valid(atomic.bytes))
		return AV_FAULT_LOC_QP_OP;
	return w->head.bytes == atomic.bytes ? atomic_request(w, &atomic) : AV_FAULT_LOC_LEN;
}

enum av_fault av_direct_atomic_write(struct av_work *w)
{
	enum av_fault fault = av_direct_check_rd_atomic(w);
	struct av_mem_request req = av_work_request(w, IBV_ACCESS_REMOTE_WRITE);
	struct av_atomic atomic = {.op = AV_ATOMIC_SWAP, .bytes = sizeof(uint64_t)};
	struct av_operand none;
	struct av_spans to;

	if (fault == AV_FAULT_NONE)
		fault = av_work_local(w, 0);
	if (fault != AV_FAULT_NONE)
		return fault;
	av_spans_local(&to, NULL, &atomic.value, sizeof(uint64_t));
	fault = av_work_moved(w, av_xfer_copy(&to, &w->local), AV_FAULT_LOC_PROT,
			      AV_FAULT_LOC_PROT);
	av_work_local_end(w);
	if (fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT)
		return fault;
	if (!(w->rsp->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return AV_FAULT_REM_OP_DENIED;
	return av_direct_operand(w, &req, &atomic, &none);
}
