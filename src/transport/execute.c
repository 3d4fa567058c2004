/* SPDX-License-Identifier: MIT */
/* One send request of a connected queue pair, from its check to its effects on both sides. */
#include "transport/execution.h"

#include <sched.h>

#include "base/clock.h"
#include "base/limits.h"
#include "transport/observed.h"
#include "transport/rules.h"
#include "transport/transport.h"

/* --- the opcodes ----------------------------------------------------------------- */

static av_operation *const operation[AV_WR_OPCODES] = {
	[IBV_WR_RDMA_WRITE] = av_op_write,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = av_op_write_imm,
	[IBV_WR_SEND] = av_op_send,
	[IBV_WR_SEND_WITH_IMM] = av_op_send,
	[IBV_WR_SEND_WITH_INV] = av_op_send,
	[IBV_WR_RDMA_READ] = av_op_read,
	[AV_WR_FLUSH] = av_op_flush,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = av_op_cmp_swap,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = av_op_fetch_add,
	[AV_WR_ATOMIC_WRITE] = av_op_atomic_write,
	[AV_WR_SIZED_CMP_AND_SWP] = av_op_with_operands,
	[AV_WR_SIZED_FETCH_AND_ADD] = av_op_with_operands,
	[AV_WR_MASKED_CMP_AND_SWP] = av_op_with_operands,
	[AV_WR_MASKED_FETCH_AND_ADD] = av_op_with_operands,
	[IBV_WR_LOCAL_INV] = av_op_local_inv,
	[IBV_WR_BIND_MW] = av_op_bind,
	[AV_WR_NOP] = av_op_nop,
	[AV_WR_UMR_FILL] = av_op_umr_fill,
	[AV_WR_UMR_INVALIDATE] = av_op_umr_invalidate,
};

/* --- is the request valid? --------------------------------------------------------- */

static uint64_t datagram_limit(const struct av_qp_ref *req)
{
	return av_mtu_bytes(req->seg->head->mtu);
}

static enum av_check check_head_request(const struct av_qp_ref *req, const struct av_sq_wqe *head,
					const struct av_wr_opcode *o)
{
	const struct av_qp_shared *q = req->qp;

	if (!av_wr_opcode_is_of(o, q->type))
		return AV_CHECK_REQUEST_SERVICE;
	if (o->local)
		return AV_CHECK_NONE;
	if (head->count > AV_MAX_SGE)
		return AV_CHECK_REQUEST_SERVICE;
	if (av_unlikely(q->type == IBV_QPT_UD))
		return head->bytes > datagram_limit(req) ? AV_CHECK_REQUEST_DATAGRAM
							 : AV_CHECK_NONE;
	if (head->bytes > AV_MAX_MSG_BYTES)
		return AV_CHECK_REQUEST_LENGTH;
	if (o->is_word && head->bytes != sizeof(uint64_t))
		return AV_CHECK_REQUEST_ATOMIC;
	if (o->answered && q->attr.max_rd_atomic == 0)
		return AV_CHECK_REQUEST_RD;
	/* No packet carries the operands of extended atomics. */
	return q->wire && o->form == AV_FORM_OPERANDS ? AV_CHECK_REQUEST_OPERANDS : AV_CHECK_NONE;
}

/* Return: the fault that it is */
AV_COLD static enum av_fault record_request_fault(const struct av_qp_ref *req,
						  const struct av_sq_wqe *head, enum av_check found)
{
	if (found == AV_CHECK_REQUEST_SERVICE) {
		av_diag_note(found, head->opcode, req->qp->type);
		return AV_FAULT_LOC_QP_OP;
	}
	if (found == AV_CHECK_REQUEST_RD || found == AV_CHECK_REQUEST_OPERANDS) {
		av_diag_note(found, 1, 0);
		return AV_FAULT_LOC_QP_OP;
	}
	av_diag_note(found, head->bytes,
		     found == AV_CHECK_REQUEST_DATAGRAM ? datagram_limit(req)
		     : found == AV_CHECK_REQUEST_LENGTH ? AV_MAX_MSG_BYTES
							: sizeof(uint64_t));
	return AV_FAULT_LOC_LEN;
}

