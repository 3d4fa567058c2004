/* SPDX-License-Identifier: MIT */
/*
 * The end of requests: their completions, in order, and what their failure does to the queue pair.
 * One way for all transports.
 *
 * Context: all functions: the requester's right @exec is held, no @resp.
 */
#ifndef AV_TRANSPORT_FINISH_H
#define AV_TRANSPORT_FINISH_H

#include "queue/qp.h"
#include "transport/rules.h"

/* The request at the head, @wqe, is done. Without room in the CQ, the queue pair fails. */
void av_finish_done(const struct av_qp_end *end, const struct av_sq_wqe *wqe);

/* The same with another status, and without a look at the request's flags. */
void av_finish_status(const struct av_qp_end *end, const struct av_sq_wqe *wqe,
		      enum ibv_wc_status status);

/*
 * The request at the head has failed with @fault: complete it, and enter the error state. @peer:
 * its responder; .qp is NULL if there is none on this host
 */
AV_COLD void av_finish_fail(const struct av_qp_end *end, const struct av_qp_end *peer,
			    const struct av_sq_wqe *wqe, enum av_fault fault);

/* Complete all requests before @tail as flushed. */
AV_COLD void av_finish_flush(const struct av_qp_end *end, uint32_t tail);

/* The completion of the request at the head found no room: the queue pair fails. */
AV_COLD void av_finish_overrun(const struct av_qp_end *end);

/* Enter the error state. The caller sees to it that the queue is flushed. */
AV_COLD void av_finish_error(const struct av_qp_end *end);

#endif
