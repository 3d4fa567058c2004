/* SPDX-License-Identifier: MIT */
#include "transport/execution.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "copy/copy.h"
#include "memory/region.h"
#include "memory/translate.h"
#include "net/net.h"
#include "queue/rq.h"
#include "registry/directory.h"
#include "transport/rules.h"

/*
 * Placing payload that waits for the poller. It is copied when its completion is taken, and placed
 * afterwards.
 */

/* --- taking: poll_lock is held ----------------------------------------------------- */

/*
 * Copy the payload from the receive request's slot, before the slot is free. A peer wrote the
 * completion, so its length is checked.
 */
static void fetch_payload(struct av_seg *seg, const struct av_rq_shared *rq,
			  const struct av_cqe *cqe, struct av_placement *place)
{
	const uint8_t *from = av_rq_payload(seg, rq, cqe->wqe);
	uint32_t room =
		rq->inline_bytes < AV_MAX_INLINE_RECV ? rq->inline_bytes : AV_MAX_INLINE_RECV;

	if (from && cqe->bounce_len <= room)
		memcpy(place->payload, from, cqe->bounce_len);
}

/*
 * The number of a request's elements, limited to what there can be. Peers may write to the segment,
 * so it is read once.
 */
static uint32_t read_sge_count(const uint32_t *count)
{
	uint32_t n = __atomic_load_n(count, __ATOMIC_RELAXED);

	return n <= AV_MAX_SGE ? n : 0;
}

/* Copy what a receive request's payload needs. Usually there is one element. */
static void keep_request(struct av_seg *seg, const struct av_rq_shared *rq,
			 const struct av_cqe *cqe, const struct av_rq_wqe *request,
			 struct av_placement *place)
{
	place->pd = rq->pd;
	place->count = read_sge_count(&request->count);
	if (av_likely(place->count == 1))
		place->sge[0] = request->sge[0];
	else
		memcpy(place->sge, request->sge, place->count * sizeof(place->sge[0]));
	if (cqe->flags & AV_CQE_IN_SLOT)
		fetch_payload(seg, rq, cqe, place);
}

/* Free the slot of a completed receive request, after copying what its payload needs. */
static void free_receive_slot(struct av_seg *seg, const struct av_cqe *cqe,
			      struct av_placement *place)
{
	struct av_rq_shared *rq = av_rq_at(seg, cqe->queue);
	const struct av_rq_wqe *request;

	if (!rq)
		return;
	AV_CAME_BY_PEER(&rq->tail); /* the posted request: a peer may have taken it, */
	AV_CAME_BY_PEER(&rq->head); /* after threads of this process had taken theirs */
	request = av_rq_wqe(seg, rq, cqe->wqe);
	if (!request)
		return;
	if (place)
		keep_request(seg, rq, cqe, request, place);
	av_rq_freed(seg, rq, cqe->wqe);
}

void av_place_free_slot(struct av_seg *seg, const struct av_cqe *cqe, struct av_placement *place)
{
	struct av_qp_shared *qp;

	if (cqe->flags & AV_CQE_RECV) {
		free_receive_slot(seg, cqe, place);
		return;
	}
	qp = av_qp_at(seg, cqe->queue);
	if (qp)
		atomic_store_explicit(&qp->sq_freed, cqe->wqe + 1, memory_order_release);
}

void av_place_keep(struct av_placement *place, const struct av_cqe *cqe)
{
	place->count = 0;
	memcpy(&place->cqe, cqe, offsetof(struct av_cqe, data));
	av_cqe_copy_data(place->cqe.data, cqe->data, place->cqe.data_len);
}

/* --- placing ----------------------------------------------------------------------- */

static enum av_fault place_chain(struct av_seg *seg, struct av_spans *to, const struct av_cqe *cqe)
{
	struct av_spans from, rest;
	uint32_t link = cqe->bounce;

