/* SPDX-License-Identifier: MIT */
#include "transport/finish.h"

#include "transport/count.h"
#include "transport/event.h"
#include "transport/execute.h"
#include "transport/overdue.h"
#include "transport/report.h"

void av_finish_error(const struct av_qp_end *end)
{
	atomic_store(&end->qp->park, AV_PARK_NOT);
	av_overdue_error(end);
}

void av_finish_fail(const struct av_qp_end *end, const struct av_qp_end *peer,
		    const struct av_sq_wqe *wqe, enum av_fault fault)
{
	bool silent = fault == AV_FAULT_RETRY_EXHAUSTED && peer->qp && av_seg_alive_now(peer->seg);

	AV_ASSERT_HELD(&end->qp->exec);
	av_count_request(end->qp, av_rule(fault)->requester);
	silent = silent && av_responder_acquire_soon(peer);
	av_report_request(&(struct av_failed){end, peer, wqe, fault, silent});
	if (silent)
		av_lock_release(&peer->qp->resp);
	/* A full CQ has raised its own event. */
	(void)!av_sq_complete(end, wqe, av_rule(fault)->requester);
	av_finish_error(end);
}

void av_finish_overrun(const struct av_qp_end *end)
{
	av_report_send_cq(end);
	av_finish_error(end);
	av_event_raise(end, atomic_load(&end->qp->qpn), IBV_EVENT_QP_FATAL);
}

void av_finish_flush(const struct av_qp_end *end, uint32_t tail)
{
	uint32_t count = 0;

	while (end->qp->sq_next != tail && count < AV_MAX_QP_WR) {
		const struct av_sq_wqe *wqe = av_sq_slot(end, end->qp->sq_next);

		if (!wqe)
			break;
		count++;
		av_count_request(end->qp, IBV_WC_WR_FLUSH_ERR);
		(void)!av_sq_complete(end, wqe, IBV_WC_WR_FLUSH_ERR);
	}
	av_report_flush(end, count, false);
}

void av_finish_done(const struct av_qp_end *end, const struct av_sq_wqe *wqe)
{
	if (av_unlikely(av_sq_complete(end, wqe, IBV_WC_SUCCESS) < 0))
		av_finish_overrun(end);
}

void av_finish_status(const struct av_qp_end *end, const struct av_sq_wqe *wqe,
		      enum ibv_wc_status status)
{
	(void)!av_sq_complete(end, wqe, status); /* a full CQ has raised its own event */
}
