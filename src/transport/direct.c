/* SPDX-License-Identifier: MIT */
/* One send request against a queue pair of the same host. */
#include "transport/direct.h"

#include <sched.h>
#include <string.h>

#include "base/newer_verbs.h"
#include "hca/limits.h"
#include "memory/key.h"
#include "memory/indirect.h"
#include "memory/reach.h"
#include "memory/translate.h"
#include "memory/why.h"
#include "memory/window.h"
#include "transport/count.h"
#include "transport/deliver.h"
#include "transport/event.h"
#include "transport/report.h"
#include "transport/responder.h"
#include "transport/state.h"
#include "transport/tunnel.h"
#include "transport/xrc.h"

/* A request under execution. */
struct work {
	const struct av_qp_end *req, *rsp;
	const struct av_sq_wqe *ring; /* the request in the ring, for its elements and inline data */
	struct av_sq_wqe head;	      /* a copy of its header: a peer's ring may change under our eyes */
	uint32_t qpn;		      /* the responder's number */
	struct av_receiver to; /* where it receives: its own segment, or that of an XRC request's SRQ, */
	uint32_t pd;	       /* against whose domain its keys are checked */
	struct av_xrc_use srq; /* held for an XRC request */
	struct av_spans local; /* the requester's buffers */
	uint8_t *answer;       /* for what is not put there, but left for the poller */
	struct av_direct_result result;
	int events[2]; /* to raise at the responder when its token is released */
	unsigned int event_count;
};

static bool park(struct work *w, enum av_park why)
{
	w->result.park = why;
	return false;
}

static void note_event(struct work *w, int event)
{
	if (event != AV_EVENT_NONE)
		w->events[w->event_count++] = event;
}

/* --- is there an answer? -----------------------------------------------------------------------------------
 */

/* Where the message is received, and against which domain its keys are checked. */
static enum av_fault find_receiver(struct work *w)
{
	enum av_xrc_found found;

	w->to = av_receiver_of(w->rsp);
	w->pd = w->rsp->qp->pd;
	if (av_likely(w->rsp->qp->type != IBV_QPT_XRC_RECV))
		return AV_FAULT_NONE;
	w->pd = 0;
	found = av_xrc_begin(w->rsp, w->head.srqn, &w->srq, &w->to);
	if (found == AV_XRC_BUSY)
		return AV_FAULT_BUSY;
	if (found != AV_XRC_FOUND) {
		av_blame(AV_CHECK_RESPONDER_SRQ, w->head.srqn, 0);
		return AV_FAULT_REM_OP_DENIED;
	}
	w->pd = av_rq_at(w->to.seg, w->to.rq)->pd;
	w->rsp->qp->receiving_srqn = w->head.srqn;
	return AV_FAULT_NONE;
}

/*
 * Take the responder's token, if the queue pair is still the one meant and in a state to answer. A token left
 * by a dead executor means that a message may be half delivered: the queue pair fails, as it would after a
 * fatal error.
 */
static bool responder_begin(struct work *w)
{
	struct av_qp_shared *p = w->rsp->qp;
	uint32_t dest = w->req->qp->attr.dest_qp_num;

	if (!p || !av_seg_alive(w->rsp->seg)) {
		w->result.gone = true;
		return park(w, AV_PARK_NO_ANSWER);
	}
	av_responder_acquire(w->rsp);
	w->qpn = atomic_load_explicit(&p->qpn, memory_order_relaxed);
	w->result.gone = w->qpn != dest;
	if (w->qpn == dest && av_responder_expects(p, w->req->qp)) {
		if (atomic_load(&p->state) == IBV_QPS_RTR && !p->established) {
			p->established = 1;
			note_event(w, IBV_EVENT_COMM_EST);
		}
		return true;
	}
	av_lock_release(&p->resp);
	return park(w, AV_PARK_NO_ANSWER);
}

static void responder_end(struct work *w)
{
	av_lock_release(&w->rsp->qp->resp);
	av_xrc_end(&w->srq);
	for (unsigned int i = 0; i < w->event_count; i++)
		av_event_raise(w->rsp, w->qpn, (enum ibv_event_type)w->events[i]);
}

