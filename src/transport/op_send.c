/* SPDX-License-Identifier: MIT */
/* Consuming the responder's receive requests. */
#include "transport/op_send.h"

#include "memory/window.h"
#include "registry/directory.h"
#include "transport/assist.h"
#include "transport/count.h"
#include "transport/receive.h"
#include "transport/op_rdma.h"

static void message_of(const struct av_work *w, struct av_message *msg)
{
	const struct av_packet_kind *kind = &w->opcode->packet;
	bool write = kind->operation == AV_OP_WRITE;
	bool imm = kind->tail == AV_TAIL_IMM, inv = kind->tail == AV_TAIL_INVALIDATE;

	*msg = (struct av_message){
		.to = &w->to,
		.src_qpn = atomic_load_explicit(&w->req->qp->qpn, memory_order_relaxed),
		.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.wc_flags = imm	  ? IBV_WC_WITH_IMM
			    : inv ? IBV_WC_WITH_INV
				  : 0,
		.imm = imm || inv ? w->wqe->imm : 0,
		.invalidate = inv ? w->wqe->imm : 0,
		.bytes = w->wqe->bytes + (w->piece ? w->piece->before : 0),
		.now_ns = w->now_ns,
		.solicited = w->wqe->flags & IBV_SEND_SOLICITED,
		.message = w->piece ? w->piece->message : NULL,
		.later = w->after ? &w->after->bell : NULL,
	};
}

/* The source of a large message of one element, which both sides may copy; NULL for others. */
static const struct av_assist_source *source_of(const struct av_work *w,
						struct av_assist_source *source)
{
	if (av_likely(w->wqe->bytes < AV_ASSIST_MIN) || w->piece || w->wqe->count != 1 ||
	    w->to.rq != w->rsp->qp->rq || w->rsp->qp->srq || (w->wqe->flags & IBV_SEND_INLINE))
		return NULL;
	source->req = w->req;
	source->sge = w->wqe->sge[0];
	return source;
}

static enum av_fault not_ready(struct av_work *w)
{
	if (atomic_load_explicit(&w->req->qp->park, memory_order_relaxed) != AV_PARK_RNR)
		av_count_rsp(w->rsp->qp, AV_RSP_RNR);
	w->result.rnr_timer = w->rsp->qp->attr.min_rnr_timer;
	av_work_park(w, AV_PARK_RNR);
	return AV_FAULT_NONE;
}

/* Does the message have bytes in other packets? */
static bool is_in_pieces(const struct av_work *w)
{
	return w->piece && (w->piece->before || w->piece->more);
}

/* Did an earlier packet of the message take its receive request? */
static bool is_continued(const struct av_work *w)
{
	return av_unlikely(w->piece != NULL) && w->piece->before;
}

/* Does this fault leave the receive request for the next message? */
static bool keeps_receive_request(enum av_fault fault)
{
	return fault == AV_FAULT_LOC_PROT || fault == AV_FAULT_FORBIDDEN || fault == AV_FAULT_BUSY;
}

/*
 * Deliver the bytes.
 * Context: a receive request is taken.
 */
static enum av_fault send_bytes(struct av_work *w, const struct av_rq_wqe *request)
{
	struct av_assist_source source;
	enum av_fault fault;
	struct av_message msg;

	if (w->opcode->packet.tail == AV_TAIL_INVALIDATE &&
	    av_window_may_invalidate(w->to.seg, w->wqe->imm, w->qpn) != AV_CHECK_NONE)
		return AV_FAULT_INVALIDATE;
	message_of(w, &msg);
	msg.only = source_of(w, &source);
	if (av_unlikely(is_in_pieces(w)))
		fault = av_receive_piece(&msg, &w->local, request, w->piece->more);
	else
		fault = av_receive_message(&msg, &w->local, request);
	if (fault != AV_FAULT_NONE && !av_seg_alive_now(w->rsp->seg))
		return av_work_gone(w);
	if (fault == AV_FAULT_BUSY && is_continued(w))
		return fault;
	if (keeps_receive_request(fault) || w->result.park != AV_PARK_NOT)
		av_receive_cancel(&w->to);
	return fault;
}

enum av_fault av_op_send(struct av_work *w)
{
	enum av_fault fault = av_work_local(w, 0);
	const struct av_rq_wqe *request;

	if (fault != AV_FAULT_NONE)
		return fault;
	request = is_continued(w) ? av_receive_taken(&w->to) : av_receive_take(&w->to);
	fault = request ? send_bytes(w, request) : not_ready(w);
	av_mem_put_list(&w->local);
	return fault;
}

/*
 * Check the rkey before taking a receive request, and move the bytes afterwards: a fault leaves the
 * receive request queued.
 */
static enum av_fault write_imm(struct av_work *w)
{
	enum av_fault fault = w->wqe->bytes > 0 ? av_op_write_bytes(w, false) : AV_FAULT_NONE;
	const struct av_rq_wqe *request;
	struct av_message msg;

	if (fault != AV_FAULT_NONE)
		return fault;
	request = av_receive_take(&w->to);
	if (!request)
		return not_ready(w);
	if (w->wqe->bytes > 0)
		fault = av_op_write_bytes(w, true);
	if (keeps_receive_request(fault) || w->result.park != AV_PARK_NOT)
		av_receive_cancel(&w->to);
	if (fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT)
		return fault;
	message_of(w, &msg);
	return av_receive_done(&msg, request);
}

enum av_fault av_op_write_imm(struct av_work *w)
{
	enum av_fault fault = av_work_local(w, 0);

	if (fault != AV_FAULT_NONE)
		return fault;
	fault = av_work_permitted(w, IBV_ACCESS_REMOTE_WRITE);
	if (fault == AV_FAULT_NONE)
		fault = write_imm(w);
	av_mem_put_list(&w->local);
	return fault;
}
