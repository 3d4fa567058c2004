/* SPDX-License-Identifier: MIT */
/* Consuming receive requests. */
#include "transport/deliver.h"

#include <string.h>

#include "base/clock.h"
#include "copy/copy.h"
#include "memory/xfer.h"
#include "memory/why.h"
#include "queue/stage.h"
#include "transport/count.h"
#include "transport/report.h"

/* Longer than a receive request that was posted needs to be seen, and until the next look. */
#define SEEN_NS 2000u
#define PAUSES	8

static struct av_rq_shared *rq_of(const struct av_receiver *to)
{
	return av_rq_at(to->seg, to->rq);
}

static uint32_t qpn_of(const struct av_receiver *to)
{
	return atomic_load_explicit(&to->rsp->qp->qpn, memory_order_relaxed);
}

static const struct av_rq_wqe *take(const struct av_receiver *to)
{
	struct av_rq_shared *rq = rq_of(to);

	return rq ? av_rq_take(to->seg, rq, qpn_of(to), &to->rsp->qp->receiving) : NULL;
}

void av_deliver_prefetch(const struct av_qp_end *rsp)
{
	const struct av_rq_shared *rq = av_rq_at(rsp->seg, rsp->qp->rq);

	if (rq)
		av_rq_prefetch(rsp->seg, rq);
	av_cq_prefetch(rsp->seg, rsp->qp->recv_cq);
}

const struct av_rq_wqe *av_deliver_request(const struct av_receiver *to)
{
	const struct av_rq_wqe *request = take(to);
	struct av_rq_shared *rq;
	uint64_t until;

	if (av_likely(request != NULL))
		return request;
	rq = rq_of(to);
	if (!rq || to->rsp->qp->type == IBV_QPT_UD) /* a datagram is lost then, and nobody waits */
		return NULL;
	atomic_store(&rq->waiting, 1); /* before the other looks: pairs with av_rq_post() */
	until = av_now_ns() + SEEN_NS;
	do {
		for (unsigned int i = 0; i < PAUSES; i++)
			av_pause();
		request = take(to);
	} while (!request && av_now_ns() < until);
	return request;
}

void av_deliver_cancel(const struct av_receiver *to)
{
	av_rq_untake(to->seg, rq_of(to), to->rsp->qp->receiving - 1);
	to->rsp->qp->receiving = 0;
}

/* Append the completion of the request that was taken. */
static int complete(const struct av_receiver *to, const struct av_rq_wqe *request,
		    struct av_cqe *cqe)
{
	int ret;

	cqe->wr_id = request->wr_id;
	cqe->qpn = qpn_of(to);
	cqe->queue = to->rq;
	cqe->wqe = to->rsp->qp->receiving - 1;
	cqe->flags |= AV_CQE_RECV;
	ret = av_cq_push(to->seg, to->cq, cqe);
	to->rsp->qp->receiving = 0; /* only now: whoever repairs after our death looks here */
	return ret;
}

static void message_cqe(struct av_cqe *cqe, const struct av_message *msg)
{
	memset(cqe, 0, offsetof(struct av_cqe, data));
	cqe->status = IBV_WC_SUCCESS;
	cqe->opcode = (uint16_t)msg->opcode;
	cqe->byte_len = (uint32_t)msg->bytes;
	cqe->imm = msg->imm;
	cqe->wc_flags = msg->wc_flags;
	cqe->src_qp = msg->src_qpn;
	cqe->slid = msg->slid;
	cqe->sl = msg->sl;
	cqe->flags = msg->solicited ? AV_CQE_SOLICITED : 0;
}

enum av_fault av_deliver_completion(const struct av_message *msg, const struct av_rq_wqe *request)
{
	struct av_cqe cqe;

	message_cqe(&cqe, msg);
	return complete(msg->to, request, &cqe) ? AV_FAULT_RECV_CQ : AV_FAULT_NONE;
}

static enum av_fault fault_of_xfer(enum av_xfer reach)
{
	switch (reach) {
	case AV_XFER_OK:
		return AV_FAULT_NONE;
	case AV_XFER_SRC_FAULT:
		return AV_FAULT_LOC_PROT;
	case AV_XFER_DST_FAULT:
		return AV_FAULT_RECV_PROT;
	case AV_XFER_BUSY:
		return AV_FAULT_BUSY;
	default:
		return AV_FAULT_FORBIDDEN;
	}
}