enum av_fault av_execute_check(const struct av_qp_ref *req, const struct av_sq_wqe *head)
{
	enum av_check found = check_head_request(req, head, av_wr_opcode(head->opcode));

	return av_likely(found == AV_CHECK_NONE) ? AV_FAULT_NONE
						 : record_request_fault(req, head, found);
}

/* --- the responder's right --------------------------------------------------------- */

static bool acquired(const struct av_qp_ref *end, enum av_lock_result got)
{
	if (got == AV_LOCK_REPAIR)
		av_responder_repair(end);
	return got != AV_LOCK_BUSY;
}

bool av_responder_acquire(const struct av_qp_ref *end)
{
	enum av_lock_result got = av_peer_lock(end->seg, &end->qp->resp, AV_RANK_RESP);

	return av_likely(got == AV_LOCK_TAKEN) || acquired(end, got);
}

bool av_responder_acquire_soon(const struct av_qp_ref *end)
{
	if (av_likely(av_lock_try_free(&end->qp->resp, AV_RANK_RESP)))
		return true;
	return acquired(end, av_lock_acquire_until(&end->qp->resp, AV_RANK_RESP,
						   av_now_ns() + AV_STUCK_NS));
}

/* --- what becomes of both sides -------------------------------------------------- */

/*
 * Does the packet that is refused take a receive request? Of a WRITE in several packets, which are
 * refused with the first, the last one would.
 */
static bool takes_receive(const struct av_work *w)
{
	return w->opcode->receives && (w->wqe->opcode != IBV_WR_RDMA_WRITE_WITH_IMM ||
				       av_packets(w->req->qp, w->wqe->bytes) == 1);
}

/*
 * Apply the responder's side of a fault. A request that comes again fails nothing: a network may
 * have kept it for long, its first copy has been answered, and its key may be gone since.
 * Context: the responder's right @resp is held.
 */
static void responder_fail(struct av_work *w)
{
	const struct av_rule *rule = av_rule(w->result.fault);

	AV_ASSERT_HELD(&w->rsp->qp->resp);
	if (rule->responder_fails || rule->nak != AV_NAK_NONE)
		av_count_rsp(w->rsp->qp, rule->refused);
	if (!rule->responder_fails || (w->fragment && w->fragment->again))
		return;
	av_report_responder(&(struct av_failed){w->req, w->rsp, w->wqe, w->result.fault, false});
	if (takes_receive(w) && rule->receive != IBV_WC_SUCCESS)
		av_receive_error(&w->to, rule->receive);
	av_responder_error(w->rsp);
	av_work_event(w, rule->event);
	w->result.responder_failed = true;
}

/*
 * On an unreliable connection, a message that the responder cannot take is lost, and neither
 * program hears of it. The receive request stays for the next message.
 * Source: IBTA volume 1, 9.8.3.
 */
static void lose_message(struct av_work *w)
{
	av_count_rsp(w->rsp->qp, AV_RSP_DROPPED);
	if (av_fault_is_receivers(w->result.fault)) {
		responder_fail(w);
		av_diag_drop();
		w->result = (struct av_outcome){.lost = true, .responder_failed = true};
		return;
	}
	if (w->rsp->qp->receiving)
		av_receive_cancel(&w->to);
	if (w->result.wait_reason == AV_WAIT_RNR)
		av_diag_note(AV_CHECK_NO_RECV, 0, 0);
	if (w->result.fault != AV_FAULT_NONE || w->result.wait_reason == AV_WAIT_RNR)
		av_report_lost(&(struct av_failed){w->req, w->rsp, w->wqe, w->result.fault, false});
	w->result = (struct av_outcome){.lost = true};
}

static bool found_at_requester(enum av_fault fault)
{
	return fault == AV_FAULT_LOC_LEN || fault == AV_FAULT_LOC_QP_OP ||
	       fault == AV_FAULT_LOC_PROT;
}

/*
 * Has the responder died, though the fault is the responder's? A process that dies may leave things
 * half done, such as a key withdrawn to be changed. That is no error: it does not answer.
 */
static bool has_responder_died(const struct av_work *w)
{
	return !found_at_requester(w->result.fault) && !av_seg_alive_now(w->rsp->seg);
}