	av_spans_copy(&rest, to);
	for (uint64_t left = cqe->bounce_len; left > 0;) {
		uint64_t n = left < AV_BOUNCE_BYTES ? left : AV_BOUNCE_BYTES;
		enum av_fault ret;

		av_spans_local(&from, NULL, av_bounce_buffer(seg, link), n);
		if (!from.at[0].local)
			return AV_FAULT_SRC;
		ret = av_xfer_copy_part(&rest, &from, n, av_now_coarse_ns());
		if (ret != AV_FAULT_NONE)
			return ret;
		av_spans_skip(&rest, n);
		left -= n;
		link = av_bounce_next(seg, link);
	}
	return AV_FAULT_NONE;
}

/* Address of the payload in this process's own memory; NULL: it is in bounce buffers. */
static uint8_t *payload_here(struct av_placement *p)
{
	if (p->cqe.data_len)
		return p->cqe.data;
	return p->cqe.flags & AV_CQE_IN_SLOT ? p->payload : NULL;
}

/*
 * Length of the payload.
 * Return:  0: more than there can be; a peer wrote the completion
 */
static uint64_t payload_bytes(const struct av_placement *p)
{
	if (p->cqe.data_len)
		return p->cqe.data_len <= AV_CQE_DATA ? p->cqe.data_len : 0;
	return p->cqe.flags & AV_CQE_IN_SLOT && p->cqe.bounce_len > AV_MAX_INLINE_RECV
		       ? 0
		       : p->cqe.bounce_len;
}

static enum av_fault place_once(struct av_seg *seg, struct av_placement *p)
{
	uint64_t bytes = payload_bytes(p);
	uint8_t *here = payload_here(p);
	struct av_spans to, from;
	enum av_fault ret;

	if (bytes == 0)
		return AV_FAULT_DST;
	ret = av_fault_of(
		av_mem_get_list(seg, p->pd, IBV_ACCESS_LOCAL_WRITE, p->sge, p->count, bytes, &to),
		AV_FAULT_DST);
	if (ret != AV_FAULT_NONE)
		return ret;
	if (here) {
		av_spans_local(&from, NULL, here, bytes);
		ret = av_xfer_copy(&to, &from, av_now_coarse_ns());
	} else {
		ret = place_chain(seg, &to, &p->cqe);
	}
	av_mem_put_list(&to);
	return ret;
}

bool av_place(struct av_seg *seg, struct av_placement *place)
{
	enum av_fault ret;

	while ((ret = place_once(seg, place)) == AV_FAULT_BUSY)
		sched_yield();
	av_bounce_give(seg, place->cqe.bounce, place->cqe.bounce_len);
	return ret == AV_FAULT_NONE;
}

/* --- entries that found no room ------------------------------------------------------ */

/*
 * Release what the entry of a receive holds that found no room in its CQ: place its payload as far
 * as this process reaches the buffers, give back bounce buffers and the receive request's slot.
 * Context: any process; the right of the queue pair under which the entry was made is held.
 */
static void place_lost(struct av_seg *seg, const struct av_cqe *cqe)
{
	struct av_rq_shared *rq = av_rq_at(seg, cqe->queue);
	const struct av_rq_wqe *request = rq ? av_rq_wqe(seg, rq, cqe->wqe) : NULL;
	struct av_placement place;

	if (request && AV_CQE_HAS_PAYLOAD(cqe)) {
		av_place_keep(&place, cqe);
		keep_request(seg, rq, cqe, request, &place);
		(void)place_once(seg, &place); /* a region that is changing gets nothing */
	}
	av_bounce_give(seg, cqe->bounce, cqe->bounce_len);
	if (rq)
		av_rq_drop(seg, rq, cqe->wqe);
}

/* Consuming receive requests. */

/*
 * How long to look for a request that is just being posted: longer than a post takes to be seen.
 * PAUSES: turns between two looks.
 */
#define SEEN_NS 2000u
#define PAUSES	8

