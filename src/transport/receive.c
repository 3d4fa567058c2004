/* SPDX-License-Identifier: MIT */

#include "memory/region.h"
#include "transport/observed.h"

/* Consuming receive requests. */

/*
 * How long to look for a request that is just being posted: longer than a post takes to be seen.
 * PAUSES: turns between two looks.
 */
#define SEEN_NS 2000u
#define PAUSES	8

const struct av_rq_wqe *av_receive_take(const struct av_receiver *to)
{
	struct av_rq_shared *rq = av_rq_at(to->seg, to->rq);
	uint32_t *receiving = &to->rsp->qp->receiving;
	const struct av_rq_wqe *request =
		av_likely(rq != NULL) ? av_rq_take(to->seg, rq, to->qpn, receiving) : NULL;
	uint64_t until;

	AV_ASSERT_HELD(&to->rsp->qp->resp_lock);
	if (av_likely(request != NULL))
		return request;
	if (!rq || to->rsp->qp->type == IBV_QPT_UD) /* nobody waits with a datagram */
		return NULL;
	atomic_store(&rq->waiting, 1); /* before the last look: pairs with av_rq_post() */
	until = av_now_ns() + SEEN_NS;
	do {
		for (unsigned int i = 0; i < PAUSES; i++)
			av_pause();
		request = av_rq_take(to->seg, rq, to->qpn, receiving);
	} while (!request && av_now_ns() < until);
	return request;
}

void av_receive_cancel(const struct av_receiver *to)
{
	struct av_rq_shared *rq = av_rq_at(to->seg, to->rq);

	AV_ASSERT_HELD(&to->rsp->qp->resp_lock);
	if (rq) /* else a peer has written nonsense */
		av_rq_untake(to->seg, rq, to->qpn, to->rsp->qp->receiving - 1);
	to->rsp->qp->receiving = 0;
}

static void fill_recv_cqe(struct av_cqe *cqe, const struct av_receiver *to,
			  const struct av_rq_wqe *request)
{
	cqe->wr_id = request->wr_id;
	cqe->flags |= AV_CQE_RECV;
	cqe->qpn = to->qpn;
	cqe->queue = to->rq;
	cqe->wqe = to->rsp->qp->receiving - 1;
}

/*
 * Append the completion. Where there is no room, what the entry holds is released at once.
 * Return:  0, also if the CQ has dropped it; or -ENOSPC, which av_cq_push() has reported
 */
static int complete_recv_request(const struct av_receiver *to, const struct av_cqe *cqe,
				 struct av_cq_bell *later)
{
	int ret = av_cq_push(to->seg, to->cq, cqe, later);

	if (av_unlikely(ret))
		av_place_lost(to->seg, cqe);
	/* Not earlier: whoever repairs after our death needs it until here. */
	to->rsp->qp->receiving = 0;
	return ret == AV_CQ_DROPPED ? 0 : ret;
}

static enum av_fault complete_message(struct av_message *msg, const struct av_rq_wqe *request)
{
	AV_ASSERT_HELD(&msg->to->rsp->qp->resp_lock);
	fill_recv_cqe(&msg->cqe, msg->to, request);
	return complete_recv_request(msg->to, &msg->cqe, msg->later) ? AV_FAULT_RECV_CQ
								     : AV_FAULT_NONE;
}

static enum av_fault copy_message(const struct av_spans *to, const struct av_spans *from,
				  const struct av_message *msg)
{
	enum av_fault copied = av_xfer_copy(to, from, msg->now_ns);

	if (av_likely(copied == AV_FAULT_NONE))
		return copied;
	return copied == AV_FAULT_GONE ? AV_FAULT_FORBIDDEN
				       : av_fault_at(copied, AV_FAULT_LOC_PROT, AV_FAULT_RECV_PROT);
}

static enum av_fault put_in_entry(struct av_message *msg, const struct av_spans *from)
{
	struct av_spans to;

	memset(msg->cqe.data, 0, sizeof(msg->cqe.data)); /* the receiver is given all of it */
	av_spans_local(&to, NULL, msg->cqe.data, msg->bytes);
	msg->cqe.data_len = (uint8_t)msg->bytes;
	return copy_message(&to, from, msg);
}

static enum av_fault fill_chain(const struct av_message *msg, const struct av_spans *from)
{
	struct av_seg *seg = msg->to->seg;
	uint32_t link = msg->cqe.bounce;
	uint64_t bytes = msg->bytes, n;
	struct av_spans rest, to;

