/* SPDX-License-Identifier: MIT */
/*
 * One send request, executed against a queue pair of the same host by whoever runs it. Works for
 * any executor that maps both segments: the requester's process, or the responder's when it resumes
 * a request that waited for it.
 */
#ifndef AV_TRANSPORT_EXECUTE_H
#define AV_TRANSPORT_EXECUTE_H

#include "base/compiler.h"
#include "queue/qp.h"
#include "transport/rules.h"

/**
 * av_execute() - execute one request
 * @req: the requester, its @exec execution right held, in a state that executes; @rsp: the
 * responder, .qp NULL if there is none
 * @wqe: the request, in the requester's ring
 * @answer: out, AV_CQE_DATA bytes: the answer, if that is not placed here (result.answer_bytes)
 *
 * Takes the responder's execution right meanwhile. Waits for pages of either program; holds no
 * other lock while it does. Advances the PSNs of both on success. The responder's effects (receive
 * completion, error state, events) are done on return; the requester's completion is the caller's.
 */
struct av_outcome av_execute(const struct av_qp_end *req, const struct av_qp_end *rsp,
			     const struct av_sq_wqe *wqe, uint8_t *answer);

/*
 * The same, with a responder that finds @fault, whatever the request is: no bytes are moved, and
 * the fault has its effects on either side. A reliable connection's request only.
 */
struct av_outcome av_execute_refuse(const struct av_qp_end *req, const struct av_qp_end *rsp,
				    const struct av_sq_wqe *wqe, enum av_fault fault);

/* Is that an operation on the requester's own keys, which no responder hears of? */
bool av_opcode_is_local(uint32_t opcode);

#endif
