/* SPDX-License-Identifier: MIT */
#include "transport/transport.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "memory/translate.h"
#include "observe/check.h"
#include "registry/directory.h"
#include "transport/execution.h"
#include "transport/observed.h"
#include "transport/rules.h"

/* Sums over the buffers of requests that wait. */

#define PLACES (AV_SLAB_CHUNKS * AV_OBJ_CHUNK)
#define PIECE  1024u

/* The sum of the request at the head of a queue pair. Guarded by its right @exec. */
struct entry {
	uint32_t qpn, number; /* which request; 0: none */
	uint64_t sum;
	uint64_t changes; /* of the queue pair so far */
};

struct av_send_sums {
	struct entry at[PLACES];
};

/* It misses a change with probability 2^-64. */
static bool sum_spans(struct av_spans left, uint64_t bytes, uint64_t *sum)
{
	uint8_t piece[PIECE];

	*sum = AV_FNV1A;
	for (uint64_t n; bytes > 0; bytes -= n) {
		struct av_spans to, from = left;

		n = bytes < PIECE ? bytes : PIECE;
		av_spans_local(&to, NULL, piece, n);
		from.bytes = n;
		if (av_xfer_copy(&to, &from, av_now_coarse_ns()) != AV_FAULT_NONE)
			return false;
		*sum = av_fnv1a(*sum, piece, n);
		av_spans_skip(&left, n);
	}
	return true;
}

/* Return:  false: there is nothing to sum, or it cannot be reached */
static bool sum_send_buffers(const struct av_qp_ref *end, const struct av_sq_wqe *wqe,
			     uint64_t *sum)
{
	uint64_t bytes = wqe->bytes < AV_SEND_SUM_BYTES ? wqe->bytes : AV_SEND_SUM_BYTES;
	struct av_spans spans;
	bool ok;

	if (!av_wr_opcode(wqe->opcode)->source || (wqe->flags & IBV_SEND_INLINE) || !bytes ||
	    wqe->count > AV_MAX_SGE ||
	    av_mem_get_list(end->seg, end->qp->pd, 0, wqe->sge, wqe->count, bytes, &spans) !=
		    AV_CHECK_NONE)
		return false;
	ok = sum_spans(spans, bytes, sum);
	av_mem_put_list(&spans);
	return ok;
}

static struct entry *get_send_sum_entry(const struct av_qp_ref *end, bool make)
{
	struct av_send_sums *sums = atomic_load(&end->seg->sums), *none = NULL;

	if (!sums && make) {
		sums = calloc(1, sizeof(*sums));
		if (sums && !atomic_compare_exchange_strong(&end->seg->sums, &none, sums)) {
			free(sums);
			sums = none;
		}
	}
	return sums && end->qp->index < PLACES ? &sums->at[end->qp->index] : NULL;
}

/*
 * The request at the head of an own queue has begun to wait, or is tried again.
 * Context: @exec is held.
 */
static void send_sum_look(const struct av_qp_ref *end, const struct av_sq_wqe *wqe)
{
	AV_UNCANCELLED;
	struct entry *e = get_send_sum_entry(end, true);
	uint32_t qpn = atomic_load(&end->qp->qpn);
	uint64_t sum;

	if (!e || !sum_send_buffers(end, wqe, &sum))
		return;
	if (e->qpn != qpn)
		*e = (struct entry){.qpn = qpn};
	if (e->number == end->qp->sq_next + 1)
		e->changes += e->sum != sum;
	e->number = end->qp->sq_next + 1;
	e->sum = sum;
}

uint64_t av_send_sum_changes(const struct av_qp_ref *end)
{
	const struct entry *e = get_send_sum_entry(end, false);

	return e && e->qpn == atomic_load(&end->qp->qpn) ? e->changes : 0;
}

void av_send_sum_end(struct av_seg *seg)
{
	free(atomic_exchange(&seg->sums, NULL));
}

/* What the timer thread does when it looks. */

#define BUSY_NS 1000000u /* until another thread may have taken what has come */