	for (;; bytes -= n) {
		enum av_fault ret;

		n = bytes < AV_BOUNCE_BYTES ? bytes : AV_BOUNCE_BYTES;
		av_spans_local(&to, NULL, av_bounce_buffer(seg, link), n);
		if (!to.at[0].local)
			return AV_FAULT_FORBIDDEN;
		ret = copy_message(&to, from, msg);
		if (ret != AV_FAULT_NONE) /* at its end: the shared file system is full */
			return ret == AV_FAULT_RECV_PROT ? AV_FAULT_FORBIDDEN : ret;
		if (av_likely(n == bytes))
			return AV_FAULT_NONE;
		if (from != &rest)
			av_spans_copy(&rest, from);
		av_spans_skip(&rest, n);
		from = &rest;
		link = av_bounce_next(seg, link);
	}
}

static enum av_fault copy_to_bounce(struct av_message *msg, const struct av_spans *from)
{
	struct av_seg *seg = msg->to->seg;
	enum av_fault fault;

	msg->cqe.bounce = av_bounce_take(seg, msg->bytes);
	if (!msg->cqe.bounce)
		return AV_FAULT_FORBIDDEN;
	msg->cqe.bounce_len = (uint32_t)msg->bytes;
	fault = fill_chain(msg, from);
	if (fault != AV_FAULT_NONE) {
		av_bounce_give(seg, msg->cqe.bounce, msg->bytes);
		msg->cqe.bounce = 0;
	}
	return fault;
}

/*
 * Inline receive: the payload waits for the poller, in the completion or beside the request,
 * whichever process executes; in bounce buffers if the request is of a shared queue, which was
 * made before its queue pairs. The receive buffers are checked when it is placed.
 * Return: AV_FAULT_FORBIDDEN: no bounce buffer is free, or the message is too long for this
 */
static enum av_fault leave_for_poller(struct av_message *msg, const struct av_spans *from)
{
	struct av_seg *seg = msg->to->seg;
	const struct av_rq_shared *rq = av_rq_at(seg, msg->to->rq);
	struct av_spans to;

	if (msg->bytes > AV_MAX_INLINE_RECV) /* the length from a peer's segment */
		return AV_FAULT_FORBIDDEN;
	if (msg->bytes <= AV_CQE_DATA)
		return put_in_entry(msg, from);
	if (msg->bytes > rq->inline_bytes)
		return copy_to_bounce(msg, from);
	av_spans_local(&to, NULL, av_rq_payload(seg, rq, msg->to->rsp->qp->receiving - 1),
		       msg->bytes);
	if (!to.at[0].local)
		return AV_FAULT_RECV_PROT; /* a peer's queue is inconsistent */
	msg->cqe.flags |= AV_CQE_IN_SLOT;
	msg->cqe.bounce_len = (uint32_t)msg->bytes;
	return copy_message(&to, from, msg);
}

/* Are all runs of bytes at addresses of this process, and not ODP? */
static bool is_in_reach(const struct av_spans *spans)
{
	for (uint32_t i = 0; i < spans->count; i++)
		if (!spans->at[i].local || spans->at[i].odp)
			return false;
	return true;
}

/* Copy into a receive buffer that this process reaches. */
static enum av_fault copy_to_buffer(const struct av_message *msg, const struct av_spans *from,
				    const struct av_spans *to, const struct av_rq_wqe *request)
{
	/* Read once: a peer's request may change under our eyes. */
	struct ibv_sge recv = {
		.addr = __atomic_load_n(&request->sge[0].addr, __ATOMIC_RELAXED),
		.length = (uint32_t)msg->bytes,
		.lkey = __atomic_load_n(&request->sge[0].lkey, __ATOMIC_RELAXED),
	};
	enum av_coop_result done = AV_COOP_NOT;

	if (av_unlikely(msg->bytes >= AV_COOP_MIN) && msg->only && to->count == 1 &&
	    request->count == 1 && from->count == 1 && is_in_reach(from))
		done = av_coop_copy(msg->only, msg->to->rsp, &recv, to->at[0].local,
				    from->at[0].local);
	if (done == AV_COOP_COPIED)
		return AV_FAULT_NONE;
	if (done == AV_COOP_STUCK) /* another copy would race with the poller's */
		return AV_FAULT_BUSY;
	/* Without help, or once more after help has failed. */
	return copy_message(to, from, msg);
}

