/* SPDX-License-Identifier: MIT */
/* The freedoms that a strict device uses at requests: when bytes move, and in which order. */
#include "transport/observed.h"

#include "observe/freedom.h"
#include "transport/transport.h"

#define HELD_NS	    200000u /* longest time from a request's turn to its execution */
#define LATE_NS	    5000000u
#define EARLY_BYTES 64u	  /* most that lands before the rest */
#define SCRIBBLED   4096u /* most of a receive buffer that gets garbage */
#define FATES	    100u  /* of so many unreliable messages one is lost; of datagrams: */
#define DOUBLED	    1u	  /* one arrives twice, */
#define LAST_LATE   9u	  /* and these are overtaken */
#define LOST_AMONG  32u	  /* of so many reliable ones, the first of a queue pair */

/* The request at the head of a queue pair. Guarded by its @req_lock. */
struct turn {
	uint32_t qpn, number; /* which request, + 1; 0: none */
	uint64_t came_ns, begins_ns;
	uint32_t early; /* bytes at its end that have landed before the others: @tail */
	uint8_t tail[EARLY_BYTES];
	uint64_t sum; /* of its buffers at @came_ns */
	bool summed;
	bool in_steps;		 /* it is an atomic, and is executed so */
	bool paged;		 /* the responder has to page its memory in first */
	bool lost;		 /* it was, and is sent again */
	bool overtaken;		 /* the request behind it has been executed before it */
	_Atomic uint64_t record; /* of the last freedom that may show nothing, + 1 */
	_Atomic uint64_t again;	 /* the same of those for which it is sent again */
};

struct av_strict {
	struct turn at[AV_OBSERVED_QPS];
	/* Events that come late: a queue pair's number, and below 32 a bit for each. */
	_Atomic uint64_t late[AV_OBSERVED_QPS];
	_Atomic uint64_t late_ns; /* when they come; 0: there are none */
};

static struct turn *get_turn(const struct av_qp_ref *end)
{
	struct av_strict *all = AV_MADE_ONCE(&end->seg->strict, 1);

	return all && end->qp->index < AV_OBSERVED_QPS ? &all->at[end->qp->index] : NULL;
}

static bool uses(const struct av_qp_ref *end, enum av_freedom which)
{
	return end->seg->head->strict & AV_FREEDOM_BIT(which);
}

static uint64_t draw_below(const struct av_qp_ref *end, enum av_freedom which, uint64_t n)
{
	return av_faults_below(
		av_freedom_draw(end->seg->head->seed, which, end->qp->index, end->qp->sq_next), n);
}

/* --- asynchronous events ---------------------------------------------------------- */

bool av_strict_puts_off(const struct av_qp_ref *end, uint32_t qpn, enum ibv_event_type event)
{
	static _Atomic uint64_t last;
	struct av_strict *all = end->seg->own && uses(end, AV_FREEDOM_LATE_EVENTS)
					? AV_MADE_ONCE(&end->seg->strict, 1)
					: NULL;
	uint64_t was, now, none = 0;

	if (!all || end->qp->index >= AV_OBSERVED_QPS)
		return false;
	av_flight_replace(&last,
			  av_report_event(end, AV_CHECK_STRICT_LATE_EVENTS, (int)event, LATE_NS));
	was = atomic_load(&all->late[end->qp->index]);
	do
		now = (was >> 32 == qpn ? was : (uint64_t)qpn << 32) | 1ull << event;
	while (!atomic_compare_exchange_weak(&all->late[end->qp->index], &was, now));
	(void)atomic_compare_exchange_strong(&all->late_ns, &none, av_now_ns() + LATE_NS);
	av_timer_start(end->seg);
	av_seg_wake_timer(end->seg);
	return true;
}

static void ring_late(struct av_seg *seg, uint32_t index, uint64_t events)
{
	const struct av_qp_shared *qp = av_qp_at(seg, index);
	struct av_doorbell_record record = {
		.kind = AV_SLAB_QP, .index = index, .id = (uint32_t)(events >> 32)};

	if (!qp || atomic_load(&qp->qpn) != record.id)
		return; /* it has been destroyed */
	for (; record.event < 32; record.event++)
		if (events >> record.event & 1)
			(void)av_doorbell_ring(seg, AV_DOORBELL_ASYNC, &record);
}