static struct av_rq_shared *rq_of(const struct av_receiver *to)
{
	return av_rq_at(to->seg, to->rq);
}

static const struct av_rq_wqe *dequeue_recv_request(const struct av_receiver *to)
{
	struct av_rq_shared *rq = rq_of(to);

	return rq ? av_rq_take(to->seg, rq, av_qp_number(to->rsp), &to->rsp->qp->receiving) : NULL;
}

void av_receive_prefetch(const struct av_qp_ref *rsp)
{
	const struct av_rq_shared *rq = av_rq_at(rsp->seg, rsp->qp->rq);

	if (rq)
		av_rq_prefetch(rsp->seg, rq);
	av_cq_prefetch(rsp->seg, rsp->qp->recv_cq);
}

const struct av_rq_wqe *av_receive_take(const struct av_receiver *to)
{
	const struct av_rq_wqe *request = dequeue_recv_request(to);
	struct av_rq_shared *rq;
	uint64_t until;

	AV_ASSERT_HELD(&to->rsp->qp->resp);
	if (av_likely(request != NULL))
		return request;
	rq = rq_of(to);
	if (!rq || to->rsp->qp->type == IBV_QPT_UD) /* nobody waits with a datagram */
		return NULL;
	atomic_store(&rq->waiting, 1); /* before the last look: pairs with av_rq_post() */
	until = av_now_ns() + SEEN_NS;
	do {
		for (unsigned int i = 0; i < PAUSES; i++)
			av_pause();
		request = dequeue_recv_request(to);
	} while (!request && av_now_ns() < until);
	return request;
}

void av_receive_cancel(const struct av_receiver *to)
{
	struct av_rq_shared *rq = rq_of(to);

	AV_ASSERT_HELD(&to->rsp->qp->resp);
	if (rq) /* else a peer has written nonsense */
		av_rq_untake(to->seg, rq, av_qp_number(to->rsp), to->rsp->qp->receiving - 1);
	to->rsp->qp->receiving = 0;
}

/* Fill in the completion of a receive request, without payload. */
static void fill_recv_cqe(struct av_cqe *cqe, const struct av_receiver *to,
			  const struct av_rq_wqe *request, enum ibv_wc_status status)
{
	memset(cqe, 0, offsetof(struct av_cqe, data));
	cqe->wr_id = request->wr_id;
	cqe->status = (uint8_t)status;
	cqe->opcode = IBV_WC_RECV;
	cqe->flags = AV_CQE_RECV;
	cqe->qpn = av_qp_number(to->rsp);
	cqe->queue = to->rq;
	cqe->wqe = to->rsp->qp->receiving - 1;
}

static void fill_message(struct av_cqe *cqe, const struct av_message *msg,
			 const struct av_rq_wqe *request)
{
	fill_recv_cqe(cqe, msg->to, request, IBV_WC_SUCCESS);
	cqe->opcode = (uint16_t)msg->opcode;
	cqe->byte_len = (uint32_t)msg->bytes;
	cqe->imm = msg->imm;
	cqe->wc_flags = msg->wc_flags;
	cqe->src_qp = msg->src_qpn;
	cqe->slid = msg->slid;
	cqe->sl = msg->sl;
	cqe->flags |= msg->solicited ? AV_CQE_SOLICITED : 0;
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
		place_lost(to->seg, cqe);
	/* Not earlier: whoever repairs after our death needs it until here. */
	to->rsp->qp->receiving = 0;
	return ret == AV_CQ_DROPPED ? 0 : ret;
}

enum av_fault av_receive_done(const struct av_message *msg, const struct av_rq_wqe *request)
{
	struct av_cqe cqe;

	AV_ASSERT_HELD(&msg->to->rsp->qp->resp);
	fill_message(&cqe, msg, request);
	return complete_recv_request(msg->to, &cqe, msg->later) ? AV_FAULT_RECV_CQ : AV_FAULT_NONE;
}