/* Payload that fits the completion entry travels in it. */
static enum av_fault carry(struct av_cqe *cqe, const struct av_message *msg,
			   const struct av_spans *from)
{
	struct av_spans to;

	av_spans_local(&to, NULL, cqe->data, msg->bytes);
	cqe->data_len = (uint8_t)msg->bytes;
	return fault_of_xfer(av_xfer_copy(&to, from));
}

/* A copy into the chain's buffers, one after the other; @from is consumed piece by piece. */
static enum av_fault fill_chain(struct av_seg *seg, uint32_t link, uint64_t bytes,
				const struct av_spans *from)
{
	struct av_spans rest = *from, to;

	while (bytes > 0) {
		uint64_t n = bytes < AV_STAGE_BYTES ? bytes : AV_STAGE_BYTES;
		enum av_xfer ret;

		av_spans_local(&to, NULL, av_stage_buffer(seg, link), n);
		if (!to.at[0].local)
			return AV_FAULT_FORBIDDEN;
		ret = av_xfer_copy(&to, &rest);
		if (ret == AV_XFER_DST_FAULT) /* the shared file system is full */
			return AV_FAULT_FORBIDDEN;
		if (ret != AV_XFER_OK)
			return fault_of_xfer(ret);
		av_spans_skip(&rest, n);
		bytes -= n;
		link = av_stage_next(seg, link);
	}
	return AV_FAULT_NONE;
}

static enum av_fault stage(struct av_cqe *cqe, const struct av_message *msg,
			   const struct av_spans *from)
{
	struct av_seg *seg = msg->to->seg;
	enum av_fault fault;

	cqe->stage = av_stage_take(seg, msg->bytes);
	if (!cqe->stage)
		return AV_FAULT_FORBIDDEN;
	cqe->stage_len = (uint32_t)msg->bytes;
	fault = fill_chain(seg, cqe->stage, msg->bytes, from);
	if (fault != AV_FAULT_NONE) {
		av_stage_give(seg, cqe->stage, msg->bytes);
		cqe->stage = 0;
	}
	return fault;
}

/*
 * Inline receive: the payload waits for the poller in the completion or beside the request, whoever
 * executes. The receive buffers are not looked at before it is placed.
 */
static enum av_fault leave_for_poller(struct av_cqe *cqe, const struct av_message *msg,
				      const struct av_spans *from)
{
	struct av_seg *seg = msg->to->seg;
	struct av_spans to;

	if (msg->bytes <= AV_CQE_DATA)
		return carry(cqe, msg, from);
	av_spans_local(&to, NULL,
		       av_rq_payload(seg, rq_of(msg->to), msg->to->rsp->qp->receiving - 1),
		       msg->bytes);
	if (!to.at[0].local)
		return AV_FAULT_RECV_PROT; /* a peer's queue that contradicts itself */
	cqe->flags |= AV_CQE_IN_SLOT;
	cqe->stage_len = (uint32_t)msg->bytes;
	return fault_of_xfer(av_xfer_copy(&to, from));
}

/* Is inline receive active for a message of that length? What a peer's segment says is not
 * believed. */
static bool is_inline(const struct av_message *msg)
{
	uint64_t room = rq_of(msg->to)->inline_bytes;

	if (msg->bytes == 0 || msg->bytes > msg->to->rsp->qp->inline_recv)
		return false;
	return msg->bytes <= AV_CQE_DATA ||
	       (msg->bytes <= room && msg->bytes <= AV_MAX_INLINE_RECV);
}