/* The same after a fragment of one. The requester counts on its own host. */
static void advance_fragment(struct av_work *w, uint32_t packets, bool lost)
{
	struct av_qp_shared *rsp = w->rsp->qp;
	struct av_traffic *t = &rsp->counters.rsp.traffic;
	uint32_t kind = w->opcode->traffic;

	if (w->fragment->again)
		return;
	rsp->expected_psn = av_psn_after(rsp->expected_psn, packets);
	if (lost)
		return;
	if (w->fragment->more) {
		t->bytes[kind] += w->wqe->bytes;
		t->more_packets[kind] += packets;
		return;
	}
	av_traffic_count(t, kind, w->wqe->bytes, packets);
	rsp->msn++;
}

/*
 * Advance both sides after a message that the responder has executed, or that was lost. The
 * requester may have failed to take the answer.
 */
static void advance_both_ends(struct av_work *w, bool lost)
{
	struct av_qp_shared *req = w->req->qp, *rsp = w->rsp->qp;
	uint32_t n = av_packets(req, w->wqe->bytes), kind = w->opcode->traffic;

	if (av_unlikely(w->fragment != NULL)) {
		advance_fragment(w, n, lost);
		return;
	}
	if (av_likely(w->result.fault == AV_FAULT_NONE))
		av_traffic_count(&req->counters.req.traffic, kind, w->wqe->bytes, n);
	req->next_psn = rsp->expected_psn = av_psn_after(req->next_psn, n);
	if (av_unlikely(lost))
		return;
	av_traffic_count(&rsp->counters.rsp.traffic, kind, w->wqe->bytes, n);
	rsp->msn++;
}

/* The same if nobody is there to take it. */
static void lose_unanswered(struct av_work *w)
{
	struct av_failed failed = {w->req, w->rsp, w->wqe, AV_FAULT_RETRY_EXHAUSTED, false};

	if (w->req->qp->type != IBV_QPT_UC)
		return;
	av_traffic_count(&w->req->qp->counters.req.traffic, w->opcode->traffic, w->wqe->bytes,
			 av_packets(w->req->qp, w->wqe->bytes));
	failed.silent =
		w->rsp->qp && av_seg_alive_now(w->rsp->seg) && av_responder_acquire_soon(w->rsp);
	av_report_unheard(&failed);
	if (failed.silent)
		av_lock_release(&w->rsp->qp->resp);
	w->result = (struct av_outcome){0};
}

/* The receiver's segment stays in use while there is something left to do: transport/execution.h.
 */
static void leave_receiver(struct av_work *w)
{
	if (!w->after) {
		av_xrc_end(&w->srq);
		return;
	}
	w->after->seg = w->to.seg;
	w->after->srq = w->srq;
}

/*
 * Apply the effects of the outcome on both sides, and release the responder; that of a fragment is
 * its caller's to release.
 */
static void apply_work_outcome(struct av_work *w)
{
	bool undone, lost;

	AV_ASSERT_HELD(&w->rsp->qp->resp);
	if (av_unlikely(w->result.fault != AV_FAULT_NONE) && has_responder_died(w))
		w->result.fault = av_work_gone(w);
	undone = w->result.fault != AV_FAULT_NONE || w->result.wait_reason != AV_WAIT_NONE;
	lost = undone && w->req->qp->type == IBV_QPT_UC && !w->result.moves &&
	       !found_at_requester(w->result.fault);
	if (lost)
		lose_message(w);
	else if (w->result.fault != AV_FAULT_NONE)
		responder_fail(w);
	if (lost || av_likely(!undone) || w->in_vain)
		advance_both_ends(w, lost);
	if (av_unlikely(w->fragment != NULL))
		return;
	av_lock_release(&w->rsp->qp->resp);
	if (av_unlikely(w->srq.seg || (w->after && w->after->bell.event)))
		leave_receiver(w);
	if (av_unlikely(w->events.count))
		av_events_raise(w->rsp, w->qpn, &w->events);
}

/* --- the request ----------------------------------------------------------------- */

/*
 * Find the receive queue that an XRC request names. Keys are checked against that queue's domain.
 */