/* Of a copy from the sender's buffers to the receiver's. */
static enum av_fault map_copy_fault(enum av_fault copied)
{
	return copied == AV_FAULT_GONE ? AV_FAULT_FORBIDDEN
				       : av_fault_at(copied, AV_FAULT_LOC_PROT, AV_FAULT_RECV_PROT);
}

/* Put a short payload into the completion entry. */
static enum av_fault put_in_entry(struct av_cqe *cqe, const struct av_message *msg,
				  const struct av_spans *from)
{
	struct av_spans to;

	av_spans_local(&to, NULL, cqe->data, msg->bytes);
	memset(cqe->data, 0, sizeof(cqe->data)); /* the entry takes whole words */
	cqe->data_len = (uint8_t)msg->bytes;
	return map_copy_fault(av_xfer_copy(&to, from, msg->now_ns));
}

/* Copy into a chain of bounce buffers, one after the other. @from is consumed. */
static enum av_fault fill_chain(const struct av_message *msg, uint32_t link,
				const struct av_spans *from)
{
	struct av_seg *seg = msg->to->seg;
	uint64_t bytes = msg->bytes;
	struct av_spans rest, to;

	av_spans_copy(&rest, from);
	while (bytes > 0) {
		uint64_t n = bytes < AV_BOUNCE_BYTES ? bytes : AV_BOUNCE_BYTES;
		enum av_fault ret;

		av_spans_local(&to, NULL, av_bounce_buffer(seg, link), n);
		if (!to.at[0].local)
			return AV_FAULT_FORBIDDEN;
		ret = av_xfer_copy(&to, &rest, msg->now_ns);
		if (ret != AV_FAULT_NONE) /* at its end: the shared file system is full */
			return ret == AV_FAULT_DST ? AV_FAULT_FORBIDDEN : map_copy_fault(ret);
		av_spans_skip(&rest, n);
		bytes -= n;
		link = av_bounce_next(seg, link);
	}
	return AV_FAULT_NONE;
}

static enum av_fault copy_to_bounce(struct av_cqe *cqe, const struct av_message *msg,
				    const struct av_spans *from)
{
	struct av_seg *seg = msg->to->seg;
	enum av_fault fault;

	cqe->bounce = av_bounce_take(seg, msg->bytes);
	if (!cqe->bounce)
		return AV_FAULT_FORBIDDEN;
	cqe->bounce_len = (uint32_t)msg->bytes;
	fault = fill_chain(msg, cqe->bounce, from);
	if (fault != AV_FAULT_NONE) {
		av_bounce_give(seg, cqe->bounce, msg->bytes);
		cqe->bounce = 0;
	}
	return fault;
}

/*
 * Inline receive: the payload waits for the poller, in the completion or beside the request,
 * whichever process executes; in bounce buffers if the request is of a shared queue, which was
 * made before its queue pairs. The receive buffers are checked when it is placed.
 * Return: AV_FAULT_FORBIDDEN: no bounce buffer is free
 */
static enum av_fault leave_for_poller(struct av_cqe *cqe, const struct av_message *msg,
				      const struct av_spans *from)
{
	struct av_seg *seg = msg->to->seg;
	struct av_spans to;

	if (msg->bytes <= AV_CQE_DATA)
		return put_in_entry(cqe, msg, from);
	if (msg->bytes > rq_of(msg->to)->inline_bytes)
		return copy_to_bounce(cqe, msg, from);
	av_spans_local(&to, NULL,
		       av_rq_payload(seg, rq_of(msg->to), msg->to->rsp->qp->receiving - 1),
		       msg->bytes);
	if (!to.at[0].local)
		return AV_FAULT_RECV_PROT; /* a peer's queue is inconsistent */
	cqe->flags |= AV_CQE_IN_SLOT;
	cqe->bounce_len = (uint32_t)msg->bytes;
	return map_copy_fault(av_xfer_copy(&to, from, msg->now_ns));
}