/* Is the time for an answer over, and none has come? @now: may be late, for want of a core */
static bool is_unanswered(const struct av_qp_ref *end, uint64_t now, bool *busy)
{
	*busy = false;
	if (atomic_load(&end->qp->deadline_ns) > now)
		return false;
	if (atomic_load(&end->qp->wait_reason) == AV_WAIT_FULL) /* nobody answers that */
		return true;
	*busy = !av_wire_catch_up(end);
	return !*busy && atomic_load(&end->qp->deadline_ns) <= now;
}

static uint64_t look_at_requests(const struct av_qp_ref *end, uint64_t now)
{
	bool busy;

	if (atomic_load(&end->qp->wait_reason) == AV_WAIT_NONE)
		return UINT64_MAX;
	if (is_unanswered(end, now, &busy) || atomic_load(&end->qp->kick))
		av_sq_progress(end, NULL);
	if (busy)
		return now + BUSY_NS;
	return atomic_load(&end->qp->wait_reason) ? atomic_load(&end->qp->deadline_ns) : UINT64_MAX;
}

uint64_t av_timer_look(const struct av_qp_ref *end)
{
	uint64_t now = av_now_ns(), next, read;
	bool soon = !av_wire_move(end);

	if (atomic_load(&end->qp->flush_due))
		av_sq_progress(end, NULL);
	read = av_wire_read_on(end);
	next = look_at_requests(end, now);
	next = read < next ? read : next;
	soon = soon || atomic_load(&end->qp->flush_due);
	return soon && next > now + AV_FLUSH_DUE_NS ? now + AV_FLUSH_DUE_NS : next;
}

uint64_t av_timer_look_at_faults(struct av_seg *seg)
{
	bool fatal = false;
	uint64_t next = av_inject_look(seg, &fatal), packets = av_wire_faults_look(seg);

	if (fatal)
		av_context_fatal(seg);
	return packets < next ? packets : next;
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
		av_timer_watch(end, av_now_ns() + AV_FLUSH_DUE_NS);
}