/* The operations that consume a receive request. */
static bool uses_receive(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_SEND_WITH_INV ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* The responder's side of a fault, its token held. */
static void responder_fail(struct work *w)
{
	const struct av_rule *rule = av_rule(w->result.fault);

	if (rule->responder_fails || rule->nak != AV_NAK_NONE)
		av_count_refused(w->rsp->qp, w->result.fault);
	if (!rule->responder_fails)
		return;
	av_report_responder(&(struct av_failed){w->req, w->rsp, &w->head, w->result.fault});
	if (uses_receive(w->head.opcode) && rule->receive != IBV_WC_SUCCESS)
		av_deliver_error(&w->to, rule->receive);
	av_responder_error(w->rsp);
	note_event(w, rule->event);
	w->result.responder_failed = true;
}

/* --- memory
 * -------------------------------------------------------------------------------------------------- */

/* Translate the requester's buffers; @access 0 for sources, IBV_ACCESS_LOCAL_WRITE for destinations. */
static enum av_fault local_begin(struct work *w, uint32_t access)
{
	struct av_seg *seg = w->req->seg;
	enum av_mem_fault found;

	if (w->head.flags & IBV_SEND_INLINE) {
		av_spans_local(&w->local, seg, (void *)(uintptr_t)w->ring->data, w->head.bytes);
		return w->head.bytes <= AV_MAX_INLINE ? AV_FAULT_NONE : AV_FAULT_LOC_LEN;
	}
	found = av_mem_get_list(seg, w->req->qp->pd, access, w->ring->sge, w->head.count, w->head.bytes,
				&w->local);
	switch (found) {
	case AV_MEM_OK:
		return AV_FAULT_NONE;
	case AV_MEM_BUSY:
		return AV_FAULT_BUSY;
	default:
		av_mem_why_list(seg, w->req->qp->pd, access, w->ring->sge, w->head.count, w->head.bytes,
				found);
		return AV_FAULT_LOC_PROT;
	}
}

static void local_end(struct work *w)
{
	av_mem_put_list(&w->local);
}

static enum av_fault remote_fault(const struct work *w, const struct av_mem_request *req,
				  enum av_mem_fault found)
{
	switch (found) {
	case AV_MEM_OK:
		return AV_FAULT_NONE;
	case AV_MEM_BUSY:
		return AV_FAULT_BUSY;
	case AV_MEM_TUNNELED:
		return AV_FAULT_TUNNELED;
	default:
		av_mem_why(w->to.seg, req, found);
		return AV_FAULT_REM_ACCESS;
	}
}

/* The responder's memory that the request's rkey names. */
static struct av_mem_request remote_request(const struct work *w, uint32_t access)
{
	return (struct av_mem_request){
		.key = w->head.rkey,
		.pd = w->pd,
		.access = access,
		.qpn = w->qpn,
		.remote = true,
		.addr = w->head.remote_addr,
		.length = w->head.bytes,
	};
}

static enum av_fault remote_begin(const struct work *w, const struct av_mem_request *req,
				  struct av_spans *remote)
{
	remote->count = 1;
	remote->bytes = req->length;
	return remote_fault(w, req, av_mem_get(w->to.seg, req, &remote->at[0]));
}

/* The responder died under our hands. */
static enum av_fault gone(struct work *w)
{
	w->result.gone = true;
	park(w, AV_PARK_NO_ANSWER);
	return AV_FAULT_NONE;
}

/*
 * What a copy that stopped means. @src and @dst: the fault that memory of that side missing stands for.
 * Memory that is gone because its process is gone is no answer at all.
 */
static enum av_fault moved(struct work *w, enum av_reach reach, enum av_fault src, enum av_fault dst)
{
	switch (reach) {
	case AV_REACH_OK:
		return AV_FAULT_NONE;
	case AV_REACH_SRC_FAULT:
	case AV_REACH_DST_FAULT:
		if (!av_seg_alive_now(w->rsp->seg))
			break;
		return reach == AV_REACH_SRC_FAULT ? src : dst;
	case AV_REACH_REFUSED:
		return AV_FAULT_FORBIDDEN;
	case AV_REACH_BUSY:
		return AV_FAULT_BUSY;
	case AV_REACH_SPLIT:
		return AV_FAULT_REM_MISALIGNED;
	case AV_REACH_GONE:
		break;
	}
	return gone(w);
}

/* --- operations: the responder's token is held; parking is AV_FAULT_NONE with result.park set
 * ----------------- */

static void message_of(const struct work *w, struct av_message *msg)
{
	bool write = w->head.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool imm = write || w->head.opcode == IBV_WR_SEND_WITH_IMM;
	bool inv = w->head.opcode == IBV_WR_SEND_WITH_INV;

	*msg = (struct av_message){
		.to = &w->to,
		.src_qpn = atomic_load_explicit(&w->req->qp->qpn, memory_order_relaxed),
		.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.wc_flags = imm	  ? IBV_WC_WITH_IMM
			    : inv ? IBV_WC_WITH_INV
				  : 0,
		.imm = imm || inv ? w->head.imm : 0,
		.invalidate = inv ? w->head.imm : 0,
		.bytes = w->head.bytes,
		.solicited = w->head.flags & IBV_SEND_SOLICITED,
	};
}

static enum av_fault not_ready(struct work *w)
{
	if (atomic_load_explicit(&w->req->qp->park, memory_order_relaxed) != AV_PARK_RNR)
		av_count_rsp(w->rsp->qp, AV_RSP_RNR);
	w->result.rnr_timer = w->rsp->qp->attr.min_rnr_timer;
	park(w, AV_PARK_RNR);
	return AV_FAULT_NONE;
}

/* Faults that leave the receive request for the next message. */
static bool not_the_receivers(enum av_fault fault)
{
	return fault == AV_FAULT_LOC_PROT || fault == AV_FAULT_FORBIDDEN || fault == AV_FAULT_BUSY;
}

/* Hand the bytes over; a receive request is taken. */
static enum av_fault send_bytes(struct work *w, const struct av_rq_wqe *request)
{
	enum av_fault fault;
	struct av_message msg;

	if (w->head.opcode == IBV_WR_SEND_WITH_INV &&
	    av_window_may_invalidate(w->to.seg, w->head.imm, w->qpn) != AV_INVALIDATED)
		return AV_FAULT_INVALIDATE;
	message_of(w, &msg);
	fault = av_deliver_send(&msg, &w->local, request);
	if (fault != AV_FAULT_NONE && !av_seg_alive_now(w->rsp->seg))
		return gone(w);
	if (fault == AV_FAULT_FORBIDDEN && !w->req->seg->own) {
		w->result.owner_only = true;
		fault = not_ready(w);
	}
	if (not_the_receivers(fault) || w->result.park != AV_PARK_NOT)
		av_deliver_cancel(&w->to);
	return fault;
}

static enum av_fault do_send(struct work *w)
{
	enum av_fault fault = local_begin(w, 0);
	const struct av_rq_wqe *request;

	if (fault != AV_FAULT_NONE)
		return fault;
	request = av_deliver_request(&w->to);
	fault = request ? send_bytes(w, request) : not_ready(w);
	local_end(w);
	return fault;
}

/* An atomic operation on the operand that the key names; its size is the length. @old: NULL to only look
 * whether it is permitted. */
static enum av_fault on_operand(struct work *w, const struct av_mem_request *req,
				const struct av_atomic *atomic, struct av_operand *old)
{
	struct av_spans remote;
	enum av_fault fault;

	if (req->addr & (req->length - 1))
		return AV_FAULT_REM_MISALIGNED;
	fault = remote_begin(w, req, &remote);
	if (fault != AV_FAULT_NONE)
		return fault;
	if (remote.at[0].addr & (req->length - 1)) /* a region whose first byte is not aligned: aligned in key
						      space only */
		fault = AV_FAULT_REM_MISALIGNED;
	else if (old)
		fault = moved(w, av_reach_atomic(&remote.at[0], atomic, old), AV_FAULT_REM_ACCESS,
			      AV_FAULT_REM_ACCESS);
	av_mem_put(&remote.at[0]);
	return fault;
}

/* Look at a tunneled atomic, or do it. */
static enum av_fault tunneled(struct work *w, const struct anyverbs_tunneled_atomic *command, bool apply)
{
	struct av_mem_request req = remote_request(w, IBV_ACCESS_REMOTE_WRITE | AV_ACCESS_TUNNELED);
	struct av_atomic atomic;
	struct av_operand old;

	if (!av_tunnel_decode(command, &atomic))
		return AV_FAULT_REM_NO_COMMAND;
	req.addr += command->offset;
	req.length = atomic.bytes;
	return on_operand(w, &req, &atomic, apply ? &old : NULL);
}

/* Not the whole payload again if the region is being re-registered: what comes before is done. */
static enum av_fault do_tunneled(struct work *w, const struct anyverbs_tunneled_atomic *command)
{
	enum av_fault fault;

	while ((fault = tunneled(w, command, true)) == AV_FAULT_BUSY)
		sched_yield(); /* no hazard is held */
	return fault;
}

/*
 * The payload of an RDMA WRITE to a region of tunneled atomics. It is read once, and nothing is done before
 * all of it has been looked at.
 */
static enum av_fault tunnel(struct work *w, bool apply)
{
	struct anyverbs_tunneled_atomic command[ANYVERBS_TUNNELED_MAX];
	unsigned int count = av_tunnel_count(w->head.bytes);
	struct av_spans to;
	enum av_fault fault;

	if (count == 0)
		return AV_FAULT_REM_NO_COMMAND;
	av_spans_local(&to, NULL, command, w->head.bytes);
	fault = moved(w, av_reach_copy(&to, &w->local), AV_FAULT_LOC_PROT, AV_FAULT_LOC_PROT);
	if (w->result.park != AV_PARK_NOT)
		return fault;
	for (unsigned int i = 0; i < count && fault == AV_FAULT_NONE; i++)
		fault = tunneled(w, &command[i], false);
	if (fault != AV_FAULT_NONE || !apply)
		return fault;
	local_end(w);
	for (unsigned int i = 0; i < count && fault == AV_FAULT_NONE && w->result.park == AV_PARK_NOT; i++)
		fault = do_tunneled(w, &command[i]);
	return fault;
}

/* Translate where an RDMA WRITE goes; AV_FAULT_TUNNELED: it is to be understood instead. */
static enum av_fault write_begin(const struct work *w, struct av_spans *remote)
{
	struct av_mem_request req = remote_request(w, IBV_ACCESS_REMOTE_WRITE);

	req.payload = true;
	return remote_begin(w, &req, remote);
}

/* Copy to the memory the rkey names. */
static enum av_fault write_bytes(struct work *w)
{
	struct av_spans remote;
	enum av_fault fault = write_begin(w, &remote);

	if (av_unlikely(fault == AV_FAULT_TUNNELED))
		return tunnel(w, true);
	if (fault != AV_FAULT_NONE)
		return fault;
	fault = moved(w, av_reach_copy(&remote, &w->local), AV_FAULT_LOC_PROT, AV_FAULT_REM_ACCESS);
	av_mem_put(&remote.at[0]);
	return fault;
}

static enum av_fault check_rkey(struct work *w)
{
	struct av_spans remote;
	enum av_fault fault = write_begin(w, &remote);

	if (av_unlikely(fault == AV_FAULT_TUNNELED))
		return tunnel(w, false);
	if (fault == AV_FAULT_NONE)
		av_mem_put(&remote.at[0]);
	return fault;
}

static enum av_fault do_write(struct work *w)
{
	enum av_fault fault = local_begin(w, 0);

	if (fault != AV_FAULT_NONE)
		return fault;
	if (!(w->rsp->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		fault = AV_FAULT_REM_OP_DENIED;
	else if (w->head.bytes > 0)
		fault = write_bytes(w);
	local_end(w);
	return fault;
}

/* The rkey is checked before a receive request is taken, and the bytes move after: a fault must find the
 * request. */
static enum av_fault write_imm(struct work *w)
{
	enum av_fault fault = w->head.bytes > 0 ? check_rkey(w) : AV_FAULT_NONE;
	const struct av_rq_wqe *request;
	struct av_message msg;

	if (fault != AV_FAULT_NONE)
		return fault;
	request = av_deliver_request(&w->to);
	if (!request)
		return not_ready(w);
	if (w->head.bytes > 0)
		fault = write_bytes(w);
	if (not_the_receivers(fault) || w->result.park != AV_PARK_NOT)
		av_deliver_cancel(&w->to);
	if (fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT)
		return fault;
	message_of(w, &msg);
	return av_deliver_completion(&msg, request);
}

static enum av_fault do_write_imm(struct work *w)
{
	enum av_fault fault = local_begin(w, 0);

	if (fault != AV_FAULT_NONE)
		return fault;
	if (!(w->rsp->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		fault = AV_FAULT_REM_OP_DENIED;
	else
		fault = write_imm(w);
	local_end(w);
	return fault;
}

/* May the two sides do READs, atomics and what else takes a responder's resource at all? */
static enum av_fault check_rd_atomic(const struct work *w)
{
	if (w->req->qp->attr.max_rd_atomic == 0)
		return AV_FAULT_LOC_QP_OP;
	return w->rsp->qp->attr.max_dest_rd_atomic == 0 ? AV_FAULT_REM_NO_RD_ATOMIC : AV_FAULT_NONE;
}

/*
 * Inline receive of the requester: another process leaves a short answer for the poller. The requester's own
 * has no shorter way than to place it.
 */
static bool leaves_answer(const struct work *w)
{
	const struct av_qp_shared *q = w->req->qp;

	return av_unlikely(!w->req->seg->own) && w->head.bytes <= q->inline_answer &&
	       w->head.bytes <= AV_CQE_DATA;
}

static enum av_fault leave_answer(struct work *w, const struct av_spans *from)
{
	struct av_spans to;
	enum av_fault fault;

	av_spans_local(&to, NULL, w->answer, from->bytes);
	fault = moved(w, av_reach_copy(&to, from), AV_FAULT_REM_ACCESS, AV_FAULT_LOC_PROT);
	if (fault == AV_FAULT_NONE && w->result.park == AV_PARK_NOT)
		w->result.answer_bytes = (uint8_t)from->bytes;
	return fault;
}

/* What a READ brings, to where the request wants it. */
static enum av_fault read_bytes(struct work *w, const struct av_spans *remote)
{
	enum av_fault fault;

	if (leaves_answer(w))
		return leave_answer(w, remote);
	fault = local_begin(w, IBV_ACCESS_LOCAL_WRITE);
	if (fault != AV_FAULT_NONE)
		return fault;
	fault = moved(w, av_reach_copy(&w->local, remote), AV_FAULT_REM_ACCESS, AV_FAULT_LOC_PROT);
	local_end(w);
	return fault;
}

static enum av_fault do_read(struct work *w)
{
	struct av_mem_request req = remote_request(w, IBV_ACCESS_REMOTE_READ);
	enum av_fault fault = check_rd_atomic(w);
	struct av_spans remote;

	if (fault != AV_FAULT_NONE)
		return fault;
	if (!(w->rsp->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ))
		return AV_FAULT_REM_OP_DENIED;
	if (w->head.bytes == 0)
		return AV_FAULT_NONE;
	fault = remote_begin(w, &req, &remote);
	if (fault != AV_FAULT_NONE)
		return fault;
	fault = read_bytes(w, &remote);
	av_mem_put(&remote.at[0]);
	return fault;
}

static enum av_fault put_original(struct work *w, struct av_operand *old)
{
	enum av_fault fault = local_begin(w, IBV_ACCESS_LOCAL_WRITE);
	struct av_spans from;

	if (fault != AV_FAULT_NONE)
		return fault;
	av_spans_local(&from, NULL, old, w->head.bytes);
	fault = moved(w, av_reach_copy(&w->local, &from), AV_FAULT_LOC_PROT, AV_FAULT_LOC_PROT);
	local_end(w);
	return fault;
}

/* Put the original value where the request wants it; the remote memory is already changed. */
static enum av_fault return_original(struct work *w, struct av_operand *old)
{
	struct av_spans from;
	enum av_fault fault;

	if (leaves_answer(w)) {
		av_spans_local(&from, NULL, old, w->head.bytes);
		return leave_answer(w, &from);
	}
	while ((fault = put_original(w, old)) == AV_FAULT_BUSY)
		sched_yield(); /* not the whole operation again: the memory is changed; no hazard is held */
	return fault;
}

static enum av_fault atomic_request(struct work *w, const struct av_atomic *atomic)
{
	struct av_mem_request req = remote_request(w, IBV_ACCESS_REMOTE_ATOMIC);
	enum av_fault fault = check_rd_atomic(w);
	struct av_operand old;

	if (fault != AV_FAULT_NONE)
		return fault;
	if (!(w->rsp->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC))
		return AV_FAULT_REM_OP_DENIED;
	fault = on_operand(w, &req, atomic, &old);
	if (fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT)
		return fault;
	return return_original(w, &old);
}

static enum av_fault do_fetch_add(struct work *w)
{
	const struct av_atomic atomic = {
		.op = AV_ATOMIC_ADD,
		.bytes = sizeof(uint64_t),
		.value = {{w->head.compare_add}},
	};

	return atomic_request(w, &atomic);
}

static enum av_fault do_cmp_swap(struct work *w)
{
	const struct av_atomic atomic = {
		.op = AV_ATOMIC_CMP_SWAP,
		.bytes = sizeof(uint64_t),
		.value = {{w->head.swap}},
		.compare = {{w->head.compare_add}},
		.mask = {{UINT64_MAX}},
		.compare_mask = {{UINT64_MAX}},
	};

	return atomic_request(w, &atomic);
}

/* Operations whose operands lie behind the request. What a peer's ring holds there is looked at once. */
static enum av_fault do_with_operands(struct work *w)
{
	const struct av_atomic *in_ring = av_sq_operands(w->req, w->ring);
	struct av_atomic atomic;

	if (!in_ring)
		return AV_FAULT_LOC_QP_OP;
	atomic = *in_ring;
	if (atomic.op >= AV_ATOMIC_OP_N || !av_atomic_size_valid(atomic.bytes))
		return AV_FAULT_LOC_QP_OP;
	return w->head.bytes == atomic.bytes ? atomic_request(w, &atomic) : AV_FAULT_LOC_LEN;
}

/*
 * ATOMIC WRITE, IBTA volume 1, release 1.5. What it writes travels with it, so the requester's memory comes
 * first, as with a WRITE.
 */
static enum av_fault do_atomic_write(struct work *w)
{
	enum av_fault fault = check_rd_atomic(w);
	struct av_mem_request req = remote_request(w, IBV_ACCESS_REMOTE_WRITE);
	struct av_atomic atomic = {.op = AV_ATOMIC_SWAP, .bytes = sizeof(uint64_t)};
	struct av_operand none;
	struct av_spans to;

	if (fault == AV_FAULT_NONE)
		fault = local_begin(w, 0);
	if (fault != AV_FAULT_NONE)
		return fault;
	av_spans_local(&to, NULL, &atomic.value, sizeof(uint64_t));
	fault = moved(w, av_reach_copy(&to, &w->local), AV_FAULT_LOC_PROT, AV_FAULT_LOC_PROT);
	local_end(w);
	if (fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT)
		return fault;
	if (!(w->rsp->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return AV_FAULT_REM_OP_DENIED;
	return on_operand(w, &req, &atomic, &none);
}

/* The rights that a FLUSH needs, of the queue pair and of the key. */
static uint32_t flush_rights(uint32_t placement)
{
	return (placement & AV_FLUSH_GLOBAL ? AV_ACCESS_FLUSH_GLOBAL : 0) |
	       (placement & ~(uint32_t)AV_FLUSH_GLOBAL ? AV_ACCESS_FLUSH_PERSISTENT : 0);
}

/*
 * FLUSH, IBTA volume 1, release 1.5. What earlier requests of the queue pair wrote is in the responder's
 * memory when they are done, and its processors' caches are coherent: for global visibility nothing is left
 * to do but to be ordered behind them. Persistence is never granted, so asking for it is refused with the
 * right.
 */
static enum av_fault do_flush(struct work *w)
{
	uint32_t rights = flush_rights(w->head.placement);
	struct av_mem_request req = remote_request(w, rights);
	enum av_fault fault = check_rd_atomic(w);
	struct av_span span;

	req.length = w->head.compare_add;
	req.whole = w->head.selectivity == AV_FLUSH_MR || req.length == 0;
	if (fault != AV_FAULT_NONE)
		return fault;
	if ((w->rsp->qp->attr.qp_access_flags & rights) != rights)
		return AV_FAULT_REM_OP_DENIED;
	fault = remote_fault(w, &req, av_mem_get(w->to.seg, &req, &span));
	if (fault != AV_FAULT_NONE)
		return fault;
	atomic_thread_fence(memory_order_seq_cst);
	av_mem_put(&span);
	return AV_FAULT_NONE;
}

static enum av_fault (*const operation[])(struct work *w) = {
	[IBV_WR_RDMA_WRITE] = do_write,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = do_write_imm,
	[IBV_WR_SEND] = do_send,
	[IBV_WR_SEND_WITH_IMM] = do_send,
	[IBV_WR_RDMA_READ] = do_read,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = do_cmp_swap,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = do_fetch_add,
	[IBV_WR_SEND_WITH_INV] = do_send,
	[AV_WR_FLUSH] = do_flush,
	[IBV_WR_ATOMIC_WRITE] = do_atomic_write,
	[AV_WR_SIZED_CMP_AND_SWP] = do_with_operands,
	[AV_WR_SIZED_FETCH_AND_ADD] = do_with_operands,
	[AV_WR_MASKED_CMP_AND_SWP] = do_with_operands,
	[AV_WR_MASKED_FETCH_AND_ADD] = do_with_operands,
};

/* --- operations on the requester's own keys: no responder is involved
 * ------------------------------------------ */

static enum av_fault do_bind(struct work *w)
{
	struct av_window_bind bind = {
		.window = w->head.window,
		.rkey = w->head.rkey,
		.region = w->head.region,
		.access = w->head.access,
		.pd = w->req->qp->pd,
		.qpn = atomic_load_explicit(&w->req->qp->qpn, memory_order_relaxed),
		.addr = w->head.remote_addr,
		.length = w->head.compare_add,
	};

	if (av_window_bind(w->req->seg, &bind) == 0)
		return AV_FAULT_NONE;
	av_window_why(w->req->seg, &bind);
	return AV_FAULT_MW_BIND;
}

static enum av_fault do_local_inv(struct work *w)
{
	struct av_window_bind what = {
		.rkey = w->head.imm,
		.pd = w->req->qp->pd,
		.qpn = atomic_load_explicit(&w->req->qp->qpn, memory_order_relaxed),
	};
	enum av_invalidate done = av_window_invalidate(w->req->seg, what.rkey, what.qpn);

	if (done == AV_INVALIDATED)
		return AV_FAULT_NONE;
	av_invalidate_why(w->req->seg, &what, done);
	return done == AV_INVALIDATE_NOT_BOUND ? AV_FAULT_MW_BIND : AV_FAULT_LOC_QP_OP;
}

static enum av_fault do_nop(struct work *w)
{
	return AV_FAULT_NONE;
}

/* User-mode registration: the list is in the request, or elsewhere in the requester's segment. */
static enum av_fault do_umr_fill(struct work *w)
{
	struct av_indirect_fill fill = {
		.key = w->head.rkey,
		.pd = w->req->qp->pd,
		.access = w->head.rights,
		.base = w->head.umr.base,
		.rounds = w->head.umr.rounds,
		.entries = av_sq_list(w->req, w->ring, &w->head),
		.count = w->head.count,
	};

	return fill.entries && av_indirect_fill(w->req->seg, &fill) == 0 ? AV_FAULT_NONE : AV_FAULT_MW_BIND;
}

static enum av_fault do_umr_invalidate(struct work *w)
{
	struct av_indirect_fill nothing = {.key = w->head.rkey, .pd = w->req->qp->pd};

	return av_indirect_fill(w->req->seg, &nothing) ? AV_FAULT_MW_BIND : AV_FAULT_NONE;
}

static enum av_fault (*const local_operation[])(struct work *w) = {
	[IBV_WR_LOCAL_INV] = do_local_inv,
	[IBV_WR_BIND_MW] = do_bind,
	[AV_WR_NOP] = do_nop,
	[AV_WR_UMR_FILL] = do_umr_fill,
	[AV_WR_UMR_INVALIDATE] = do_umr_invalidate,
};

bool av_direct_is_local(uint32_t opcode)
{
	return opcode < AV_ARRAY_SIZE(local_operation) && local_operation[opcode];
}

/* --- the whole request
 * ------------------------------------------------------------------------------------------ */

/* IBTA volume 1, 9.4: the operations of the unreliable connection. */
static bool for_uc(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool of_a_word(uint32_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       opcode == IBV_WR_ATOMIC_WRITE;
}

/* What the requester refuses without asking anybody. */
static enum av_fault check_request(const struct work *w)
{
	if (av_direct_is_local(w->head.opcode))
		return AV_FAULT_NONE;
	if (w->head.opcode >= AV_ARRAY_SIZE(operation) || !operation[w->head.opcode] ||
	    w->head.count > AV_MAX_SGE)
		return AV_FAULT_LOC_QP_OP;
	if (w->req->qp->type == IBV_QPT_UC && !for_uc(w->head.opcode))
		return AV_FAULT_LOC_QP_OP;
	if (w->head.bytes > AV_MAX_MSG_BYTES ||
	    (of_a_word(w->head.opcode) && w->head.bytes != sizeof(uint64_t)))
		return AV_FAULT_LOC_LEN;
	return AV_FAULT_NONE;
}

/*
 * The unreliable connection: what the responder cannot take is lost, and neither side hears of it. Its
 * receive request stays for the next message. IBTA volume 1, 9.8.3.
 */
static void lose(struct work *w)
{
	if (w->rsp->qp->receiving)
		av_deliver_cancel(&w->to);
	av_blame_drop();
	av_count_rsp(w->rsp->qp, AV_RSP_DROPPED);
	w->result = (struct av_direct_result){0};
}

static bool found_at_requester(enum av_fault fault)
{
	return fault == AV_FAULT_LOC_LEN || fault == AV_FAULT_LOC_QP_OP || fault == AV_FAULT_LOC_PROT;
}

/* The operation; again for as long as regions are being re-registered. Nothing but the tokens is held in
 * between. */
static enum av_fault operate(struct work *w)
{
	for (;;) {
		enum av_fault fault = find_receiver(w);

		if (fault == AV_FAULT_NONE)
			fault = operation[w->head.opcode](w);
		if (fault != AV_FAULT_BUSY)
			return fault;
		av_xrc_end(&w->srq);
		sched_yield();
	}
}

/* What a requester of an unreliable connection sends, arrive or not. */
static void count_uc(struct av_traffic *t, const struct work *w)
{
	uint32_t n = av_packets(w->req->qp, w->head.bytes), kind = av_traffic_kind[w->head.opcode];

	av_traffic_count(t, kind, w->head.bytes);
	if (n > 1)
		av_traffic_more(t, kind, n);
}

static void advance_uc(struct work *w, bool lost)
{
	w->req->qp->next_psn = (w->req->qp->next_psn + av_packets(w->req->qp, w->head.bytes)) & 0xffffff;
	w->rsp->qp->expected_psn = w->req->qp->next_psn;
	count_uc(&w->req->qp->counters.req.traffic, w);
	if (!lost)
		count_uc(&w->rsp->qp->counters.rsp.traffic, w);
}

/* The outcome of an operation, both tokens still held. */
static void settle(struct work *w)
{
	bool unreliable = w->req->qp->type == IBV_QPT_UC;
	bool undone = w->result.fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT;

	bool lost = unreliable && undone && !found_at_requester(w->result.fault);

	if (lost)
		lose(w);
	else if (w->result.fault != AV_FAULT_NONE)
		responder_fail(w);
	if (w->result.fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT)
		return;
	if (unreliable)
		advance_uc(w, lost);
	else
		av_responder_advance(w->rsp->qp, w->req->qp, w->head.opcode, w->head.bytes);
}

/* Not cleared as a whole: the spans are large. */
static void begin(struct work *w, const struct av_qp_end *req, const struct av_qp_end *rsp,
		  const struct av_sq_wqe *wqe)
{
	w->req = req;
	w->rsp = rsp;
	w->ring = wqe;
	w->head = *wqe;
	w->event_count = 0;
	w->local.count = 0;
	w->srq = (struct av_xrc_use){0};
}

struct av_direct_result av_direct_refuse(const struct av_qp_end *req, const struct av_qp_end *rsp,
					 const struct av_sq_wqe *wqe, enum av_fault fault)
{
	enum av_fault found;
	struct work w;

	begin(&w, req, rsp, wqe);
	w.result = (struct av_direct_result){.fault = AV_FAULT_NONE};
	if (!responder_begin(&w))
		return w.result;
	while ((found = find_receiver(&w)) == AV_FAULT_BUSY)
		sched_yield();
	w.result.fault = found == AV_FAULT_NONE ? fault : found;
	settle(&w);
	responder_end(&w);
	return w.result;
}

struct av_direct_result av_direct_execute(const struct av_qp_end *req, const struct av_qp_end *rsp,
					  const struct av_sq_wqe *wqe, uint8_t *answer)
{
	struct work w;

	begin(&w, req, rsp, wqe);
	w.answer = answer;
	w.result = (struct av_direct_result){.fault = check_request(&w)};
	if (av_direct_is_local(w.head.opcode)) {
		w.result.fault = local_operation[w.head.opcode](&w);
		return w.result;
	}
	if (w.result.fault != AV_FAULT_NONE)
		return w.result;
	if (rsp->qp && uses_receive(w.head.opcode))
		av_deliver_prefetch(rsp);
	if (!responder_begin(&w)) {
		if (req->qp->type == IBV_QPT_UC) { /* nobody there: sent and lost */
			count_uc(&req->qp->counters.req.traffic, &w);
			w.result = (struct av_direct_result){0};
		}
		return w.result;
	}
	w.result.fault = operate(&w);
	settle(&w);
	responder_end(&w);
	return w.result;
}
