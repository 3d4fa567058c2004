/* SPDX-License-Identifier: MIT */
/* RDMA WRITE. */
#include "transport/direct_write.h"

#include "memory/xfer.h"
#include "transport/direct_tunnel.h"

/* Translate where an RDMA WRITE goes; AV_FAULT_TUNNELED: it is to be understood instead. */
static enum av_fault write_begin(const struct av_work *w, struct av_spans *remote)
{
	struct av_mem_request req = av_work_request(w, IBV_ACCESS_REMOTE_WRITE);

	req.payload = true;
	return av_work_remote(w, &req, remote);
}

enum av_fault av_direct_write_bytes(struct av_work *w)
{
	struct av_spans remote;
	enum av_fault fault = write_begin(w, &remote);

	if (av_unlikely(fault == AV_FAULT_TUNNELED))
		return av_direct_tunneled(w, true);
	if (fault != AV_FAULT_NONE)
		return fault;
	fault = av_work_moved(w, av_xfer_copy(&remote, &w->local), AV_FAULT_LOC_PROT,
			      AV_FAULT_REM_ACCESS);
	av_mem_put(&remote.at[0]);
	return fault;
}

enum av_fault av_direct_write_check(struct av_work *w)
{
	struct av_spans remote;
	enum av_fault fault = write_begin(w, &remote);

	if (av_unlikely(fault == AV_FAULT_TUNNELED))
		return av_direct_tunneled(w, false);
	if (fault == AV_FAULT_NONE)
		av_mem_put(&remote.at[0]);
	return fault;
}

enum av_fault av_direct_write(struct av_work *w)
{
	enum av_fault fault = av_work_local(w, 0);

	if (fault != AV_FAULT_NONE)
		return fault;
	if (!(w->rsp->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		fault = AV_FAULT_REM_OP_DENIED;
	else if (w->head.bytes > 0)
		fault = av_direct_write_bytes(w);
	av_work_local_end(w);
	return fault;
}
