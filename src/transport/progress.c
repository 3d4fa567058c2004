/* SPDX-License-Identifier: MIT */
/* What posts and polls do: send queues are executed, and completions taken. */
#include "transport/transport.h"

#include <sched.h>

#include "base/thread.h"
#include "device/port.h"
#include "transport/observed.h"

/* Finding the responder of a connected queue pair. */

bool av_at_address(const struct ibv_ah_attr *ah, const struct av_seg *seg)
{
	if (ah->is_global)
		return av_port_has_gid(seg->head->port, &ah->grh.dgid);
	return seg->head->link_layer == IBV_LINK_LAYER_INFINIBAND && seg->head->lid == ah->dlid;
}

void av_disconnect(struct av_qp_ref *peer)
{
	av_seg_put(peer->seg);
	*peer = (struct av_qp_ref){0};
}

static void connect_anew(const struct av_qp_ref *end, struct av_qp_ref *peer, uint32_t qpn)
{
	AV_UNCANCELLED;

	av_disconnect(peer);
	*peer = av_qp_get(qpn);
	if (!peer->qp || atomic_load(&peer->qp->qpn) != qpn ||
	    !av_at_address(&end->qp->attr.ah_attr, peer->seg))
		av_disconnect(peer);
}

inline void av_connect(const struct av_qp_ref *end, struct av_qp_ref *peer)
{
	uint32_t qpn = end->qp->attr.dest_qp_num;

	if (av_unlikely(!peer->qp ||
			atomic_load_explicit(&peer->qp->qpn, memory_order_relaxed) != qpn))
		connect_anew(end, peer, qpn);
}

/* In the queue pair's @flush_due. */
enum flush_due {
	FLUSH = 1,
	END = 2, /* and tell of it, where the queue is shared */
};

static void defer_to_timer(const struct av_qp_ref *end, enum flush_due what)
{
	atomic_fetch_or(&end->qp->flush_due, what);
	if (end->seg->own) /* the timer; av_fail() kicks the owner of another one */
		av_timer_arm(end, av_now_ns() + AV_FLUSH_DUE_NS);
}

/* Put the queue pair into the error state. No @resp_lock is held; waits AV_STUCK_NS at most. */
static void flush_due_error(const struct av_qp_ref *end)
{
	if (av_responder_acquire_soon(end)) {
		av_responder_error(end);
		av_lock_release(&end->qp->resp_lock);
		return;
	}
	defer_to_timer(end,
		       atomic_exchange(&end->qp->state, IBV_QPS_ERR) == IBV_QPS_ERR ? FLUSH : END);
}

void av_deferred_flush(const struct av_qp_ref *end)
{
	if (!av_responder_acquire_soon(end)) {
		defer_to_timer(end, FLUSH);
		return;
	}
	av_receive_flush(end);
	av_lock_release(&end->qp->resp_lock);
}

/*
 * Flush what is flush_due, if the lock is free by now. The timer comes by until it is.
 * Context: @req_lock is held, no @resp_lock; does not wait.
 */
static void flush_due_look(const struct av_qp_ref *end)
{
	enum av_lock_result got;
	uint32_t what;

	if (av_likely(atomic_load(&end->qp->flush_due) == 0))
		return;
	got = av_lock_try(&end->qp->resp_lock, AV_RANK_RESPONDER);
	if (got == AV_LOCK_BUSY)
		return;
	if (got == AV_LOCK_REPAIR)
		av_responder_repair(end);
	what = atomic_exchange(&end->qp->flush_due, 0);
	if (atomic_load(&end->qp->state) == IBV_QPS_ERR && what & END)
		av_responder_end_receives(end);
	else if (atomic_load(&end->qp->state) == IBV_QPS_ERR && what)
		av_receive_flush(end);
	av_lock_release(&end->qp->resp_lock);
}

void av_finish_error(const struct av_qp_ref *end)
{
	atomic_store(&end->qp->wait_reason, AV_WAIT_NONE);
	flush_due_error(end);
}