uint64_t av_timer_look_at_events(struct av_seg *seg)
{
	struct av_strict *all = atomic_load(&seg->strict);
	uint64_t due = all ? atomic_load(&all->late_ns) : 0;

	if (!due || av_now_ns() < due)
		return due ? due : UINT64_MAX;
	atomic_store(&all->late_ns, 0); /* before the look: an event that comes now sets it */
	for (uint32_t i = 0; i < AV_OBSERVED_QPS; i++)
		if (atomic_load_explicit(&all->late[i], memory_order_relaxed))
			ring_late(seg, i, atomic_exchange(&all->late[i], 0));
	return UINT64_MAX;
}

/* --- receive buffers -------------------------------------------------------------- */

/* Bytes that programs rarely expect. Return: false: they cannot be reached */
static bool scribble_spans(const struct av_spans *to, const struct av_seg *seg, uint64_t nth)
{
	uint64_t n = to->bytes < SCRIBBLED ? to->bytes : SCRIBBLED;
	uint8_t garbage[SCRIBBLED];
	struct av_spans from;

	memset(garbage,
	       (int)(0x80 | av_freedom_draw(seg->head->seed, AV_FREEDOM_RECV_BUFFER, 0, nth) % 128),
	       n);
	av_spans_local(&from, NULL, garbage, n);
	return av_xfer_copy_part(to, &from, n, av_now_coarse_ns()) == AV_FAULT_NONE;
}

static bool find_receive(const struct av_receiver *to, const struct av_rq_wqe *request,
			 uint64_t bytes, struct av_spans *buffers)
{
	return av_mem_get_list(to->seg, av_rq_at(to->seg, to->rq)->pd, IBV_ACCESS_LOCAL_WRITE,
			       request->sge, request->count, bytes, buffers) == AV_CHECK_NONE;
}

void av_strict_failed_receive(const struct av_receiver *to, const struct av_rq_wqe *request)
{
	static _Atomic uint64_t last;
	struct av_flight_record before = *av_diag_pending();
	struct av_spans buffers;
	bool done;

	if (!(to->seg->head->strict & AV_FREEDOM_BIT(AV_FREEDOM_RECV_BUFFER)) || !request->bytes ||
	    !find_receive(to, request, request->bytes, &buffers))
		return;
	done = scribble_spans(&buffers, to->seg, request->wr_id);
	av_mem_put_list(&buffers);
	*av_diag_pending() = before; /* of what has failed */
	if (done)
		av_flight_replace(&last, av_report_event(to->rsp, AV_CHECK_STRICT_RECV_FAILED,
							 AV_EVENT_NONE, request->bytes));
}

/* --- bytes that land early -------------------------------------------------------- */

/*
 * Copy the last @tail bytes between the requester's buffers and @remote, which has as many. If they
 * have landed: are they still there?
 */
static bool copy_tail(const struct av_observed *o, struct turn *t, const struct av_spans *remote,
		      uint32_t tail)
{
	bool source = av_wr_opcode(o->wqe->opcode)->source;
	struct av_spans local, part, kept;
	uint8_t there[EARLY_BYTES];
	enum av_fault fault;

	if (av_find_buffers(o->end, NULL, o->wqe, source ? 0 : IBV_ACCESS_LOCAL_WRITE, &local) !=
	    AV_FAULT_NONE)
		return false;
	av_spans_copy(&part, &local);
	av_spans_skip(&part, o->wqe->bytes - tail);
	av_spans_local(&kept, NULL, t->early ? there : t->tail, tail);
	fault = av_xfer_copy(&kept, source == !t->early ? &part : remote, av_now_coarse_ns());
	if (fault == AV_FAULT_NONE && !t->early)
		fault = av_xfer_copy(source ? remote : &part, &kept, av_now_coarse_ns());
	av_mem_put_list(&local);
	return fault == AV_FAULT_NONE && (!t->early || !memcmp(there, t->tail, tail));
}

