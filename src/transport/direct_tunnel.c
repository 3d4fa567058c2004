/* SPDX-License-Identifier: MIT */
/* Carrying out tunneled atomics. */
#include "transport/direct_tunnel.h"

#include <sched.h>

#include "memory/key.h"
#include "memory/xfer.h"
#include "transport/direct_atomic.h"
#include "transport/tunnel.h"

/* Look at a tunneled atomic, or do it. */
static enum av_fault tunneled(struct av_work *w, const struct anyverbs_tunneled_atomic *command,
			      bool apply)
{
	struct av_mem_request req =
		av_work_request(w, IBV_ACCESS_REMOTE_WRITE | AV_ACCESS_TUNNELED);
	struct av_atomic atomic;
	struct av_operand old;

	if (!av_tunnel_decode(command, &atomic))
		return AV_FAULT_REM_NO_COMMAND;
	req.addr += command->offset;
	req.length = atomic.bytes;
	return av_direct_operand(w, &req, &atomic, apply ? &old : NULL);
}

/* Not the whole payload again if the region is being re-registered: what comes before is done. */
static enum av_fault do_tunneled(struct av_work *w, const struct anyverbs_tunneled_atomic *command)
{
	enum av_fault fault;

	while ((fault = tunneled(w, command, true)) == AV_FAULT_BUSY)
		sched_yield(); /* no pin is held */
	return fault;
}

enum av_fault av_direct_tunneled(struct av_work *w, bool apply)
{
	struct anyverbs_tunneled_atomic command[ANYVERBS_TUNNELED_MAX];
	unsigned int count = av_tunnel_count(w->head.bytes);
	struct av_spans to;
	enum av_fault fault;

	if (count == 0)
		return AV_FAULT_REM_NO_COMMAND;
	av_spans_local(&to, NULL, command, w->head.bytes);
	fault = av_work_moved(w, av_xfer_copy(&to, &w->local), AV_FAULT_LOC_PROT,
			      AV_FAULT_LOC_PROT);
	if (w->result.park != AV_PARK_NOT)
		return fault;
	for (unsigned int i = 0; i < count && fault == AV_FAULT_NONE; i++)
		fault = tunneled(w, &command[i], false);
	if (fault != AV_FAULT_NONE || !apply)
		return fault;
	av_work_local_end(w);
	for (unsigned int i = 0;
	     i < count && fault == AV_FAULT_NONE && w->result.park == AV_PARK_NOT; i++)
		fault = do_tunneled(w, &command[i]);
	return fault;
}