/* Statuses without a row are errors that the requester found. */
static const enum av_req_event request_event[] = {
	[IBV_WC_WR_FLUSH_ERR] = AV_REQ_FLUSHED,
	[IBV_WC_RNR_RETRY_EXC_ERR] = AV_REQ_RNR_EXCEEDED,
	[IBV_WC_RETRY_EXC_ERR] = AV_REQ_RETRY_EXCEEDED,
	[IBV_WC_REM_ACCESS_ERR] = AV_REQ_REM_ACCESS,
	[IBV_WC_REM_INV_REQ_ERR] = AV_REQ_REM_INVALID,
	[IBV_WC_REM_OP_ERR] = AV_REQ_REM_OP,
};
_Static_assert(AV_REQ_RNR == 0, "nothing completes with that");

/* Count a request of @qp that completes with error @status. */
static void count_failed_request(struct av_qp_shared *qp, enum ibv_wc_status status)
{
	enum av_req_event event =
		status < AV_ARRAY_SIZE(request_event) ? request_event[status] : AV_REQ_RNR;

	av_count_req(qp, event == AV_REQ_RNR ? AV_REQ_LOCAL : event);
}

void av_finish_fail(const struct av_qp_ref *end, const struct av_qp_ref *peer,
		    const struct av_sq_wqe *wqe, enum av_fault fault)
{
	bool silent = fault == AV_FAULT_RETRY_EXHAUSTED && peer->qp && av_seg_alive_now(peer->seg);

	AV_ASSERT_HELD(&end->qp->req_lock);
	count_failed_request(end->qp, av_fault_effects(fault)->requester);
	silent = silent && av_responder_acquire_soon(peer);
	av_report_request(&(struct av_failed){end, peer, wqe, .fault = fault, .silent = silent});
	if (silent)
		av_lock_release(&peer->qp->resp_lock);
	/* A full CQ has raised its own event. */
	(void)!av_sq_complete(end, wqe, av_fault_effects(fault)->requester);
	av_finish_error(end);
}

/* The completion of the request at the head found no room: the queue pair fails. */
static void finish_overrun(const struct av_qp_ref *end)
{
	av_report_send_cq(end);
	av_finish_error(end);
	av_event_raise(end, atomic_load(&end->qp->qpn), IBV_EVENT_QP_FATAL);
}

static void finish_flush(const struct av_qp_ref *end, uint32_t tail)
{
	uint32_t count = 0;

	while (end->qp->sq_next != tail && count < AV_MAX_QP_WR) {
		const struct av_sq_wqe *wqe = av_sq_slot(end, end->qp->sq_next);

		if (!wqe)
			break;
		count++;
		count_failed_request(end->qp, IBV_WC_WR_FLUSH_ERR);
		(void)!av_sq_complete(end, wqe, IBV_WC_WR_FLUSH_ERR);
	}
	av_report_flush(end, count, false);
}

void av_finish_done(const struct av_qp_ref *end, const struct av_sq_wqe *wqe)
{
	if (av_unlikely(av_sq_complete(end, wqe, IBV_WC_SUCCESS) < 0))
		finish_overrun(end);
}

/* Executing send queues. */

/* What the holder of @req_lock saw last. If anything differs after the release, it looks again. */
struct view {
	uint32_t tail;
	uint32_t state;
	bool waiting;
};

/* --- one request ----------------------------------------------------------------- */

/* Have whoever polls this CQ in vain look at the queue pair's @kick: transport/transport.h. */
static void note_waiting(const struct av_qp_ref *end)
{
	struct av_cq_shared *cq = av_cq_at(end->seg, end->qp->send_cq);

	if (cq)
		atomic_store_explicit(&cq->waiting, end->qp->index, memory_order_relaxed);
}

/* The request cannot be executed now. Return: true: that was its last try, and it has failed */
static bool wait_or_fail(const struct av_qp_ref *end, const struct av_qp_ref *peer,
			 const struct av_sq_wqe *wqe, const struct av_outcome *result)
{
	enum av_fault fault = av_retry(end, result);

	if (fault != AV_FAULT_NONE) {
		av_finish_fail(end, peer, wqe, fault);
		return true;
	}
	av_observed_waits(end, wqe);
	if (result->wait_reason == AV_WAIT_RNR)
		note_waiting(end);
	if (result->moves)
		av_timer_arm(end, 0);
	return false;
}

