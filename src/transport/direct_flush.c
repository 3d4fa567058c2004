/* SPDX-License-Identifier: MIT */
/* FLUSH. */
#include "transport/direct_flush.h"

#include "base/newer_verbs.h"
#include "transport/direct_read.h"

/* The rights that a FLUSH needs, of the queue pair and of the key. */
static uint32_t flush_rights(uint32_t placement)
{
	return (placement & AV_FLUSH_GLOBAL ? AV_ACCESS_FLUSH_GLOBAL : 0) |
	       (placement & ~(uint32_t)AV_FLUSH_GLOBAL ? AV_ACCESS_FLUSH_PERSISTENT : 0);
}

enum av_fault av_direct_flush(struct av_work *w)
{
	uint32_t rights = flush_rights(w->head.placement);
	struct av_mem_request req = av_work_request(w, rights);
	enum av_fault fault = av_direct_check_rd_atomic(w);
	struct av_spans remote;

	req.length = w->head.compare_add;
	req.whole = w->head.selectivity == AV_FLUSH_MR || req.length == 0;
	if (fault != AV_FAULT_NONE)
		return fault;
	if ((w->rsp->qp->attr.qp_access_flags & rights) != rights)
		return AV_FAULT_REM_OP_DENIED;
	fault = av_work_remote(w, &req, &remote);
	if (fault != AV_FAULT_NONE)
		return fault;
	atomic_thread_fence(memory_order_seq_cst);
	av_mem_put(&remote.at[0]);
	return AV_FAULT_NONE;
}