/*
 * Choose how the bytes travel. @to: the translated receive buffers
 *
 * A short message travels in its completion even if the buffer is in reach: then one cache line
 * moves from core to core instead of two.
 */
static enum av_fault transfer_payload(struct av_message *msg, const struct av_spans *from,
				      const struct av_spans *to, const struct av_rq_wqe *request)
{
	struct av_seg *seg = msg->to->seg;
	enum av_fault fault = AV_FAULT_FORBIDDEN;

	if (av_unlikely(seg->own))
		return copy_message(to, from, msg);
	if (msg->bytes <= AV_CQE_DATA)
		return put_in_entry(msg, from);
	if (is_in_reach(to))
		return copy_to_buffer(msg, from, to, request);
	if (msg->bytes <= AV_BOUNCE_LIMIT)
		fault = copy_to_bounce(msg, from);
	if (fault == AV_FAULT_FORBIDDEN && !av_xfer_refused(seg))
		fault = copy_message(to, from, msg);
	if (fault == AV_FAULT_FORBIDDEN && msg->bytes > AV_BOUNCE_LIMIT)
		fault = copy_to_bounce(msg, from);
	return fault;
}

/* Translate the buffers of @request, for all bytes of the message. */
static enum av_fault find_receive_buffers(const struct av_message *msg,
					  const struct av_rq_wqe *request, struct av_spans *to)
{
	struct av_seg *seg = msg->to->seg;
	uint32_t pd = av_rq_at(seg, msg->to->rq)->pd;
	enum av_check found = av_mem_get_list(seg, pd, IBV_ACCESS_LOCAL_WRITE, request->sge,
					      request->count, msg->bytes, to);

	return av_likely(found == AV_CHECK_NONE)
		       ? AV_FAULT_NONE
		       : av_mr_explain_element(seg, pd, IBV_ACCESS_LOCAL_WRITE,
					       &request->sge[to->refused], to->bytes, found,
					       AV_FAULT_RECV_PROT);
}

static enum av_fault deliver_bytes(struct av_message *msg, const struct av_spans *from,
				   const struct av_rq_wqe *request)
{
	enum av_fault fault;
	struct av_spans to;

	if (msg->bytes == 0)
		return AV_FAULT_NONE;
	if (av_unlikely(msg->bytes <= msg->to->rsp->qp->inline_recv)) {
		fault = leave_for_poller(msg, from);
		if (fault != AV_FAULT_FORBIDDEN || (msg->cqe.flags & AV_CQE_IN_SLOT))
			return fault;
	}
	fault = find_receive_buffers(msg, request, &to);
	if (av_unlikely(fault != AV_FAULT_NONE))
		return fault;
	fault = transfer_payload(msg, from, &to, request);
	av_mem_put_list(&to);
	return fault;
}

AV_COLD static enum av_fault too_long(const struct av_message *msg, const struct av_rq_wqe *request)
{
	av_diag_note(AV_CHECK_RECV_SHORT, msg->bytes, request->bytes);
	return AV_FAULT_RECV_SHORT;
}

static enum av_fault invalidate(const struct av_message *msg)
{
	enum av_check found = av_window_invalidate(msg->to->seg, msg->invalidate, msg->to->qpn);

	return av_fault_of(found, AV_FAULT_INVALIDATE);
}

enum av_fault av_receive_message(struct av_message *msg, const struct av_spans *from,
				 const struct av_rq_wqe *request)
{
	enum av_fault fault;

	if (msg->bytes > request->bytes)
		return too_long(msg, request);
	msg->cqe.byte_len = (uint32_t)msg->bytes;
	fault = deliver_bytes(msg, from, request);
	if (fault == AV_FAULT_NONE && av_unlikely(msg->invalidate))
		fault = invalidate(msg);
	if (av_likely(fault == AV_FAULT_NONE))
		return complete_message(msg, request);
	av_bounce_give(msg->to->seg, msg->cqe.bounce, msg->cqe.bounce_len);
	return fault;
}