/* Does inline receive apply to this message? The length from a peer's segment is checked. */
static bool is_inline(const struct av_message *msg)
{
	return msg->bytes > 0 && msg->bytes <= msg->to->rsp->qp->inline_recv &&
	       msg->bytes <= AV_MAX_INLINE_RECV;
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
	    request->count == 1 && av_spans_are_here(from))
		done = av_coop_copy(msg->only, msg->to->rsp, &recv, to->at[0].local,
				    from->at[0].local);
	if (done == AV_COOP_COPIED)
		return AV_FAULT_NONE;
	if (done == AV_COOP_STUCK) /* another copy would race with the poller's */
		return AV_FAULT_BUSY;
	/* Without help, or once more after help has failed. */
	return map_copy_fault(av_xfer_copy(to, from, msg->now_ns));
}

/*
 * Choose how the bytes travel. @to: the translated receive buffers
 *
 * A short message travels in its completion even if the buffer is in reach: then one cache line
 * moves from core to core instead of two.
 */
static enum av_fault transfer_payload(struct av_cqe *cqe, const struct av_message *msg,
				      const struct av_spans *from, const struct av_spans *to,
				      const struct av_rq_wqe *request)
{
	struct av_seg *seg = msg->to->seg;
	enum av_fault fault = AV_FAULT_FORBIDDEN;

	if (av_unlikely(seg->own))
		return map_copy_fault(av_xfer_copy(to, from, msg->now_ns));
	if (msg->bytes <= AV_CQE_DATA)
		return put_in_entry(cqe, msg, from);
	if (av_spans_in_reach(to))
		return copy_to_buffer(msg, from, to, request);
	if (msg->bytes <= AV_BOUNCE_LIMIT)
		fault = copy_to_bounce(cqe, msg, from);
	if (fault == AV_FAULT_FORBIDDEN && !av_xfer_refused(seg))
		fault = map_copy_fault(av_xfer_copy(to, from, msg->now_ns));
	if (fault == AV_FAULT_FORBIDDEN && msg->bytes > AV_BOUNCE_LIMIT)
		fault = copy_to_bounce(cqe, msg, from);
	return fault;
}

/* Translate the buffers of @request, for all bytes of the message. */
static enum av_fault find_buffers(const struct av_message *msg, const struct av_rq_wqe *request,
				  struct av_spans *to)
{
	struct av_seg *seg = msg->to->seg;
	uint32_t pd = rq_of(msg->to)->pd;
	enum av_check found = av_mem_get_list(seg, pd, IBV_ACCESS_LOCAL_WRITE, request->sge,
					      request->count, msg->bytes, to);

	return av_likely(found == AV_CHECK_NONE)
		       ? AV_FAULT_NONE
		       : av_mr_explain_element(seg, pd, IBV_ACCESS_LOCAL_WRITE,
					       &request->sge[to->refused], to->bytes, found,
					       AV_FAULT_RECV_PROT);
}

/* Bring the bytes to the buffers of @request, in whatever way. */
static enum av_fault deliver_bytes(struct av_cqe *cqe, const struct av_message *msg,
				   const struct av_spans *from, const struct av_rq_wqe *request)
{
	enum av_fault fault;
	struct av_spans to;

	if (msg->bytes == 0)
		return AV_FAULT_NONE;
	if (av_unlikely(is_inline(msg))) {
		fault = leave_for_poller(cqe, msg, from);
		if (fault != AV_FAULT_FORBIDDEN || (cqe->flags & AV_CQE_IN_SLOT))
			return fault;
	}
	fault = find_buffers(msg, request, &to);
	if (av_unlikely(fault != AV_FAULT_NONE))
		return fault;
	fault = transfer_payload(cqe, msg, from, &to, request);
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
	enum av_check found =
		av_window_invalidate(msg->to->seg, msg->invalidate, av_qp_number(msg->to->rsp));

	return av_fault_of(found, AV_FAULT_INVALIDATE);
}