static enum av_fault find_srq(struct av_work *w)
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

static enum av_fault find_receiver(struct av_work *w)
{
	w->to = av_receiver_of(w->rsp);
	w->pd = w->rsp->qp->pd;
	return av_unlikely(w->rsp->qp->type == IBV_QPT_XRC_RECV) ? find_srq(w) : AV_FAULT_NONE;
}

/* The first message that arrives in RTR tells a program that waits there. */
static void establish(struct av_work *w)
{
	struct av_qp_shared *p = w->rsp->qp;

	if (!p->established)
		av_work_event(w, IBV_EVENT_COMM_EST);
	p->established = 1;
}

/*
 * Take the responder's right @resp, if the queue pair is still the one meant and in a state to
 * answer. A dead holder of the right may have left a message half delivered. Then the queue pair
 * fails, as after a fatal error.
 */
static bool responder_begin(struct av_work *w)
{
	struct av_qp_shared *p = w->rsp->qp;
	struct av_seg *seg = w->rsp->seg;
	enum av_check found;

	/* Whether the peer lives may have been seen a few milliseconds ago. */
	if (av_unlikely(!p || (!av_seg_known_alive(seg, w->now_ns) && !av_seg_alive(seg)))) {
		w->result.gone = true;
		return av_work_wait(w, AV_WAIT_NO_ANSWER);
	}
	if (av_unlikely(!av_responder_acquire(w->rsp)))
		return av_work_wait(w, AV_WAIT_NO_ANSWER);
	w->qpn = atomic_load_explicit(&p->qpn, memory_order_relaxed);
	found = av_responder_expects(p, w->req->qp);
	if (av_likely(found == AV_CHECK_NONE)) {
		if (av_unlikely(atomic_load(&p->state) == IBV_QPS_RTR))
			establish(w);
		return true;
	}
	w->result.gone = found == AV_CHECK_PEER_GONE;
	av_lock_release(&p->resp);
	return av_work_wait(w, AV_WAIT_NO_ANSWER);
}

/*
 * Run the operation, again and again while a region is being re-registered. In between, only the
 * execution rights are held. If that takes long, or a peer's nonsense looks like it, the request
 * waits as one that is not answered.
 */
static enum av_fault operate(struct av_work *w)
{
	uint64_t until = 0;

	do {
		enum av_fault fault = find_receiver(w);

		if (fault == AV_FAULT_NONE)
			fault = operation[w->wqe->opcode](w);
		if (fault != AV_FAULT_BUSY)
			return fault;
		av_xrc_end(&w->srq);
		sched_yield();
	} while (!av_timed_out(&until));
	av_work_wait(w, AV_WAIT_NO_ANSWER);
	return AV_FAULT_NONE;
}

/* @w is not cleared as a whole, because the spans are large. */
static void init_work(struct av_work *w, const struct av_qp_ref *req, const struct av_qp_ref *rsp,
		      const struct av_sq_wqe *wqe)
{
	w->req = req;
	w->rsp = rsp;
	w->wqe = wqe;
	w->opcode = av_wr_opcode(w->wqe->opcode);
	w->fragment = NULL;
	w->events.count = 0;
	w->after = NULL;
	w->now_ns = av_now_coarse_ns();
	w->local.count = 0;
	w->in_vain = false;
	w->srq = (struct av_xrc_use){0};
}

struct av_outcome av_execute_refuse(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
				    const struct av_sq_wqe *wqe, enum av_fault fault)
{
	enum av_fault found;
	uint64_t until = 0;
	struct av_work w;

	init_work(&w, req, rsp, wqe);
	w.result = (struct av_outcome){.fault = AV_FAULT_NONE};
	if (!responder_begin(&w))
		return w.result;
	while ((found = find_receiver(&w)) == AV_FAULT_BUSY && !av_timed_out(&until))
		sched_yield();
	w.result.fault = found == AV_FAULT_NONE || found == AV_FAULT_BUSY ? fault : found;
	apply_work_outcome(&w);
	return w.result;
}

/*
 * The kernel has refused what the request needs. May it wait until the connection has moved to the
 * wire (transport/transport.h)?
 */