/* Pin the last @bytes of what the request @wqe of @o's queue pair names at the responder. */
static bool pin_remote(const struct av_observed *o, const struct av_sq_wqe *wqe, uint64_t bytes,
		       struct av_span *to)
{
	const struct av_wr_opcode *op = av_wr_opcode(wqe->opcode);
	const struct av_mem_request req = {
		.key = wqe->rkey,
		.pd = o->peer->qp->pd,
		.qpn = o->end->qp->attr.dest_qp_num,
		.access = op->rights,
		.payload = op->source,
		.remote = true,
		.addr = wqe->remote_addr + wqe->bytes - bytes,
		.length = bytes,
	};

	return av_mem_get(o->peer->seg, &req, to) == AV_CHECK_NONE;
}

/* @tail: 0: none lands. Return: as copy_tail() */
static bool land_at_key(const struct av_observed *o, struct turn *t, uint32_t tail)
{
	struct av_spans remote = {.count = 1, .bytes = tail ? tail : o->wqe->bytes};
	bool landed;

	if (!pin_remote(o, o->wqe, remote.bytes, &remote.at[0]))
		return false;
	t->paged = remote.at[0].odp;
	landed = tail && copy_tail(o, t, &remote, tail);
	av_pin_end(remote.at[0].pin);
	return landed;
}

/*
 * The same in the receive request that the message will take: its other bytes are garbage. Of a
 * shared queue, another message might take it, a shorter one.
 */
static bool land_in_receive(const struct av_observed *o, struct turn *t, uint32_t tail)
{
	struct av_receiver to = av_receiver_of(o->peer);
	const struct av_rq_wqe *request = o->peer->qp->srq ? NULL : av_receive_take(&to);
	struct av_spans buffers, end;
	bool landed = false;

	if (!request)
		return false;
	if (o->wqe->bytes <= request->bytes &&
	    find_receive(&to, request, o->wqe->bytes, &buffers)) {
		for (uint32_t i = 0; i < buffers.count; i++)
			t->paged |= buffers.at[i].odp;
		if (tail &&
		    (t->early || scribble_spans(&buffers, o->end->seg, o->end->qp->sq_next))) {
			av_spans_copy(&end, &buffers);
			av_spans_skip(&end, o->wqe->bytes - tail);
			landed = copy_tail(o, t, &end, tail);
		}
		av_mem_put_list(&buffers);
	}
	av_receive_cancel(&to);
	return landed;
}

static bool acquire_peer(const struct av_observed *o)
{
	av_connect(o->end, o->peer);
	return o->peer->qp && av_responder_acquire_soon(o->peer);
}

/* A request that fails leaves nothing behind: its other bytes would not follow. */
static bool would_be_executed(const struct av_observed *o, const struct av_wr_opcode *op)
{
	const struct av_qp_shared *req = o->end->qp, *rsp = o->peer->qp;

	return av_responder_expects(rsp, req) == AV_CHECK_NONE &&
	       (rsp->attr.qp_access_flags & op->rights) == op->rights &&
	       (op->source || rsp->attr.max_dest_rd_atomic);
}

/* Return: false: nothing has landed; or what had landed before is not there any more */
static bool land(const struct av_observed *o, struct turn *t, uint32_t tail)
{
	const struct av_wr_opcode *op = av_wr_opcode(o->wqe->opcode);
	bool landed;

	if (!acquire_peer(o))
		return t->early;
	landed = would_be_executed(o, op)
			 ? (op->rights ? land_at_key(o, t, tail) : land_in_receive(o, t, tail))
			 : t->early;
	av_lock_release(&o->peer->qp->resp_lock);
	av_diag_drop(); /* whatever is wrong, the request itself will say so */
	return landed;
}