enum av_fault av_receive_message(const struct av_message *msg, const struct av_spans *from,
				 const struct av_rq_wqe *request)
{
	enum av_fault fault;
	struct av_cqe cqe;

	AV_ASSERT_HELD(&msg->to->rsp->qp->resp);
	if (msg->bytes > request->bytes)
		return too_long(msg, request);
	fill_message(&cqe, msg, request);
	fault = deliver_bytes(&cqe, msg, from, request);
	if (fault == AV_FAULT_NONE && av_unlikely(msg->invalidate))
		fault = invalidate(msg);
	if (av_likely(fault == AV_FAULT_NONE))
		return complete_recv_request(msg->to, &cqe, msg->later) ? AV_FAULT_RECV_CQ
									: AV_FAULT_NONE;
	av_bounce_give(msg->to->seg, cqe.bounce, cqe.bounce_len);
	return fault;
}

const struct av_rq_wqe *av_receive_taken(const struct av_receiver *to)
{
	const struct av_rq_shared *rq = rq_of(to);
	uint32_t receiving = to->rsp->qp->receiving;

	AV_ASSERT_HELD(&to->rsp->qp->resp);
	return rq && receiving ? av_rq_wqe(to->seg, rq, receiving - 1) : NULL;
}

/* Copy a fragment behind those before it. The bytes of a message in fragments go to its buffers. */
static enum av_fault copy_message_fragment(const struct av_message *msg,
					   const struct av_spans *from,
					   const struct av_rq_wqe *request)
{
	struct av_spans to, rest;
	enum av_fault fault = find_buffers(msg, request, &to);

	if (fault != AV_FAULT_NONE)
		return fault;
	av_spans_copy(&rest, &to);
	av_spans_skip(&rest, msg->bytes - from->bytes);
	av_spans_are_part(&rest, msg->message);
	fault = map_copy_fault(av_xfer_copy_part(&rest, from, from->bytes, msg->now_ns));
	av_mem_put_list(&to);
	return fault;
}

enum av_fault av_receive_fragment(const struct av_message *msg, const struct av_spans *from,
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
	return fault == AV_FAULT_NONE ? av_receive_done(msg, request) : fault;
}

static void complete_in_error(const struct av_receiver *to, const struct av_rq_wqe *request,
			      enum ibv_wc_status status)
{
	struct av_cqe cqe;

	fill_recv_cqe(&cqe, to, request, status);
	av_count_receive(to->rsp->qp, status);
	(void)complete_recv_request(to, &cqe, NULL); /* a full CQ has raised its own event */
}

void av_receive_error(const struct av_receiver *to, enum ibv_wc_status status)
{
	const struct av_rq_shared *rq = rq_of(to);
	uint32_t receiving = to->rsp->qp->receiving;
	const struct av_rq_wqe *request;

	AV_ASSERT_HELD(&to->rsp->qp->resp);
	if (!rq) /* a peer's nonsense */
		return;
	request = receiving ? av_rq_wqe(to->seg, rq, receiving - 1) : dequeue_recv_request(to);
	if (request)
		complete_in_error(to, request, status);
}

void av_receive_flush(const struct av_qp_ref *rsp)
{
	struct av_receiver to = av_receiver_of(rsp);
	const struct av_rq_wqe *request;
	uint32_t count = 0;

	AV_ASSERT_HELD(&rsp->qp->resp);
	if (rsp->qp->srq || rsp->qp->type == IBV_QPT_XRC_SEND || rsp->qp->type == IBV_QPT_XRC_RECV)
		return;
	while (count < AV_MAX_QP_WR && (request = dequeue_recv_request(&to))) {
		complete_in_error(&to, request, IBV_WC_WR_FLUSH_ERR);
		count++;
	}
	av_report_flush(rsp, count, true);
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
	*to = (struct av_receiver){rsp, use->seg, location.index, rq->cq};
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