/* Apply the outcome of the request at the head. Return: false: it has to wait */
static bool apply_outcome(const struct av_qp_ref *end, struct av_qp_ref *peer,
			  const struct av_sq_wqe *wqe, struct av_outcome result)
{
	if (result.responder_failed && peer->qp != end->qp)
		av_sq_progress(peer, NULL); /* flush its own send queue */
	if (result.fault == AV_FAULT_NONE && result.wait_reason == AV_WAIT_NONE) {
		atomic_store_explicit(&end->qp->wait_reason, AV_WAIT_NONE, memory_order_relaxed);
		av_finish_done(end, wqe);
		return true;
	}
	if (result.wait_reason == AV_WAIT_NONE &&
	    av_fault_effects(result.fault)->requester == IBV_WC_SUCCESS)
		result.wait_reason =
			AV_WAIT_NO_ANSWER; /* the responder failed and sends no answer */
	if (result.wait_reason != AV_WAIT_NONE)
		return wait_or_fail(end, peer, wqe, &result);
	av_finish_fail(end, peer, wqe, result.fault);
	return true;
}

/* Apply an injected fault to the request at the head instead. Return: as execute_sq_head() */
static bool apply_injected(const struct av_observed *o)
{
	bool goes_on;

	switch (o->injected.what) {
	case AV_INJECTED_RESULT:
		av_observed_done(o, &o->injected.result);
		goes_on = apply_outcome(o->end, o->peer, o->wqe, o->injected.result);
		av_diag_drop(); /* the cause, unless the request has failed */
		return goes_on;
	case AV_INJECTED_STATUS: /* as in av_finish_fail() */
		av_report_request(
			&(struct av_failed){o->end, o->peer, o->wqe, .status = o->injected.status});
		(void)!av_sq_complete(o->end, o->wqe, o->injected.status);
		av_finish_error(o->end);
		return true;
	case AV_INJECTED_OVERRUN:
		o->end->qp->sq_next++;
		if (av_cq_overrun(o->end->seg, o->end->qp->send_cq) != AV_CQ_DROPPED)
			finish_overrun(o->end);
		return true;
	default:
		return false;
	}
}

/* Execute the request at the head. Return: false: it has to wait */
static bool execute_sq_head(const struct av_qp_ref *end, struct av_qp_ref *peer)
{
	uint32_t observers = atomic_load_explicit(&end->seg->head->observers, memory_order_relaxed);
	const struct av_sq_wqe *wqe = av_sq_slot(end, end->qp->sq_next);
	struct av_observed observed; /* if @observers */
	struct av_outcome result;
	struct av_after after = {0};
	bool goes_on;

	AV_ASSERT_HELD(&end->qp->req_lock);
	if (!wqe)
		return false;
	if (av_unlikely(observers) && !av_observed_may_begin(&observed, observers, end, peer, wqe))
		return apply_injected(&observed);
	if (av_unlikely(end->qp->wire))
		return av_wire_step(end, observers && observed.singly);
	if (av_unlikely(end->qp->type == IBV_QPT_UD)) {
		result = av_datagram_execute(end, peer, wqe, &after);
	} else {
		av_connect(end, peer);
		result = av_execute(end, peer, wqe, &after);
	}
	if (av_unlikely(observers))
		av_observed_done(&observed, &result);
	if (av_likely(result.fault == AV_FAULT_NONE && result.wait_reason == AV_WAIT_NONE &&
		      !result.responder_failed)) {
		atomic_store_explicit(&end->qp->wait_reason, AV_WAIT_NONE, memory_order_relaxed);
		if (av_unlikely(av_sq_complete(end, wqe, IBV_WC_SUCCESS) < 0))
			finish_overrun(end);
		goes_on = true;
	} else {
		goes_on = apply_outcome(end, peer, wqe, result);
	}
	if (av_unlikely(after.seg || after.burst))
		av_after_do(&after);
	return goes_on;
}

/*
 * Is the message at the head under way, so that SQD lets it end? @waiting: it was waiting when the
 * caller came. On the wire, nothing may wait for a moment between two of its packets.
 */
static bool is_under_way(const struct av_qp_ref *end, bool waiting)
{
	return waiting || (end->qp->wire && av_wire_is_under_way(end));
}

static void drained(const struct av_qp_ref *end)
{
	if (end->qp->drain_notify) {
		end->qp->drain_notify = 0;
		av_event_raise(end, atomic_load(&end->qp->qpn), IBV_EVENT_SQ_DRAINED);
	}
}