/* How many bytes, at the end of the message, are to land before the others? */
static uint32_t draw_tail(const struct av_observed *o, enum av_freedom which)
{
	uint64_t most = o->wqe->bytes - 1 < EARLY_BYTES ? o->wqe->bytes - 1 : EARLY_BYTES;

	return uses(o->end, which) ? 1 + (uint32_t)draw_below(o->end, which, most) : 0;
}

/* Would the responder execute @wqe, as far as it knows now? @there: the bytes, not pinned */
static bool is_reachable(const struct av_observed *o, const struct av_sq_wqe *wqe,
			 struct av_span *there)
{
	bool reachable;

	if (o->end->qp->type != IBV_QPT_RC || o->end->qp->wire || !acquire_peer(o))
		return false;
	reachable = would_be_executed(o, av_wr_opcode(wqe->opcode)) &&
		    pin_remote(o, wqe, wqe->bytes, there);
	if (reachable)
		av_pin_end(there->pin);
	av_lock_release(&o->peer->qp->resp_lock);
	av_diag_drop();
	return reachable;
}

/*
 * Can this process make the processor's own stores come between? Only where it reaches the operand
 * by instructions; a system call is no more atomic than that.
 */
static bool is_in_steps(const struct av_observed *o)
{
	struct av_span word;

	return uses(o->end, AV_FREEDOM_ATOMICS) &&
	       av_wr_opcode(o->wqe->opcode)->form == AV_FORM_ATOMIC &&
	       is_reachable(o, o->wqe, &word) && word.local && !word.odp && !word.umr;
}

/* The freedom to order the request's bytes; AV_FREEDOM_N: there is none */
static enum av_freedom order_of(const struct av_observed *o)
{
	bool reliable = o->end->qp->type == IBV_QPT_RC;
	bool connected = reliable || o->end->qp->type == IBV_QPT_UC;
	enum av_freedom which = AV_FREEDOM_N;