/* Put the queue pair into the error state. Context: no @resp held; waits AV_STUCK_NS at most. */
static void flush_due_error(const struct av_qp_ref *end)
{
	if (av_responder_acquire_soon(end)) {
		av_responder_error(end);
		av_lock_release(&end->qp->resp);
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
	av_lock_release(&end->qp->resp);
}

/*
 * Flush what is flush_due, if the right is free by now. The timer comes by until it is.
 * Context: the right @exec is held, no @resp; does not wait.
 */
static void flush_due_look(const struct av_qp_ref *end)
{
	enum av_lock_result got;
	uint32_t what;

	if (av_likely(atomic_load(&end->qp->flush_due) == 0))
		return;
	got = av_lock_try(&end->qp->resp, AV_RANK_RESP);
	if (got == AV_LOCK_BUSY)
		return;
	if (got == AV_LOCK_REPAIR)
		av_responder_repair(end);
	what = atomic_exchange(&end->qp->flush_due, 0);
	if (atomic_load(&end->qp->state) == IBV_QPS_ERR && what & END)
		av_responder_end_receives(end);
	else if (atomic_load(&end->qp->state) == IBV_QPS_ERR && what)
		av_receive_flush(end);
	av_lock_release(&end->qp->resp);
}

void av_finish_error(const struct av_qp_ref *end)
{
	atomic_store(&end->qp->wait_reason, AV_WAIT_NONE);
	flush_due_error(end);
}

void av_finish_fail(const struct av_qp_ref *end, const struct av_qp_ref *peer,
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

/* The completion of the request at the head found no room: the queue pair fails. */
static void finish_overrun(const struct av_qp_ref *end)
{
	av_report_send_cq(end);
	av_finish_error(end);
	av_event_raise(end, atomic_load(&end->qp->qpn), IBV_EVENT_QP_FATAL);
}

/* Complete all requests before @tail as flushed. */
static void finish_flush(const struct av_qp_ref *end, uint32_t tail)
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

void av_finish_done(const struct av_qp_ref *end, const struct av_sq_wqe *wqe)
{
	if (av_unlikely(av_sq_complete(end, wqe, IBV_WC_SUCCESS) < 0))
		finish_overrun(end);
}

/* Executing send queues. */

/*
 * What the holder of @exec saw last. Any difference after it has released the right is a reason to
 * look again.
 */
struct view {
	uint32_t tail;
	uint32_t state;
	bool waiting;
};

/* --- one request ----------------------------------------------------------------- */

/* Are the buffers of waiting requests checked for changes? */
static bool is_checked(const struct av_qp_ref *end)
{
	return atomic_load_explicit(&end->seg->head->watched, memory_order_relaxed) &
	       AV_WATCHED_MISUSE;
}

/*
 * Have whoever polls this CQ in vain look whether the queue pair has been kicked:
 * transport/transport.h.
 */
static void note_waiting(const struct av_qp_ref *end)
{
	struct av_cq_shared *cq = av_cq_at(end->seg, end->qp->send_cq);

	if (cq)
		atomic_store_explicit(&cq->waiting, end->qp->index, memory_order_relaxed);
}

/*
 * The request cannot be executed now.
 * Return:  true: that was its last try, and it has failed
 */
static bool wait_or_fail(const struct av_qp_ref *end, const struct av_qp_ref *peer,
			 const struct av_sq_wqe *wqe, const struct av_outcome *result)
{
	enum av_fault fault = av_retry(end, result);

	if (fault != AV_FAULT_NONE) {
		av_finish_fail(end, peer, wqe, fault);
		return true;
	}
	if (av_unlikely(is_checked(end)))
		send_sum_look(end, wqe);
	if (result->wait_reason == AV_WAIT_RNR)
		note_waiting(end);
	if (result->moves)
		av_timer_watch(end, 0);
	return false;
}

/* The responder failed during the request: flush its own send queue. */
static void flush_responder(const struct av_qp_ref *end, const struct av_qp_ref *peer)
{
	if (peer->qp != end->qp)
		av_sq_progress(peer, NULL);
}

/*
 * Apply the outcome of the request at the head.
 * Return:  false: it has to wait
 */
static bool apply_outcome(const struct av_qp_ref *end, struct av_qp_ref *peer,
			  const struct av_sq_wqe *wqe, struct av_outcome result)
{
	if (result.responder_failed)
		flush_responder(end, peer);
	if (av_likely(result.fault == AV_FAULT_NONE && result.wait_reason == AV_WAIT_NONE)) {
		atomic_store_explicit(&end->qp->wait_reason, AV_WAIT_NONE, memory_order_relaxed);
		if (av_unlikely(av_sq_complete(end, wqe, IBV_WC_SUCCESS) < 0))
			finish_overrun(end);
		return true;
	}
	if (result.wait_reason == AV_WAIT_NONE &&
	    av_rule(result.fault)->requester == IBV_WC_SUCCESS)
		result.wait_reason =
			AV_WAIT_NO_ANSWER; /* the responder failed and sends no answer */
	if (result.wait_reason != AV_WAIT_NONE)
		return wait_or_fail(end, peer, wqe, &result);
	av_finish_fail(end, peer, wqe, result.fault);
	return true;
}

/*
 * Apply an injected fault instead of executing the request at the head.
 * Return:  as of execute_sq_head()
 */
static bool inject(const struct av_qp_ref *end, struct av_qp_ref *peer, const struct av_sq_wqe *wqe,
		   const struct av_injected *in)
{
	bool goes_on;

	switch (in->what) {
	case AV_INJECTED_RESULT:
		goes_on = apply_outcome(end, peer, wqe, in->result);
		av_diag_drop(); /* the cause, unless the request has failed */
		return goes_on;
	case AV_INJECTED_STATUS:
		av_diag_drop();
		(void)!av_sq_complete(end, wqe, in->status); /* as in av_finish_fail() */
		av_finish_error(end);
		return true;
	case AV_INJECTED_OVERRUN:
		end->qp->sq_next++;
		if (av_cq_overrun(end->seg, end->qp->send_cq) != AV_CQ_DROPPED)
			finish_overrun(end);
		return true;
	default:
		return false;
	}
}

/*
 * Inject a fault into a request of a watched context, if a rule says so.
 * @goes_on: out, if a fault was injected: as of execute_sq_head()
 * Return:  was a fault injected?
 */
static __attribute__((noinline)) bool injected(const struct av_qp_ref *end, struct av_qp_ref *peer,
					       const struct av_sq_wqe *wqe, bool *goes_on)
{
	struct av_capture_mark capture = {.on = false};
	struct av_injected in;

	if (is_checked(end) && atomic_load(&end->qp->wait_reason) != AV_WAIT_NONE)
		send_sum_look(end, wqe);
	if (!av_faults_watched(end->seg) || av_wire_is_begun(end))
		return false;
	if (atomic_load(&end->seg->head->watched) & AV_WATCHED_CAPTURE)
		av_capture_mark(&capture, end);
	in = av_inject(end, peer, wqe);
	if (in.what == AV_INJECTED_NOT)
		return false;
	if (capture.on && in.what == AV_INJECTED_RESULT) {
		if (end->qp->type != IBV_QPT_UD)
			av_connect(end, peer);
		av_capture_request(&capture, end, peer, wqe, &in.result);
	}
	*goes_on = inject(end, peer, wqe, &in);
	return true;
}

/*
 * Execute the request at the head.
 * Return:  false: it has to wait
 */
static bool execute_sq_head(const struct av_qp_ref *end, struct av_qp_ref *peer)
{
	uint32_t watched = atomic_load_explicit(&end->seg->head->watched, memory_order_relaxed);
	const struct av_sq_wqe *wqe = av_sq_slot(end, end->qp->sq_next);
	struct av_capture_mark capture;
	struct av_outcome result;
	struct av_after after = {0};
	bool goes_on;

	AV_ASSERT_HELD(&end->qp->exec);
	if (!wqe)
		return false;
	if (av_unlikely(watched) && injected(end, peer, wqe, &goes_on))
		return goes_on;
	capture.on = watched & AV_WATCHED_CAPTURE;
	if (av_unlikely(capture.on))
		av_capture_mark(&capture, end);
	if (av_unlikely(end->qp->wire)) {
		if (capture.on)
			av_capture_look(end->seg);
		return av_wire_step(end, watched & AV_WATCHED_FAULTS &&
						 av_inject_is_at_requests(end->seg));
	}
	if (av_unlikely(end->qp->type == IBV_QPT_UD)) {
		result = av_datagram_execute(end, peer, wqe, &after);
	} else {
		av_connect(end, peer);
		result = av_execute(end, peer, wqe, &after);
	}
	if (av_unlikely(capture.on))
		av_capture_request(&capture, end, peer, wqe, &result);
	goes_on = apply_outcome(end, peer, wqe, result);
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

/*
 * Execute requests until the queue is empty or one has to wait.
 * Context: @exec is held.
 */
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

void av_sq_progress_enter(const struct av_qp_ref *end)
{
	av_lock_acquire_plain(&end->qp->exec, AV_RANK_EXEC);
}

/*
 * After the right is released, see whether something has changed since this holder looked. The
 * newcomer publishes @sq_tail, @kick or @state, and then tries the right. The holder releases the
 * right, and then reads them. Each side has a full barrier in between: either the newcomer gets the
 * right, or the holder sees the change.
 */
void av_sq_progress_entered(const struct av_qp_ref *end, struct av_qp_ref *peer, bool with_exec)
{
	const struct av_qp_shared *qp = end->qp;
	struct view view;

	for (; av_likely(with_exec) || av_lock_try_free(&end->qp->exec, AV_RANK_EXEC);
	     with_exec = false) {
		execute_send_queue(end, peer, &view);
		av_lock_release_fence(&end->qp->exec);
		if (av_likely((view.waiting ||
			       atomic_load_explicit(&qp->sq_tail, memory_order_relaxed) ==
				       view.tail) &&
			      !atomic_load_explicit(&qp->kick, memory_order_relaxed) &&
			      atomic_load_explicit(&qp->state, memory_order_relaxed) == view.state))
			return;
	}
}

/*
 * Leave the queue pair of another process to that one. Its thread is woken if it waits: who is just
 * about to wait sees @kick. What needs no thread of its is done here, since it may have none.
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
