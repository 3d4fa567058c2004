/* SPDX-License-Identifier: MIT */
/*
 * The direct transport: one send request, executed against a queue pair of the same host by whoever
 * runs it. Works for any executor that maps both segments: the requester's process, or the
 * responder's when it resumes a request that waited for it.
 */
#ifndef AV_TRANSPORT_DIRECT_H
#define AV_TRANSPORT_DIRECT_H

#include "base/compiler.h"
#include "queue/qp.h"
#include "transport/rules.h"

struct av_direct_result {
	enum av_fault fault;   /* AV_FAULT_NONE: done, unless parked */
	enum av_park park;     /* AV_PARK_NOT: executed, with @fault or without */
	uint8_t rnr_timer;     /* with AV_PARK_RNR: the responder's timer code */
	bool gone;	       /* with AV_PARK_NO_ANSWER: there will never be an answer */
	uint8_t answer_bytes;  /* the answer to a READ or atomic waits for the poller: so long it is
				*/
	bool owner_only;       /* with AV_PARK_RNR: only the requester's own process can go on */
	bool responder_failed; /* the responder is in the error state now and its send queue wants
				  flushing */
};

/**
 * av_direct_execute() - execute one request
 * @req: the requester, its @exec execution right held, in a state that executes; @rsp: the
 * responder, .qp NULL if there is none
 * @wqe: the request, in the requester's ring
 * @answer: out, AV_CQE_DATA bytes: the answer, if that is not placed here (result.answer_bytes)
 *
 * Takes the responder's execution right meanwhile. Waits for pages of either program; holds no
 * other lock while it does. Advances the PSNs of both on success. The responder's effects (receive
 * completion, error state, events) are done on return; the requester's completion is the caller's.
 */
struct av_direct_result av_direct_execute(const struct av_qp_end *req, const struct av_qp_end *rsp,
					  const struct av_sq_wqe *wqe, uint8_t *answer);

/*
 * The same, with a responder that finds @fault, whatever the request is: no bytes are moved, and
 * the fault has its effects on either side. A reliable connection's request only.
 */
struct av_direct_result av_direct_refuse(const struct av_qp_end *req, const struct av_qp_end *rsp,
					 const struct av_sq_wqe *wqe, enum av_fault fault);

/* Is that an operation on the requester's own keys, which no responder hears of? */
bool av_direct_is_local(uint32_t opcode);

#endif