/* The request that an earlier fragment of the message took. Return: NULL: there is none */
static const struct av_rq_wqe *taken_request(const struct av_receiver *to)
{
	const struct av_rq_shared *rq = av_rq_at(to->seg, to->rq);
	uint32_t receiving = to->rsp->qp->receiving;

	AV_ASSERT_HELD(&to->rsp->qp->resp_lock);
	return rq && receiving ? av_rq_wqe(to->seg, rq, receiving - 1) : NULL;
}

/* Copy a fragment behind those before it. The bytes of a message in fragments go to its buffers. */
static enum av_fault copy_message_fragment(const struct av_message *msg,
					   const struct av_spans *from,
					   const struct av_rq_wqe *request)
{
	struct av_spans to, rest;
	enum av_fault fault = find_receive_buffers(msg, request, &to);

	if (fault != AV_FAULT_NONE)
		return fault;
	av_spans_copy(&rest, &to);
	av_spans_skip(&rest, msg->bytes - from->bytes);
	av_spans_are_part(&rest, msg->message);
	rest.bytes = from->bytes;
	fault = copy_message(&rest, from, msg);
	av_mem_put_list(&to);
	return fault;
}

/*
 * av_receive_message() for one packet of a message in several packets.
 * @msg: its length is that of the bytes so far, including @from, the bytes of this fragment
 * @more: more fragments follow; else this completes the request
 */
static enum av_fault receive_fragment(struct av_message *msg, const struct av_spans *from,
				      const struct av_rq_wqe *request, bool more)
{
	enum av_fault fault;

	if (msg->bytes > request->bytes)
		return too_long(msg, request);
	fault = copy_message_fragment(msg, from, request);
	if (fault != AV_FAULT_NONE || more)
		return fault;
	if (msg->invalidate)
		fault = invalidate(msg);
	return fault == AV_FAULT_NONE ? complete_message(msg, request) : fault;
}

static void complete_in_error(const struct av_receiver *to, const struct av_rq_wqe *request,
			      enum ibv_wc_status status)
{
	struct av_cqe cqe = {.status = (uint8_t)status, .opcode = IBV_WC_RECV};

	fill_recv_cqe(&cqe, to, request);
	av_strict_failed_receive(to, request);
	av_count_rsp(to->rsp->qp,
		     status == IBV_WC_WR_FLUSH_ERR ? AV_RSP_FLUSHED : AV_RSP_RECV_FAILED);
	(void)complete_recv_request(to, &cqe, NULL); /* a full CQ has raised its own event */
}

void av_receive_error(const struct av_receiver *to, enum ibv_wc_status status)
{
	struct av_rq_shared *rq = av_rq_at(to->seg, to->rq);
	const struct av_rq_wqe *request = taken_request(to);
	uint32_t *receiving = &to->rsp->qp->receiving;

	if (rq && !*receiving) /* none: a peer's nonsense */
		request = av_rq_take(to->seg, rq, to->qpn, receiving);
	if (request)
		complete_in_error(to, request, status);
}

void av_receive_flush(const struct av_qp_ref *rsp)
{
	struct av_receiver to = av_receiver_of(rsp);
	struct av_rq_shared *rq = av_rq_at(to.seg, to.rq);
	const struct av_rq_wqe *request;
	uint32_t count = 0;

	AV_ASSERT_HELD(&rsp->qp->resp_lock);
	if (!rq || rsp->qp->srq || rsp->qp->type == IBV_QPT_XRC_SEND ||
	    rsp->qp->type == IBV_QPT_XRC_RECV)
		return;
	while (count < AV_MAX_QP_WR &&
	       (request = av_rq_take(to.seg, rq, to.qpn, &rsp->qp->receiving))) {
		complete_in_error(&to, request, IBV_WC_WR_FLUSH_ERR);
		count++;
	}
	av_report_flush(rsp, count, true);
}

/* --- SEND, and WRITE with immediate data ------------------------------------------- */