/* Execute requests until the queue is empty or one has to wait. Context: @req_lock is held. */
static void execute_send_queue(const struct av_qp_ref *end, struct av_qp_ref *peer,
			       struct view *view)
{
	struct av_qp_shared *qp = end->qp;
	bool waiting = atomic_load_explicit(&qp->wait_reason, memory_order_relaxed) != AV_WAIT_NONE;
	bool under_way;

	/*
	 * Exchange only if it is set: an exchange costs a full barrier, which a process that uses
	 * its own right alone does without.
	 */
	if (atomic_load(&qp->kick))
		atomic_exchange(&qp->kick, 0);
	for (;; waiting = false) {
		view->state = atomic_load(&qp->state);
		view->tail = atomic_load(&qp->sq_tail);
		view->waiting = false;
		if (atomic_load_explicit(&qp->qpn, memory_order_relaxed) == 0 ||
		    av_unlikely(view->tail - qp->sq_next > AV_MAX_QP_WR)) /* a peer's nonsense */
			return;
		if (view->state == IBV_QPS_ERR) {
			finish_flush(end, view->tail);
			av_wire_flushed(end);
			atomic_store(&qp->wait_reason, AV_WAIT_NONE); /* else its timer goes on */
			flush_due_look(end);
		}
		if (av_unlikely(atomic_load_explicit(&qp->last_wqe, memory_order_relaxed)))
			av_event_last_wqe(end);
		under_way = view->state == IBV_QPS_SQD && is_under_way(end, waiting);
		if (view->state == IBV_QPS_SQD && !under_way)
			drained(end);
		if (qp->sq_next == view->tail)
			return;
		/* In SQD, only a request that was under way before is executed. */
		if (view->state != IBV_QPS_RTS && !under_way)
			return;
		if (!execute_sq_head(end, peer)) {
			/* On the wire, what is posted later may be begun before this is done. */
			view->waiting = !qp->wire;
			return;
		}
		/*
		 * Whatever has changed by now, the caller finds. But in SQD an event may have to be
		 * raised.
		 */
		if (av_likely(qp->sq_next == view->tail && view->state == IBV_QPS_RTS))
			return;
	}
}

/*
 * After the lock is released, see whether something has changed since this holder looked. The
 * newcomer publishes @sq_tail, @kick or @state, and then tries the lock. The holder releases the
 * right, and then reads them. Each side has a full barrier in between: either the newcomer gets the
 * right, or the holder sees the change.
 */
void av_sq_progress_entered(const struct av_qp_ref *end, struct av_qp_ref *peer, bool with_lock)
{
	const struct av_qp_shared *qp = end->qp;
	struct view view;

	for (; av_likely(with_lock) || av_lock_try_free(&end->qp->req_lock, AV_RANK_REQUESTER);
	     with_lock = false) {
		execute_send_queue(end, peer, &view);
		av_lock_release_fence(&end->qp->req_lock);
		if (av_likely((view.waiting ||
			       atomic_load_explicit(&qp->sq_tail, memory_order_relaxed) ==
				       view.tail) &&
			      !atomic_load_explicit(&qp->kick, memory_order_relaxed) &&
			      atomic_load_explicit(&qp->state, memory_order_relaxed) == view.state))
			return;
	}
}

/*
 * Leave the queue pair to its own process. Wake the thread there if it waits: who is about to wait
 * sees @kick. What needs no thread of that process is done here, since it may have none.
 */
static void leave_to_owner(const struct av_qp_ref *end)
{
	av_event_last_wqe(end);
	atomic_store(&end->qp->kick, 1);
	if (atomic_load(&end->qp->wait_reason) != AV_WAIT_NONE)
		av_seg_wake_timer(end->seg);
}

void av_sq_progress(const struct av_qp_ref *end, struct av_qp_ref *peer)
{
	struct av_qp_ref found = {0};

	if (!end->seg->own) {
		leave_to_owner(end);
		return;
	}
	av_sq_progress_entered(end, peer ? peer : &found, false);
	if (!peer)
		av_disconnect(&found);
}

void av_sq_progress_requester(const struct av_qp_ref *requester)
{
	if (!requester->qp)
		return;
	atomic_store(&requester->qp->kick, 1);
	av_sq_progress(requester, NULL);
}

void av_sq_progress_peer(const struct av_qp_ref *end)
{
	struct av_qp_ref requester = {0};

	if (end->qp->wire) /* it is told by packets */
		return;
	av_connect(end, &requester);
	av_sq_progress_requester(&requester);
	av_disconnect(&requester);
}