static bool may_move(const struct av_qp_ref *req)
{
	uint32_t not = AV_TO_WIRE_NOT;

	if (atomic_load(&req->qp->to_wire) == AV_TO_WIRE_CANNOT ||
	    !av_wire_may_connect(req->seg, &req->qp->attr.ah_attr))
		return false;
	(void)atomic_compare_exchange_strong(&req->qp->to_wire, &not, AV_TO_WIRE_WANTED);
	return true;
}

/*
 * The requester reads a packet before it sends it: a source that cannot be read comes before
 * whatever the responder finds, or does not answer. A request that waits has been read when it
 * began to.
 * Return: is it the requester's fault, and no other?
 */
static bool is_unreadable(struct av_work *w)
{
	bool waits = w->result.fault == AV_FAULT_NONE &&
		     atomic_load(&w->req->qp->wait_reason) != AV_WAIT_NONE;
	enum av_fault fault;

	if (!w->opcode->source || w->result.moves || found_at_requester(w->result.fault) || waits)
		return false;
	fault = av_work_local(w, 0);
	if (fault == AV_FAULT_NONE) {
		if (av_work_read_first(w, &w->local) == AV_FAULT_SRC) {
			av_diag_drop(); /* what the responder found */
			fault = AV_FAULT_LOC_PROT;
		}
		av_mem_put_list(&w->local);
	}
	if (!found_at_requester(fault))
		return false;
	w->result = (struct av_outcome){.fault = fault};
	return true;
}

struct av_outcome av_execute(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
			     const struct av_sq_wqe *wqe, struct av_after *after)
{
	enum av_check found;
	struct av_work w;

	AV_ASSERT_HELD(&req->qp->exec);
	init_work(&w, req, rsp, wqe);
	w.after = after;
	w.result = (struct av_outcome){.fault = AV_FAULT_NONE};
	found = check_head_request(req, wqe, w.opcode);
	if (av_unlikely(found != AV_CHECK_NONE)) {
		w.result.fault = record_request_fault(req, wqe, found);
		return w.result;
	}
	if (w.opcode->local) {
		w.result.fault = operation[w.wqe->opcode](&w);
		return w.result;
	}
	if (rsp->qp && w.opcode->receives)
		av_receive_prefetch(rsp);
	if (!responder_begin(&w)) {
		if (!is_unreadable(&w))
			lose_unanswered(&w);
		return w.result;
	}
	w.result.fault = operate(&w);
	if (av_unlikely(w.result.fault == AV_FAULT_FORBIDDEN) && may_move(req)) {
		w.result = (struct av_outcome){.moves = true};
		av_work_wait(&w, AV_WAIT_NO_ANSWER);
	}
	if (av_unlikely(w.result.fault != AV_FAULT_NONE || w.result.wait_reason != AV_WAIT_NONE) &&
	    is_unreadable(&w) && rsp->qp->receiving)
		av_receive_cancel(&w.to);
	apply_work_outcome(&w);
	return w.result;
}

/* What the requester should have refused, the responder does. */
static bool is_fragment_valid(const struct av_work *w)
{
	uint32_t type = w->rsp->qp->type == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND : w->rsp->qp->type;

	return av_wr_opcode_is_of(w->opcode, type) &&
	       (!w->opcode->is_word || w->wqe->bytes == sizeof(uint64_t));
}

struct av_outcome av_execute_fragment(const struct av_qp_ref *rsp, const struct av_sq_wqe *head,
				      const struct av_fragment *fragment, struct av_events *events)
{
	struct av_work w;

	AV_ASSERT_HELD(&rsp->qp->resp);
	init_work(&w, rsp, rsp, head);
	w.fragment = fragment;
	w.result = (struct av_outcome){.fault = AV_FAULT_NONE};
	w.qpn = atomic_load_explicit(&rsp->qp->qpn, memory_order_relaxed);
	if (atomic_load(&rsp->qp->state) == IBV_QPS_RTR)
		establish(&w);
	w.result.fault = is_fragment_valid(&w) ? operate(&w) : AV_FAULT_REM_OP_DENIED;
	apply_work_outcome(&w);
	av_xrc_end(&w.srq);
	*events = w.events;
	return w.result;
}