/* What the message of a request brings to its receive request. Its payload is placed later. */
static void init_message(struct av_message *msg, const struct av_work *w)
{
	const struct av_fragment *f = w->fragment;
	enum av_tail tail = w->opcode->packet.tail;
	bool imm = tail == AV_TAIL_IMM, inv = tail == AV_TAIL_INVALIDATE;

	/* The completion alone: to clear more at once, compilers take a slow string instruction. */
	memset(&msg->cqe, 0, offsetof(struct av_cqe, data));
	msg->to = &w->to;
	msg->invalidate = inv ? w->wqe->imm : 0;
	msg->bytes = w->wqe->bytes + (av_unlikely(f != NULL) ? f->before : 0);
	msg->now_ns = w->now_ns;
	msg->only = NULL;
	msg->message = av_unlikely(f != NULL) ? f->message : NULL;
	msg->later = w->after ? &w->after->bell : NULL;
	msg->cqe.opcode = w->opcode->packet.operation == AV_OP_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM
								     : IBV_WC_RECV;
	msg->cqe.flags = w->wqe->flags & IBV_SEND_SOLICITED ? AV_CQE_SOLICITED : 0;
	msg->cqe.imm = imm || inv ? w->wqe->imm : 0;
	msg->cqe.wc_flags = imm ? IBV_WC_WITH_IMM : inv ? IBV_WC_WITH_INV : 0;
	msg->cqe.src_qp = w->rsp->qp->attr.dest_qp_num;
	msg->cqe.byte_len = (uint32_t)msg->bytes;
}

/* The source of a large message of one element, which both sides may copy; NULL for others. */
static const struct av_coop_source *find_coop_source(const struct av_work *w,
						     struct av_coop_source *source)
{
	if (w->wqe->count != 1 || w->to.rq != w->rsp->qp->rq || w->rsp->qp->srq ||
	    (w->wqe->flags & IBV_SEND_INLINE))
		return NULL;
	source->req = w->req;
	source->sge = w->wqe->sge[0];
	return source;
}

static enum av_fault not_ready(struct av_work *w)
{
	bool again = w->fragment ? w->fragment->refused
				 : atomic_load_explicit(&w->req->qp->wait_reason,
							memory_order_relaxed) == AV_WAIT_RNR;

	if (!again)
		av_count_rsp(w->rsp->qp, AV_RSP_RNR);
	w->result.rnr_timer = w->rsp->qp->attr.min_rnr_timer;
	av_work_wait(w, AV_WAIT_RNR);
	return AV_FAULT_NONE;
}

/* Does this fault leave the receive request for the next message? */
static bool keeps_receive_request(enum av_fault fault)
{
	return fault == AV_FAULT_LOC_PROT || fault == AV_FAULT_FORBIDDEN || fault == AV_FAULT_BUSY;
}

/* Deliver the bytes. Context: a receive request is taken. */
static enum av_fault deliver_send_payload(struct av_work *w, const struct av_rq_wqe *request)
{
	const struct av_fragment *f = w->fragment;
	struct av_message msg;
	struct av_coop_source source;
	enum av_fault fault;

	init_message(&msg, w);
	if (av_unlikely(w->opcode->packet.tail == AV_TAIL_INVALIDATE) &&
	    av_window_may_invalidate(w->to.seg, msg.invalidate, w->to.qpn) != AV_CHECK_NONE)
		return AV_FAULT_INVALIDATE;
	if (av_unlikely(msg.bytes >= AV_COOP_MIN) && !f)
		msg.only = find_coop_source(w, &source);
	if (av_unlikely(f && (f->before || f->more || f->payloads > 1))) /* several packets */
		fault = receive_fragment(&msg, &w->local, request, f->more);
	else
		fault = av_receive_message(&msg, &w->local, request);
	if (av_likely(fault == AV_FAULT_NONE))
		return fault;
	if (!av_seg_alive_now(w->rsp->seg))
		return av_work_gone(w);
	if (keeps_receive_request(fault) && !(fault == AV_FAULT_BUSY && f && f->before))
		av_receive_cancel(&w->to);
	return fault;
}

enum av_fault av_op_send(struct av_work *w)
{
	enum av_fault fault = av_find_buffers(w->req, w->fragment, w->wqe, 0, &w->local);
	const struct av_rq_wqe *request;

	if (fault != AV_FAULT_NONE)
		return fault;
	/* Did an earlier packet of the message take its receive request? */
	request = av_unlikely(w->fragment && w->fragment->before) ? taken_request(&w->to)
								  : av_receive_take(&w->to);
	return av_likely(request != NULL) ? deliver_send_payload(w, request) : not_ready(w);
}

enum av_fault av_op_write_imm(struct av_work *w)
{
	enum av_fault fault = av_find_buffers(w->req, w->fragment, w->wqe, 0, &w->local);
	struct av_mem_request req = AV_WRITE_TO(w->wqe);
	const struct av_rq_wqe *request;
	struct av_message msg;
	struct av_spans remote;
	bool tunneled;