	if (o->wqe->opcode == IBV_WR_RDMA_WRITE || o->wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		which = AV_FREEDOM_WRITE_ORDER;
	else if (o->wqe->opcode == IBV_WR_RDMA_READ)
		which = AV_FREEDOM_READ_ORDER;
	else if (av_wr_opcode(o->wqe->opcode)->receives && reliable)
		which = AV_FREEDOM_RECV_BUFFER;
	return connected && !o->end->qp->wire && o->wqe->bytes > 1 ? which : AV_FREEDOM_N;
}

/* --- turns ------------------------------------------------------------------------ */

/* The record is there before the rest of the bytes. */
static void report_early(const struct av_observed *o, struct turn *t, enum av_freedom which)
{
	static const enum av_check check[] = {
		[AV_FREEDOM_WRITE_ORDER] = AV_CHECK_STRICT_WRITE_ORDER,
		[AV_FREEDOM_READ_ORDER] = AV_CHECK_STRICT_READ_ORDER,
		[AV_FREEDOM_RECV_BUFFER] = AV_CHECK_STRICT_RECV_BUFFER,
	};

	av_flight_replace(&t->record, av_report_freedom(o->end, o->wqe, check[which], t->early,
							t->begins_ns - t->came_ns));
}

static void begin_turn(const struct av_observed *o, struct turn *t)
{
	enum av_freedom order = order_of(o);
	bool same = t->qpn == atomic_load(&o->end->qp->qpn);
	uint32_t tail;

	*t = (struct turn){
		.qpn = atomic_load(&o->end->qp->qpn),
		.number = o->end->qp->sq_next + 1,
		.came_ns = av_now_ns(),
		.record = same ? t->record : 0,
		.again = same ? t->again : 0,
		.in_steps = is_in_steps(o),
	};
	if (order != AV_FREEDOM_N && (uses(o->end, order) || uses(o->end, AV_FREEDOM_PAGING))) {
		tail = draw_tail(o, order);
		t->early = land(o, t, tail) ? tail : 0;
	}
	if (uses(o->end, AV_FREEDOM_LATE_READ))
		t->summed = av_send_sum(o->end, o->wqe, &t->sum);
	if (t->early || t->summed || t->in_steps)
		t->begins_ns = av_now_ns() + draw_below(o->end, AV_FREEDOM_LATE_READ, HELD_NS);
	if (t->early)
		report_early(o, t, order);
}

static void report_turn(const struct av_observed *o, struct turn *t, uint64_t now)
{
	bool paged = t->paged;
	uint64_t sum;

	if (t->early && !land(o, t, t->early))
		av_flight_replace(&t->record,
				  av_report_freedom(o->end, o->wqe, AV_CHECK_STRICT_USED_EARLY,
						    t->early, now - t->came_ns));
	t->paged = paged;
	t->early = 0;
	if (t->summed && av_send_sum(o->end, o->wqe, &sum) && sum != t->sum)
		(void)av_report_freedom(o->end, o->wqe, AV_CHECK_STRICT_LATE_READ, 0,
					now - t->came_ns);
	t->summed = false;
}

/* Instead of its execution, the request has @result. Return: false */
static bool ends_with(struct av_observed *o, struct av_outcome result)
{
	o->injected = (struct av_injected){.what = AV_INJECTED_RESULT, .result = result};
	return false;
}

/*
 * The responder was not ready, since it pages; only this once. A correct program tries again.
 * Return: false: it was not executed
 */
static bool page_in(struct av_observed *o, struct turn *t)
{
	t->paged = false;
	av_connect(o->end, o->peer);
	if (!o->peer->qp)
		return true;
	av_flight_replace(&t->again,
			  av_report_freedom(o->end, o->wqe, AV_CHECK_STRICT_PAGING, 0, 0));
	return ends_with(o, (struct av_outcome){.wait_reason = AV_WAIT_RNR,
						.rnr_timer = o->peer->qp->attr.min_rnr_timer});
}

/* Return: false: it has been executed */
static bool execute_in_steps(struct av_observed *o)
{
	if (av_execute_check(o->end, o->wqe) != AV_FAULT_NONE)
		return true; /* which will find that, too */
	av_connect(o->end, o->peer);
	return ends_with(o, av_execute_by(o->end, o->peer, o->wqe, av_op_in_steps));
}

/* --- requests that go astray ------------------------------------------------------ */

static bool is_to_be_lost(const struct av_qp_ref *end)
{
	uint64_t which =
		av_freedom_draw(end->seg->head->seed, AV_FREEDOM_RETRIES, end->qp->index, 0);

	return uses(end, AV_FREEDOM_RETRIES) && end->qp->sq_next == which % LOST_AMONG;
}

/*
 * One of a reliable connection's first requests is lost. It is sent again after the timeout, if
 * there is one, and unless no try is left. Return: false: it is not executed
 */
static bool arrives(struct av_observed *o, struct turn *t, uint64_t now)
{
	const struct av_qp_shared *qp = o->end->qp;
	bool again =
		t->lost && (!qp->attr.timeout || av_retry_is_early(qp, AV_WAIT_NO_ANSWER, now));

	if (t->lost && !again && av_retry_is_last(qp))
		return ends_with(o, (struct av_outcome){.fault = AV_FAULT_RETRY_EXHAUSTED});
	if (!again && (t->lost || qp->wire || !is_to_be_lost(o->end)))
		return true;
	if (!t->lost)
		av_flight_replace(&t->again,
				  av_report_freedom(o->end, o->wqe, AV_CHECK_STRICT_LOST, 0, 0));
	t->lost = true;
	return ends_with(o, (struct av_outcome){.wait_reason = AV_WAIT_NO_ANSWER});
}

/* Execute a request that will not complete by that. Return: false: it fails, or has to wait */
static bool execute_apart(const struct av_observed *o, const struct av_sq_wqe *wqe)
{
	struct av_after after = {0};
	struct av_outcome result = o->end->qp->type == IBV_QPT_UD
					   ? av_datagram_execute(o->end, o->peer, wqe, &after)
					   : av_execute(o->end, o->peer, wqe, &after);

	if (after.seg || after.burst)
		av_after_do(&after);
	av_diag_drop();
	return result.fault == AV_FAULT_NONE && result.wait_reason == AV_WAIT_NONE;
}

/* Execute the request behind this one, if there is one, before it. */
static void overtake(const struct av_observed *o, struct turn *t, enum av_check check)
{
	uint32_t next = o->end->qp->sq_next + 1;
	const struct av_sq_wqe *behind =
		next != atomic_load(&o->end->qp->sq_tail) ? av_sq_slot(o->end, next) : NULL;
	bool datagram = o->end->qp->type == IBV_QPT_UD;
	struct av_span there;

	if (!behind || t->overtaken)
		return;
	if (!datagram && (behind->opcode != IBV_WR_RDMA_WRITE || behind->flags & IBV_SEND_FENCE ||
			  !is_reachable(o, behind, &there)))
		return;
	t->overtaken = execute_apart(o, behind);
	if (t->overtaken)
		av_flight_replace(&t->record, av_report_freedom(o->end, behind, check, 0, 0));
}

/* Return: false: the message is lost; the request completes, and nobody hears of it */
static bool send_unreliably(struct av_observed *o, struct turn *t)
{
	uint64_t fate = draw_below(o->end, AV_FREEDOM_DATAGRAMS, FATES);

	if (fate == 0) {
		(void)av_report_freedom(o->end, o->wqe, AV_CHECK_STRICT_DATAGRAMS, 0, 0);
		return ends_with(o, (struct av_outcome){.fault = AV_FAULT_NONE});
	}
	if (o->end->qp->type == IBV_QPT_UC || fate > LAST_LATE) /* UC drops what comes again */
		return true;
	if (fate != DOUBLED)
		overtake(o, t, AV_CHECK_STRICT_OVERTAKEN);
	else if (execute_apart(o, o->wqe))
		(void)av_report_freedom(o->end, o->wqe, AV_CHECK_STRICT_DOUBLED, 0, 0);
	return true;
}

/* The request's turn is over. Return: false: it is not executed, or has been */
static bool execute_freely(struct av_observed *o, struct turn *t, uint64_t now)
{
	const struct av_qp_ref *end = o->end;

	if (end->qp->type == IBV_QPT_UD || end->qp->type == IBV_QPT_UC)
		return !uses(end, AV_FREEDOM_DATAGRAMS) || send_unreliably(o, t);
	if (end->qp->type != IBV_QPT_RC)
		return true;
	if (!arrives(o, t, now))
		return false;
	if (t->paged && uses(end, AV_FREEDOM_PAGING))
		return page_in(o, t);
	if (o->wqe->opcode == IBV_WR_RDMA_READ && uses(end, AV_FREEDOM_FENCES))
		overtake(o, t, AV_CHECK_STRICT_FENCES);
	return !t->in_steps || execute_in_steps(o);
}

static bool strict_may_begin(struct av_observed *o)
{
	struct turn *t = get_turn(o->end);
	bool known = t && t->qpn == atomic_load(&o->end->qp->qpn);
	uint64_t now;

	if (!t || av_wr_opcode(o->wqe->opcode)->local || av_wire_is_begun(o->end))
		return true;
	if (known && t->overtaken && t->number == o->end->qp->sq_next) {
		t->overtaken = false;
		return ends_with(o, (struct av_outcome){.fault = AV_FAULT_NONE});
	}
	if (!known || t->number != o->end->qp->sq_next + 1)
		begin_turn(o, t);
	now = av_now_ns();
	if (now >= t->begins_ns) {
		report_turn(o, t, now);
		return execute_freely(o, t, now);
	}
	av_sq_wait_until(o->end, AV_WAIT_HELD, t->begins_ns);
	o->injected.what = AV_INJECTED_HELD;
	return false;
}

const struct av_observer av_strict_observer = {
	.bit = AV_OBSERVER_STRICT,
	.may_begin = strict_may_begin,
};

void av_strict_begin(struct av_seg *seg)
{
	if (seg->head->strict)
		atomic_fetch_or(&seg->head->observers, AV_OBSERVER_STRICT);
}
