/* SPDX-License-Identifier: MIT */
/* RDMA READ, and what it has in common with others that bring something back: its right and its
 * answer. */
#ifndef AV_TRANSPORT_DIRECT_READ_H
#define AV_TRANSPORT_DIRECT_READ_H

#include "transport/direct_work.h"

av_operation av_direct_read;

/* May the two sides do READs, atomics and what else takes a responder's resource at all? Return:
 * AV_FAULT_NONE, AV_FAULT_LOC_QP_OP, AV_FAULT_REM_NO_RD_ATOMIC */
AV_MUST_USE enum av_fault av_direct_check_rd_atomic(const struct av_work *w);

/**
 * av_direct_answer() - bring an answer to where the request wants it, or leave it for the poller
 * @from: the answer, in the responder's memory or in the executor's own
 *
 * Context and return as an operation's; the fault of @from is AV_FAULT_REM_ACCESS.
 */
AV_MUST_USE enum av_fault av_direct_answer(struct av_work *w, const struct av_spans *from);

#endif