	if (fault == AV_FAULT_NONE)
		fault = av_work_remote(w, &req, 0, &remote);
	tunneled = fault == AV_FAULT_TUNNELED;
	if (tunneled)
		fault = av_op_tunneled(w, false);
	if (fault != AV_FAULT_NONE || w->result.wait_reason != AV_WAIT_NONE)
		return fault;
	request = av_receive_take(&w->to);
	if (!request)
		return not_ready(w);
	fault = tunneled ? av_op_tunneled(w, true)
			 : av_work_moved(w, av_xfer_copy(&remote, &w->local, w->now_ns),
					 AV_FAULT_LOC_PROT, AV_FAULT_REM_ACCESS);
	if (keeps_receive_request(fault) || w->result.wait_reason != AV_WAIT_NONE)
		av_receive_cancel(&w->to);
	if (fault != AV_FAULT_NONE || w->result.wait_reason != AV_WAIT_NONE)
		return fault;
	init_message(&msg, w);
	return complete_message(&msg, request);
}

/* --- XRC ------------------------------------------------------------------------- */

enum av_fault av_xrc_begin(const struct av_qp_ref *rsp, uint32_t srqn, struct av_xrc_use *use,
			   struct av_receiver *to)
{
	struct av_qp_location location = av_dir_qpn_find(srqn & AV_QPN_MASK);
	struct av_rq_shared *rq;

	*use = (struct av_xrc_use){.seg = location.ref ? av_seg_get(location.ref) : NULL};
	if (!use->seg || !av_seg_alive(use->seg))
		return AV_FAULT_REM_OP_DENIED;
	use->pin = av_pin_begin(use->seg, srqn);
	if (!use->pin)
		return AV_FAULT_BUSY;
	rq = av_rq_at(use->seg, location.index); /* after the pin: what is found now stays */
	if (!rq || srqn == 0 || atomic_load(&rq->srqn) != srqn || rq->xrcd != rsp->qp->xrcd)
		return AV_FAULT_REM_OP_DENIED;
	*to = (struct av_receiver){rsp, use->seg, location.index, rq->cq,
				   atomic_load_explicit(&rsp->qp->qpn, memory_order_relaxed)};
	return AV_FAULT_NONE;
}

enum av_fault av_work_find_srq(struct av_work *w)
{
	enum av_fault fault = av_xrc_begin(w->rsp, w->wqe->srqn, &w->srq, &w->to);

	w->pd = 0;
	if (fault == AV_FAULT_REM_OP_DENIED)
		av_diag_note(AV_CHECK_RESPONDER_SRQ, w->wqe->srqn, 0);
	if (fault != AV_FAULT_NONE)
		return fault;
	w->pd = av_rq_at(w->to.seg, w->to.rq)->pd;
	w->rsp->qp->receiving_srqn = w->wqe->srqn;
	return AV_FAULT_NONE;
}

void av_xrc_end(struct av_xrc_use *use)
{
	av_pin_end(use->pin);
	av_seg_put(use->seg);
	*use = (struct av_xrc_use){0};
}

void av_receive_abandon(const struct av_qp_ref *rsp)
{
	struct av_receiver to = av_receiver_of(rsp);
	struct av_xrc_use use = {0};
	enum av_fault fault = AV_FAULT_NONE;

	if (!rsp->qp->receiving)
		return;
	if (rsp->qp->type == IBV_QPT_XRC_RECV)
		fault = av_xrc_begin(rsp, rsp->qp->receiving_srqn, &use, &to);
	if (fault == AV_FAULT_NONE)
		av_receive_error(&to, IBV_WC_WR_FLUSH_ERR);
	av_xrc_end(&use);
	rsp->qp->receiving = 0;
}

void av_xrc_retire(struct av_seg *seg, struct av_rq_shared *rq)
{
	uint32_t srqn = atomic_exchange(&rq->srqn, 0);

	if (srqn == 0)
		return;
	av_dir_qpn_remove(srqn);
	while (!av_pin_drain(seg, srqn))
		;
}

void av_after_do(struct av_after *after)
{
	if (after->bell.event)
		av_cq_ring(after->seg, &after->bell);
	av_xrc_end(&after->srq);
	if (after->burst)
		(void)av_net_send(after->burst); /* what is not sent is lost, as datagrams may be */
}
