/* SPDX-License-Identifier: MIT */
/*
 * One send request of a connected queue pair, from its check to its effects on both sides: the
 * memory of both, and WRITE. transport/operations.c and receive.c have the other operations.
 */

#include "memory/region.h"
#include "transport/observed.h"
#include "transport/transport.h"

/* --- is the request valid? --------------------------------------------------------- */

static enum av_check check_head_request(const struct av_qp_ref *req, const struct av_sq_wqe *head,
					const struct av_wr_opcode *o)
{
	const struct av_qp_shared *q = req->qp;

	if (!(o->types >> (q->type & 31) & 1))
		return AV_CHECK_REQUEST_SERVICE;
	if (o->local)
		return AV_CHECK_NONE;
	if (head->count > AV_MAX_SGE)
		return AV_CHECK_REQUEST_SERVICE;
	if (av_unlikely(q->type == IBV_QPT_UD))
		return head->bytes > av_mtu_bytes(req->seg->head->mtu) ? AV_CHECK_REQUEST_DATAGRAM
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
		     found == AV_CHECK_REQUEST_DATAGRAM ? av_mtu_bytes(req->seg->head->mtu)
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

/* --- the memory of a request ------------------------------------------------------- */

enum av_fault av_find_buffers(const struct av_qp_ref *req, const struct av_fragment *fragment,
			      const struct av_sq_wqe *wqe, uint32_t access, struct av_spans *to)
{
	enum av_check found;

	if (av_unlikely(fragment != NULL)) {
		av_spans_iovec(to, req->seg, fragment->payload, fragment->payloads);
		return AV_FAULT_NONE;
	}
	if (wqe->flags & IBV_SEND_INLINE) {
		av_spans_local(to, req->seg, (void *)(uintptr_t)wqe->data, wqe->bytes);
		if (av_likely(wqe->bytes <= AV_MAX_INLINE))
			return AV_FAULT_NONE;
		av_diag_note(AV_CHECK_REQUEST_LENGTH, wqe->bytes, AV_MAX_INLINE);
		return AV_FAULT_LOC_LEN;
	}
	found = av_mem_get_list(req->seg, req->qp->pd, access, wqe->sge, wqe->count, wqe->bytes,
				to);
	return av_likely(found == AV_CHECK_NONE)
		       ? AV_FAULT_NONE
		       : av_mr_explain_element(req->seg, req->qp->pd, access,
					       &wqe->sge[to->refused], to->bytes, found,
					       AV_FAULT_LOC_PROT);
}

enum av_fault av_request_buffers(const struct av_qp_ref *req, const struct av_sq_wqe *wqe,
				 uint32_t access, struct av_spans *to)
{
	enum av_fault fault;

	do
		fault = av_find_buffers(req, NULL, wqe, access, to);
	while (av_unlikely(fault == AV_FAULT_BUSY) && av_key_retry(NULL));
	return fault;
}

enum av_fault av_work_read_first(const struct av_work *w, const struct av_spans *from)
{
	uint64_t mtu = av_mtu_bytes(w->req->qp->attr.path_mtu);

	return av_xfer_read(from, from->bytes < mtu ? from->bytes : mtu, w->now_ns);
}

/*
 * Of the first fragment, the responder must permit all that the message announces: a message in
 * several packets is refused before its first byte is moved.
 */
static enum av_fault check_announced(struct av_work *w, const struct av_mem_request *fragment)
{
	struct av_mem_request all = *fragment;
	struct av_spans remote;
	enum av_fault fault;

	if (w->fragment->whole <= fragment->length)
		return AV_FAULT_NONE;
	all.length = w->fragment->whole;
	fault = av_work_remote(w, &all, 1, &remote);
	av_pin_end(w->pin);
	w->pin = NULL;
	return fault;
}

enum av_fault av_work_remote(struct av_work *w, struct av_mem_request *req, uint64_t operand,
			     struct av_spans *remote)
{
	const struct ibv_qp_attr *attr = &w->rsp->qp->attr;
	uint32_t rights = req->access & ~AV_ACCESS_TUNNELED;
	bool is_part = w->fragment && operand == 0;
	enum av_fault fault = AV_FAULT_NONE;
	enum av_check found;

	if (w->opcode->answered && attr->max_dest_rd_atomic == 0)
		return AV_FAULT_REM_NO_RD_ATOMIC;
	if ((attr->qp_access_flags & rights) != rights)
		return AV_FAULT_REM_OP_DENIED;
	if (operand && req->addr & (operand - 1))
		return AV_FAULT_REM_MISALIGNED;
	remote->bytes = req->length;
	remote->count = req->length || req->whole;
	if (remote->count == 0)
		return AV_FAULT_NONE;
	req->key = w->wqe->rkey;
	req->pd = w->pd;
	req->qpn = w->to.qpn;
	req->remote = true;
	if (av_unlikely(is_part))
		fault = check_announced(w, req);
	if (fault != AV_FAULT_NONE)
		return fault;
	found = av_mem_get(w->to.seg, req, &remote->at[0]);
	if (av_unlikely(found != AV_CHECK_NONE))
		return av_mr_explain(w->to.seg, req, found, AV_FAULT_REM_ACCESS);
	w->pin = remote->at[0].pin;
	if (av_unlikely(is_part))
		av_spans_are_part(remote, w->fragment->message);
	return AV_FAULT_NONE;
}

enum av_fault av_work_gone(struct av_work *w)
{
	w->result.gone = true;
	av_work_wait(w, AV_WAIT_NO_ANSWER);
	return AV_FAULT_NONE;
}

enum av_fault av_work_moved(struct av_work *w, enum av_fault copied, enum av_fault src,
			    enum av_fault dst)
{
	enum av_fault fault = av_fault_at(copied, src, dst);

	if (copied == AV_FAULT_GONE || (fault != copied && !av_seg_alive_now(w->rsp->seg)))
		return av_work_gone(w);
	return fault;
}

/* --- WRITE ------------------------------------------------------------------------- */

enum av_fault av_op_write(struct av_work *w)
{
	enum av_fault fault = av_find_buffers(w->req, w->fragment, w->wqe, 0, &w->local);
	struct av_mem_request req = AV_WRITE_TO(w->wqe);
	struct av_spans remote;

	if (fault == AV_FAULT_NONE)
		fault = av_work_remote(w, &req, 0, &remote);
	if (av_unlikely(fault == AV_FAULT_TUNNELED)) /* the payload is commands */
		return av_op_tunneled(w, true);
	if (av_unlikely(fault != AV_FAULT_NONE))
		return fault;
	fault = av_xfer_copy(&remote, &w->local, w->now_ns);
	return av_likely(fault == AV_FAULT_NONE)
		       ? fault
		       : av_work_moved(w, fault, AV_FAULT_LOC_PROT, AV_FAULT_REM_ACCESS);
}

/* --- the responder's right --------------------------------------------------------- */

enum av_check av_responder_expects(const struct av_qp_shared *rsp, const struct av_qp_shared *req)
{
	uint32_t state = atomic_load_explicit(&rsp->state, memory_order_relaxed);

	if (atomic_load_explicit(&rsp->qpn, memory_order_relaxed) != req->attr.dest_qp_num)
		return AV_CHECK_PEER_GONE;
	if (!AV_RESPONDER_ANSWERS(state))
		return AV_CHECK_PEER_STATE;
	if (rsp->type != AV_RESPONDER_TYPE(req->type))
		return AV_CHECK_PEER_TYPE;
	if (rsp->attr.dest_qp_num != atomic_load_explicit(&req->qpn, memory_order_relaxed))
		return AV_CHECK_PEER_OTHER;
	return req->type == IBV_QPT_UC || rsp->expected_psn == req->next_psn ? AV_CHECK_NONE
									     : AV_CHECK_PEER_PSN;
}

struct av_receiver av_receiver_of(const struct av_qp_ref *rsp)
{
	return (struct av_receiver){rsp, rsp->seg, rsp->qp->rq, rsp->qp->recv_cq,
				    atomic_load_explicit(&rsp->qp->qpn, memory_order_relaxed)};
}

static bool acquired(const struct av_qp_ref *end, enum av_lock_result got)
{
	if (got == AV_LOCK_REPAIR)
		av_responder_repair(end);
	return got != AV_LOCK_BUSY;
}

bool av_responder_acquire(const struct av_qp_ref *end)
{
	enum av_lock_result got = av_peer_lock(end->seg, &end->qp->resp_lock, AV_RANK_RESPONDER);

	return av_likely(got == AV_LOCK_TAKEN) || acquired(end, got);
}

bool av_responder_acquire_soon(const struct av_qp_ref *end)
{
	if (av_likely(av_lock_try_free(&end->qp->resp_lock, AV_RANK_RESPONDER)))
		return true;
	return acquired(end, av_lock_acquire_until(&end->qp->resp_lock, AV_RANK_RESPONDER,
						   av_now_ns() + AV_STUCK_NS));
}

/* --- what becomes of both sides -------------------------------------------------- */

/*
 * Number of packets of a message of @bytes on the queue pair's path. A path MTU that is a peer's
 * nonsense makes a wrong number.
 */
static uint32_t count_packets(const struct av_qp_shared *qp, uint64_t bytes)
{
	return AV_MTU_PACKETS(bytes, AV_MTU_SHIFT(qp->attr.path_mtu & 7));
}

void av_traffic_count(struct av_traffic *t, uint32_t kind, uint64_t bytes, uint32_t packets)
{
	t->messages[kind]++;
	t->bytes[kind] += bytes;
	if (av_unlikely(packets > 1) && kind < AV_TRAFFIC_LONG)
		t->more_packets[kind] += packets - 1;
}

/*
 * Does the packet that is refused take a receive request? Of a WRITE in several packets, which are
 * refused with the first, the last one would.
 */
static bool takes_receive(const struct av_work *w)
{
	return w->opcode->receives && (w->wqe->opcode != IBV_WR_RDMA_WRITE_WITH_IMM ||
				       count_packets(w->req->qp, w->wqe->bytes) == 1);
}

/* Have @event (or AV_EVENT_NONE) raised at the responder after the request: two at most. */
static void add_event(struct av_work *w, int event)
{
	if (event != AV_EVENT_NONE)
		w->events.at[w->events.count++] = event;
}

/*
 * Apply the responder's side of a fault. A request that comes again fails nothing: a network may
 * have kept it for long, its first copy has been answered, and its key may be gone since.
 * Context: the responder's @resp_lock is held.
 */
static void responder_fail(struct av_work *w)
{
	const struct av_fault_effects *effects = av_fault_effects(w->result.fault);

	AV_ASSERT_HELD(&w->rsp->qp->resp_lock);
	if (effects->responder_fails || effects->nak != AV_NAK_NONE)
		av_count_rsp(w->rsp->qp, effects->refused);
	if (!effects->responder_fails || (w->fragment && w->fragment->again))
		return;
	av_report_responder(&(struct av_failed){w->req, w->rsp, w->wqe, .fault = w->result.fault});
	if (takes_receive(w) && effects->receive != IBV_WC_SUCCESS)
		av_receive_error(&w->to, effects->receive);
	av_responder_error(w->rsp);
	add_event(w, effects->event);
	w->result.responder_failed = true;
}

/*
 * On an unreliable connection, a message that the responder cannot take is lost, and no program
 * hears of it. The receive request stays for the next one. Source: IBTA volume 1, 9.8.3.
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
		av_report_lost(
			&(struct av_failed){w->req, w->rsp, w->wqe, .fault = w->result.fault});
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
	rsp->expected_psn = AV_PSN_AFTER(rsp->expected_psn, packets);
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
	uint32_t n = count_packets(req, w->wqe->bytes), kind = w->opcode->traffic;

	if (av_unlikely(w->fragment != NULL)) {
		advance_fragment(w, n, lost);
		return;
	}
	if (av_likely(w->result.fault == AV_FAULT_NONE))
		av_traffic_count(&req->counters.req.traffic, kind, w->wqe->bytes, n);
	req->next_psn = rsp->expected_psn = AV_PSN_AFTER(req->next_psn, n);
	if (av_unlikely(lost))
		return;
	av_traffic_count(&rsp->counters.rsp.traffic, kind, w->wqe->bytes, n);
	rsp->msn++;
}

/* The same if nobody is there to take it. */
static void lose_unanswered(struct av_work *w)
{
	struct av_failed failed = {w->req, w->rsp, w->wqe, .fault = AV_FAULT_RETRY_EXHAUSTED};

	if (w->req->qp->type != IBV_QPT_UC)
		return;
	av_traffic_count(&w->req->qp->counters.req.traffic, w->opcode->traffic, w->wqe->bytes,
			 count_packets(w->req->qp, w->wqe->bytes));
	failed.silent =
		w->rsp->qp && av_seg_alive_now(w->rsp->seg) && av_responder_acquire_soon(w->rsp);
	av_report_lost(&failed);
	if (failed.silent)
		av_lock_release(&w->rsp->qp->resp_lock);
	w->result = (struct av_outcome){0};
}

/* Apply the outcome to both sides, and release the responder; for a fragment, the caller does. */
static void apply_work_outcome(struct av_work *w)
{
	bool undone, lost;

	AV_ASSERT_HELD(&w->rsp->qp->resp_lock);
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
	av_lock_release(&w->rsp->qp->resp_lock);
	if (av_unlikely(w->after && (w->srq.seg || w->after->bell.event))) {
		w->after->seg = w->to.seg; /* in use while there is something left to do */
		w->after->srq = w->srq;
	} else if (av_unlikely(w->srq.seg)) {
		av_xrc_end(&w->srq);
	}
	if (av_unlikely(w->events.count))
		av_events_raise(w->rsp, w->to.qpn, &w->events);
}

/* --- the request ----------------------------------------------------------------- */

/* The first message that arrives in RTR tells a program that waits there. */
static void establish(struct av_work *w)
{
	struct av_qp_shared *p = w->rsp->qp;

	if (!p->established)
		add_event(w, IBV_EVENT_COMM_EST);
	p->established = 1;
}

/*
 * Take the responder's @resp_lock, if the queue pair is still the one meant and in a state to
 * answer. If a dead holder left a message half delivered, it fails, as after a fatal error.
 */
static bool responder_begin(struct av_work *w)
{
	struct av_qp_shared *p = w->rsp->qp;
	struct av_seg *seg = w->rsp->seg;
	enum av_lock_result got;
	enum av_check found;

	/* Whether the peer lives may have been seen a few milliseconds ago. */
	if (av_unlikely(!p || (!av_seg_known_alive(seg, w->now_ns) && !av_seg_alive(seg)))) {
		w->result.gone = true;
		return av_work_wait(w, AV_WAIT_NO_ANSWER);
	}
	got = av_peer_lock(seg, &p->resp_lock, AV_RANK_RESPONDER);
	if (av_unlikely(got != AV_LOCK_TAKEN) && !acquired(w->rsp, got))
		return av_work_wait(w, AV_WAIT_NO_ANSWER);
	found = av_responder_expects(p, w->req->qp);
	if (av_likely(found == AV_CHECK_NONE)) {
		w->to = (struct av_receiver){w->rsp, seg, p->rq, p->recv_cq,
					     w->req->qp->attr.dest_qp_num};
		w->pd = p->pd;
		if (av_unlikely(atomic_load(&p->state) == IBV_QPS_RTR))
			establish(w);
		return true;
	}
	w->result.gone = found == AV_CHECK_PEER_GONE;
	av_lock_release(&p->resp_lock);
	return av_work_wait(w, AV_WAIT_NO_ANSWER);
}

/*
 * Run @operation, again and again while a region is being re-registered. In between, only the
 * queue pair locks are held. If that takes long, or a peer's nonsense looks like it, the request
 * waits as one that is not answered.
 */
static enum av_fault operate(struct av_work *w, av_operation *operation)
{
	uint64_t until = 0;

	do {
		enum av_fault fault = av_unlikely(w->rsp->qp->type == IBV_QPT_XRC_RECV)
					      ? av_work_find_srq(w)
					      : AV_FAULT_NONE;

		if (av_likely(fault == AV_FAULT_NONE))
			fault = operation(w);
		av_mem_put_list(&w->local);
		av_pin_end(w->pin);
		w->pin = NULL;
		if (av_likely(fault != AV_FAULT_BUSY))
			return fault;
		av_xrc_end(&w->srq);
	} while (av_key_retry(&until));
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
	w->pin = NULL;
	w->in_vain = false;
	w->srq = (struct av_xrc_use){0};
	w->result = (struct av_outcome){.fault = AV_FAULT_NONE};
}

static enum av_fault refuse(struct av_work *w)
{
	return w->result.fault;
}

/* @fault: what refuse() finds */
static struct av_outcome execute_by(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
				    const struct av_sq_wqe *wqe, av_operation *operation,
				    enum av_fault fault)
{
	struct av_work w;

	init_work(&w, req, rsp, wqe);
	if (!responder_begin(&w))
		return w.result;
	w.result.fault = fault;
	w.result.fault = operate(&w, operation);
	apply_work_outcome(&w);
	return w.result;
}

struct av_outcome av_execute_refuse(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
				    const struct av_sq_wqe *wqe, enum av_fault fault)
{
	return execute_by(req, rsp, wqe, refuse, fault);
}

struct av_outcome av_execute_by(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
				const struct av_sq_wqe *wqe, av_operation *operation)
{
	return execute_by(req, rsp, wqe, operation, AV_FAULT_NONE);
}

/* The kernel refused what the request needs. May it wait until the connection is on the wire? */
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
 * The requester reads a packet before it sends it: an unreadable source comes before whatever the
 * responder finds, or does not answer. A request that waits was read when it began to.
 * Return: is it the requester's fault, and no other?
 */
static bool is_unreadable(struct av_work *w)
{
	bool waits = w->result.fault == AV_FAULT_NONE &&
		     atomic_load(&w->req->qp->wait_reason) != AV_WAIT_NONE;
	enum av_fault fault;

	if (!w->opcode->source || w->result.moves || found_at_requester(w->result.fault) || waits)
		return false;
	fault = av_find_buffers(w->req, w->fragment, w->wqe, 0, &w->local);
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

/*
 * Prefetch the cache lines that the next message for @rsp needs. @rsp's owner wrote them; this
 * loads them together instead of one after the other. A hint. Needs no queue pair lock.
 */
static void prefetch_receiver(const struct av_qp_ref *rsp)
{
	const struct av_rq_shared *rq = av_rq_at(rsp->seg, rsp->qp->rq);

	if (rq)
		av_rq_prefetch(rsp->seg, rq);
	av_cq_prefetch(rsp->seg, rsp->qp->recv_cq);
}

struct av_outcome av_execute(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
			     const struct av_sq_wqe *wqe, struct av_after *after)
{
	enum av_check found;
	struct av_work w;

	AV_ASSERT_HELD(&req->qp->req_lock);
	init_work(&w, req, rsp, wqe);
	w.after = after;
	found = check_head_request(req, wqe, w.opcode);
	if (av_unlikely(found != AV_CHECK_NONE)) {
		w.result.fault = record_request_fault(req, wqe, found);
		return w.result;
	}
	if (w.opcode->local) {
		w.result.fault = av_operations[w.opcode - av_wr_opcodes](&w);
		return w.result;
	}
	if (rsp->qp && w.opcode->receives)
		prefetch_receiver(rsp);
	if (!responder_begin(&w)) {
		if (!is_unreadable(&w))
			lose_unanswered(&w);
		return w.result;
	}
	w.result.fault = operate(&w, av_operations[w.opcode - av_wr_opcodes]);
	if (av_unlikely(w.result.fault == AV_FAULT_FORBIDDEN) && may_move(req)) {
		w.result = (struct av_outcome){.moves = true};
		av_work_wait(&w, AV_WAIT_NO_ANSWER);
	}
	if (av_likely(w.result.fault == AV_FAULT_NONE && w.result.wait_reason == AV_WAIT_NONE)) {
		apply_work_outcome(&w);
		/* To load at once what has been stored in parts waits for these stores. */
		return (struct av_outcome){.fault = AV_FAULT_NONE};
	}
	if (is_unreadable(&w) && rsp->qp->receiving)
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

	AV_ASSERT_HELD(&rsp->qp->resp_lock);
	init_work(&w, rsp, rsp, head);
	w.fragment = fragment;
	w.to = av_receiver_of(rsp);
	w.pd = rsp->qp->pd;
	if (atomic_load(&rsp->qp->state) == IBV_QPS_RTR)
		establish(&w);
	w.result.fault = is_fragment_valid(&w)
				 ? operate(&w, av_operations[w.opcode - av_wr_opcodes])
				 : AV_FAULT_REM_OP_DENIED;
	apply_work_outcome(&w);
	av_xrc_end(&w.srq);
	*events = w.events;
	return w.result;
}