void av_fail(const struct av_qp_ref *end)
{
	flush_due_error(end);
	av_sq_progress(end, NULL);
}

/* Resuming requesters that wait for receive requests. */

#define BATCH_MIN 8u
#define BATCH_MAX 64u

/* An eighth of the queue makes it worth resuming a requester. 1: resume it for each */
static uint32_t batch(const struct av_rq_shared *rq)
{
	uint32_t share = rq->capacity / 8;

	if (share < BATCH_MIN)
		return 1;
	return share < BATCH_MAX ? share : BATCH_MAX;
}

/* The requester of an own queue pair may go on, if it waits. */
static void resume_peer(const struct av_qp_ref *end, struct av_rq_shared *rq)
{
	if (!atomic_exchange(&rq->waiting, 0))
		return;
	if (end->qp->wire)
		av_wire_tell_credits(end);
	else
		av_sq_progress_peer(end);
}

/* The same, of queue pair @index; 0: none. */
static void resume_owed(struct av_seg *seg, uint32_t index)
{
	struct av_qp_ref end = {seg, index ? av_qp_at(seg, index) : NULL};
	struct av_rq_shared *rq = end.qp ? av_rq_at(seg, end.qp->rq) : NULL;

	if (rq)
		resume_peer(&end, rq);
}

void av_rnr_posted(const struct av_qp_ref *end, struct av_rq_shared *rq)
{
	struct av_cq_shared *cq = av_cq_at(end->seg, end->qp->recv_cq);

	if (batch(rq) == 1 || av_rq_ready(rq) >= batch(rq) || !cq || !av_cq_peek(end->seg, cq))
		resume_peer(end, rq);
	else if (atomic_load_explicit(&cq->owed, memory_order_relaxed) != end->qp->index)
		resume_owed(end->seg, atomic_exchange(&cq->owed, end->qp->index));
}

/* An own queue pair waits for its peer, or did so: execute it if it has been kicked. */
static void resume_waiting_qp(struct av_seg *seg, struct av_cq_shared *cq, uint32_t index)
{
	struct av_qp_ref end = {seg, av_qp_at(seg, index)};

	if (!end.qp ||
	    atomic_load_explicit(&end.qp->wait_reason, memory_order_relaxed) != AV_WAIT_RNR)
		(void)!atomic_compare_exchange_strong(&cq->waiting, &index, 0);
	else if (atomic_load_explicit(&end.qp->kick, memory_order_relaxed))
		av_sq_progress(&end, NULL);
}

inline void av_rnr_polled(struct av_seg *seg, struct av_cq_shared *cq, bool long_since)
{
	uint32_t waiting = atomic_load_explicit(&cq->waiting, memory_order_relaxed);

	if (av_unlikely(waiting))
		resume_waiting_qp(seg, cq, waiting);
	if (long_since && atomic_load_explicit(&cq->owed, memory_order_relaxed))
		resume_owed(seg, atomic_exchange(&cq->owed, 0));
}

/* Taking completions and placing what came with them. */

/*
 * Polls in vain before a thread yields its core once. Measured: pure spinning collapses when peers
 * share a core, and so does constant yielding beside a thread that never yields. Where nobody wants
 * the core, a message waits for the system call to end. So a thread yields less if that helps less.
 */
#define YIELD_AFTER_MIN 128u
#define YIELD_AFTER_MAX 8192u
#define OTHERS_RAN_NS	2000u /* a yield that took this long let another thread run */

/*
 * Take completions into @wc[@n] and on until there are @count, or one has payload to place.
 * Return: how many there are now
 */
