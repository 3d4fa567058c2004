/* SPDX-License-Identifier: MIT */
/* Error counters: which counter of a queue pair a fault, or a status, belongs to. */
#ifndef AV_TRANSPORT_COUNT_H
#define AV_TRANSPORT_COUNT_H

#include <infiniband/verbs.h>

#include "queue/qp.h"

/*
 * A request of @qp completes with @status, an error.
 * Context: @exec is held.
 */
void av_count_request(struct av_qp_shared *qp, enum ibv_wc_status status);

/*
 * The receive request of a message to @qp completes with @status, an error; or would have, had one
 * been posted.
 * Context: @resp is held.
 */
void av_count_receive(struct av_qp_shared *qp, enum ibv_wc_status status);

static inline void av_count_req(struct av_qp_shared *qp, enum av_req_event which)
{
	qp->counters.req.event[which]++;
}

static inline void av_count_rsp(struct av_qp_shared *qp, enum av_rsp_event which)
{
	qp->counters.rsp.event[which]++;
}

#endif