/* Choose how the bytes travel. @to holds the receive buffers, translated. */
static enum av_fault move(struct av_cqe *cqe, const struct av_message *msg,
			  const struct av_spans *from, const struct av_spans *to)
{
	struct av_seg *seg = msg->to->seg;
	enum av_fault fault = AV_FAULT_FORBIDDEN;

	if (seg->own)
		return fault_of_xfer(av_xfer_copy(to, from));
	if (msg->bytes <= AV_CQE_DATA)
		return carry(cqe, msg, from);
	if (msg->bytes <= AV_STAGE_LIMIT)
		fault = stage(cqe, msg, from);
	if (fault == AV_FAULT_FORBIDDEN && !av_xfer_refused(seg))
		fault = fault_of_xfer(av_xfer_copy(to, from));
	if (fault == AV_FAULT_FORBIDDEN && msg->bytes > AV_STAGE_LIMIT)
		fault = stage(cqe, msg, from);
	return fault;
}

static enum av_fault receive_fault(const struct av_message *msg, const struct av_rq_wqe *request,
				   uint32_t pd, enum av_mem_fault found)
{
	if (found == AV_MEM_BUSY)
		return AV_FAULT_BUSY;
	av_mem_why_list(msg->to->seg, pd, IBV_ACCESS_LOCAL_WRITE, request->sge, request->count,
			msg->bytes, found);
	return AV_FAULT_RECV_PROT;
}

enum av_fault av_deliver_send(const struct av_message *msg, const struct av_spans *from,
			      const struct av_rq_wqe *request)
{
	struct av_rq_shared *rq = rq_of(msg->to);
	enum av_fault fault = AV_FAULT_NONE;
	struct av_spans to;
	struct av_cqe cqe;

	if (msg->bytes > request->bytes) {
		av_diag_note(AV_CHECK_RECV_SHORT, msg->bytes, request->bytes);
		return AV_FAULT_RECV_SHORT;
	}
	message_cqe(&cqe, msg);
	if (is_inline(msg)) {
		fault = leave_for_poller(&cqe, msg, from);
	} else if (msg->bytes > 0) {
		enum av_mem_fault found =
			av_mem_get_list(msg->to->seg, rq->pd, IBV_ACCESS_LOCAL_WRITE, request->sge,
					request->count, msg->bytes, &to);

		if (found != AV_MEM_OK)
			return receive_fault(msg, request, rq->pd, found);
		fault = move(&cqe, msg, from, &to);
		av_mem_put_list(&to);
	}
	if (fault == AV_FAULT_NONE && msg->invalidate &&
	    av_window_invalidate(msg->to->seg, msg->invalidate, qpn_of(msg->to)) !=
		    AV_INVALIDATED) {
		av_stage_give(msg->to->seg, cqe.stage, cqe.stage_len);
		fault = AV_FAULT_INVALIDATE;
	}
	if (fault != AV_FAULT_NONE)
		return fault;
	if (complete(msg->to, request, &cqe) == 0)
		return AV_FAULT_NONE;
	av_stage_give(msg->to->seg, cqe.stage, cqe.stage_len);
	return AV_FAULT_RECV_CQ;
}

static void complete_in_error(const struct av_receiver *to, const struct av_rq_wqe *request,
			      enum ibv_wc_status status)
{
	struct av_cqe cqe;

	memset(&cqe, 0, offsetof(struct av_cqe, data));
	cqe.status = (uint8_t)status;
	cqe.opcode = IBV_WC_RECV;
	av_count_receive(to->rsp->qp, status);
	(void)complete(to, request, &cqe); /* a full CQ has said so by its own event */
}

void av_deliver_error(const struct av_receiver *to, enum ibv_wc_status status)
{
	const struct av_rq_wqe *request;

	if (to->rsp->qp->receiving)
		request = av_rq_wqe(to->seg, rq_of(to), to->rsp->qp->receiving - 1);
	else
		request = take(to);
	if (request)
		complete_in_error(to, request, status);
}

void av_deliver_flush(const struct av_qp_end *rsp)
{
	struct av_receiver to = av_receiver_of(rsp);
	const struct av_rq_wqe *request;
	uint32_t count = 0;

	if (rsp->qp->srq || rsp->qp->type == IBV_QPT_XRC_SEND || rsp->qp->type == IBV_QPT_XRC_RECV)
		return;
	while ((request = take(&to))) {
		complete_in_error(&to, request, IBV_WC_WR_FLUSH_ERR);
		count++;
	}
	av_report_flush(rsp, count, true);
}