static int poll_completions(struct av_seg *seg, struct av_cq_shared *cq, int n, int count,
			    struct ibv_wc *wc, uint64_t *stamp_ns, struct av_placement *place,
			    bool *payload)
{
	const struct av_cqe *cqe;
	struct av_qp_shared *qp;

	*payload = false;
	(void)!av_lock_acquire(&cq->poll_lock, AV_RANK_POLL);
	while (n < count && !*payload && (cqe = av_cq_peek(seg, cq))) {
		if (stamp_ns)
			stamp_ns[n] = cqe->stamp_ns;
		wc[n++] = (struct ibv_wc){
			.wr_id = cqe->wr_id,
			.status = (enum ibv_wc_status)cqe->status,
			.opcode = (enum ibv_wc_opcode)cqe->opcode,
			.byte_len = cqe->byte_len,
			.imm_data = cqe->imm,
			.qp_num = cqe->qpn,
			.src_qp = cqe->src_qp,
			.wc_flags = cqe->wc_flags,
			.slid = cqe->slid,
			.sl = cqe->sl,
		};
		if (cqe->flags & AV_CQE_RECV) {
			*payload = AV_CQE_HAS_PAYLOAD(cqe);
			av_place_free_slot(seg, cqe, *payload ? place : NULL);
		} else if (av_likely((qp = av_qp_at(seg, cqe->queue)) != NULL)) {
			atomic_store_explicit(&qp->sq_freed, cqe->wqe + 1, memory_order_release);
		}
		av_cq_take(cq);
	}
	av_lock_release(&cq->poll_lock);
	return n;
}

/* The buffer was removed after the message had arrived: fail as if it had been removed before. */
static void placement_failed(struct av_seg *seg, struct ibv_wc *wc)
{
	struct av_qp_location location = av_dir_qpn_find(wc->qp_num);
	struct av_qp_ref end = {seg, NULL};

	wc->status = IBV_WC_LOC_PROT_ERR;
	av_report_placement(seg, wc);
	if (location.ref == seg->ref)
		end.qp = av_qp_at(seg, location.index);
	if (end.qp && atomic_load(&end.qp->qpn) == wc->qp_num)
		av_fail(&end);
}

/* Yield the core, and learn whether another thread wanted it. */
static void yield(struct av_cq_shared *cq)
{
	uint32_t yield_after = atomic_load_explicit(&cq->yield_after, memory_order_relaxed);
	uint64_t before = av_now_ns();

	sched_yield();
	if (av_now_ns() - before >= OTHERS_RAN_NS || yield_after < YIELD_AFTER_MIN)
		yield_after = YIELD_AFTER_MIN;
	else if (yield_after < YIELD_AFTER_MAX)
		yield_after *= 2;
	atomic_store_explicit(&cq->yield_after, yield_after, memory_order_relaxed);
}

static int nothing(struct av_seg *seg, struct av_cq_shared *cq)
{
	uint32_t polls = atomic_load_explicit(&cq->empty_polls, memory_order_relaxed) + 1;
	bool yields = polls > atomic_load_explicit(&cq->yield_after, memory_order_relaxed);

	atomic_store_explicit(&cq->empty_polls, yields ? 0 : polls, memory_order_relaxed);
	av_rnr_polled(seg, cq, polls % YIELD_AFTER_MIN == 0);
	if (av_unlikely(atomic_load_explicit(&cq->coop.left, memory_order_relaxed)))
		av_coop_help(seg, cq);
	if (av_unlikely(atomic_load_explicit(&av_net_is_open, memory_order_relaxed)))
		(void)av_net_poll();
	if (av_unlikely(yields)) {
		if (av_explaining())
			av_explain_others(); /* a dropped message has no completion */
		av_cq_producer_look(seg, cq);
		yield(cq);
	}
	return av_unlikely(atomic_load_explicit(&cq->overrun, memory_order_relaxed)) ? -EIO : 0;
}

int av_poll(struct av_seg *seg, struct av_cq_shared *cq, int count, struct ibv_wc *wc,
	    uint64_t *stamp_ns)
{
	struct av_placement place;
	bool payload = true;
	int n = 0;

	if (av_unlikely(count < 0))
		return -av_refused(AV_VERB_POLL_CQ,
				   av_refuse(EINVAL, AV_CHECK_POLL_COUNT, (uint64_t)count, 0));
	if (!av_cq_peek(seg, cq)) {
		n = nothing(seg, cq);
		if (n || !av_cq_peek(seg, cq)) /* others may have run for long meanwhile */
			return n;
	}
	atomic_store_explicit(&cq->empty_polls, 0, memory_order_relaxed);
	do {
		n = poll_completions(seg, cq, n, count, wc, stamp_ns, &place, &payload);
		if (payload && av_unlikely(!av_place(seg, &place)))
			placement_failed(seg, &wc[n - 1]);
		if (n == 0)
			break; /* another poller was faster */
		if (av_unlikely(wc[n - 1].status != IBV_WC_SUCCESS) && av_explaining())
			av_explain_others();
	} while (n < count && payload && av_cq_peek(seg, cq));
	return n;
}
