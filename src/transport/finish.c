/* SPDX-License-Identifier: MIT */
#include "transport/finish.h"

#include <string.h>

#include "base/newer_verbs.h"
#include "transport/count.h"
#include "transport/event.h"
#include "transport/execute.h"
#include "transport/overdue.h"
#include "transport/report.h"

/* By enum ibv_wr_opcode, and by the opcodes that plain verbs do not have. */
static const uint16_t wc_opcode[] = {
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
	[IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
	[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
	[AV_WR_FLUSH] = AV_WC_FLUSH,
	[IBV_WR_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
	[AV_WR_SIZED_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[AV_WR_SIZED_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[AV_WR_MASKED_CMP_AND_SWP] = AV_WC_MASKED_CMP_AND_SWP,
	[AV_WR_MASKED_FETCH_AND_ADD] = AV_WC_MASKED_FETCH_AND_ADD,
	[AV_WR_NOP] = IBV_WC_SEND,
	[AV_WR_UMR_FILL] = AV_WC_UMR,
	[AV_WR_UMR_INVALIDATE] = AV_WC_UMR,
};

static void attach(struct av_qp_shared *qp, struct av_cqe *cqe, const struct av_answer *answer)
{
	atomic_fetch_add(&qp->answers, 1); /* counted before a poller can place it */
	cqe->data_len = answer->bytes;
	memcpy(cqe->data, answer->data, sizeof(cqe->data));
}

/*
 * Append the completion of the request at the head, and step over the request.
 * Return:  0, or -ENOSPC
 */
static int complete(const struct av_qp_end *end, const struct av_sq_wqe *wqe,
		    enum ibv_wc_status status, const struct av_answer *answer)
{
	struct av_qp_shared *qp = end->qp;
	/* Read once: a peer's ring may change under our eyes. */
	uint32_t opcode = __atomic_load_n(&wqe->opcode, __ATOMIC_RELAXED);
	struct av_cqe cqe;
	int ret;

	AV_ASSERT_HELD(&end->qp->exec);
	memset(&cqe, 0, offsetof(struct av_cqe, data));
	cqe.wr_id = wqe->wr_id;
	cqe.status = (uint8_t)status;
	cqe.opcode = opcode < AV_ARRAY_SIZE(wc_opcode) ? wc_opcode[opcode] : IBV_WC_SEND;
	cqe.byte_len = (uint32_t)wqe->bytes;
	cqe.qpn = atomic_load_explicit(&qp->qpn, memory_order_relaxed);
	cqe.queue = qp->index;
	cqe.wqe = qp->sq_next;
	if (av_unlikely(answer && answer->bytes))
		attach(qp, &cqe, answer);
	ret = av_cq_push(end->seg, qp->send_cq, &cqe);
	qp->sq_next++; /* last: a death in between leaves one completion too many, not one too few
			*/
	return ret;
}

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
	(void)complete(end, wqe, av_rule(fault)->requester, NULL);
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
		(void)complete(end, wqe, IBV_WC_WR_FLUSH_ERR, NULL);
	}
	av_report_flush(end, count, false);
}

void av_finish_done(const struct av_qp_end *end, const struct av_sq_wqe *wqe,
		    const struct av_answer *answer)
{
	if (!(wqe->flags & IBV_SEND_SIGNALED) && !end->qp->sig_all)
		end->qp->sq_next++;
	else if (av_unlikely(complete(end, wqe, IBV_WC_SUCCESS, answer)))
		av_finish_overrun(end);
}

void av_finish_status(const struct av_qp_end *end, const struct av_sq_wqe *wqe,
		      enum ibv_wc_status status)
{
	(void)complete(end, wqe, status, NULL); /* a full CQ has raised its own event */
}
