/* SPDX-License-Identifier: MIT */
/*
 * The requester of a queue pair on the wire: what is sent, and when again. Source: IBTA volume 1,
 * 9.7.2 (PSNs), 9.7.5 (go-back-N, timers), 9.7.7.1 (responder resources).
 */
#include "transport/execution.h"
#include "transport/transport.h"

#define READ_BYTES     131072u /* that are asked for at once, at most */
#define WINDOW_PACKETS 128u    /* on their way: what the kernel's rdma_rxe keeps track of, */
#define WINDOW_OURS    512u    /* but to this device */
#define LONG_TIMEOUT   10      /* 4 ms: acknowledgements may wait */
#define SPREAD	       64u     /* moments at which what has been lost together is repeated */
#define EARLY	       16u     /* a part of a timeout: then for the first time, */
#define EARLY_NS       4000000 /* but not before that */

/* Sending, from one call of av_wire_step(). */
struct sending {
	const struct av_qp_ref *end;
	struct av_wire *w;
	struct av_net_burst *burst; /* NULL: not begun yet, or no memory: then nothing is sent */
	uint32_t left;		    /* packets that the interface has room for, */
	bool full;		    /* and whether it has none */
	bool singly;		    /* one request after the other */
	bool failed;
};

static const struct av_qp_ref nobody;

static int32_t window(const struct av_wire *w)
{
	uint32_t packets = av_window_share(w->route.window) / w->mtu,
		 most = w->understood ? WINDOW_OURS : WINDOW_PACKETS;

	if (packets == 0)
		return 1;
	return (int32_t)(packets < most ? packets : most);
}

/* Packets of a reliable connection that may be sent now, or asked for. */
static int32_t room(const struct av_qp_ref *end, const struct av_wire *w)
{
	return window(w) - av_psn_distance(w->acked, end->qp->next_psn);
}

static void flush_send_burst(struct sending *s)
{
	int err = s->burst ? av_net_send(s->burst) : 0; /* what is not sent is repeated later */

	if (err)
		s->w->obstacle = err;
	s->burst = NULL;
}

/* How much longer it rests: only while nothing is under way. */
static uint64_t rest_left(const struct av_qp_ref *end, const struct av_wire *w)
{
	uint64_t now;

	if (w->rest_until_ns == 0 || w->acked != w->sent || w->sent != end->qp->next_psn)
		return 0;
	now = av_now_ns();
	return w->rest_until_ns > now ? w->rest_until_ns - now : 0;
}

/*
 * Packets that the interface has room for. A reliable connection that has nothing under way does
 * not ask: it rarely fills the interface, and a short message should not wait for the question.
 */
static uint32_t interface_room(struct sending *s)
{
	bool waits = s->w->service == AV_SERVICE_UC || s->w->acked != s->end->qp->next_psn;

	if (s->left > 0)
		return s->left;
	s->full = rest_left(s->end, s->w) > 0;
	if (!s->full) {
		flush_send_burst(s);
		s->full = waits && !av_net_has_room(&s->w->route.path);
		s->left = s->full ? 0 : av_net_room(s->w->mtu);
	}
	return s->left;
}

/*
 * Packets of request @next that its peer has room for. One that takes a receive request has credit
 * for all, one or none of them. An unreliable connection is not told.
 */
static int32_t count_sendable_packets(const struct sending *s, const struct av_sq_wqe *wqe)
{
	struct av_wire *w = s->w;
	int32_t left = room(s->end, w);

	if (w->service == AV_SERVICE_UC)
		return INT32_MAX;
	if (!av_wr_opcode(wqe->opcode)->receives ||
	    (int32_t)(w->credit_limit - w->credits_used) > 0)
		return left;
	if (w->credits_used != w->credits_acked)
		return 0;
	/* Its first packet has found a receive request, or will not be the one that needs it. */
	if (av_psn_distance(av_wire_begun_at(s->end, w, w->next)->first, w->acked) > 0)
		return left;
	return w->begun == 0 && left > 0;
}

uint32_t av_wire_packets_of(const struct av_wire *w, const struct av_sq_wqe *wqe)
{
	return av_wire_packets(wqe->opcode == AV_WR_FLUSH ? 0 : wqe->bytes, w->mtu);
}

void av_wire_fail_head(const struct av_qp_ref *end, enum av_fault fault)
{
	const struct av_sq_wqe *wqe = av_sq_slot(end, end->qp->sq_next);

	if (wqe)
		av_finish_fail(end, &nobody, wqe, fault);
	else
		av_finish_error(end);
}

/* --- time ------------------------------------------------------------------------ */

static bool is_waiting(const struct av_qp_ref *end, const struct av_wire *w)
{
	return w->waits || w->acked != w->sent || w->sent != end->qp->next_psn;
}

static void set_active(struct av_wire *w, bool active)
{
	if (w->active != active)
		av_window_active(w->route.window, active);
	w->active = active;
}

/*
 * When what has no answer is sent again: after a part of the timeout first, if answers have come
 * much sooner. What should have shown a gap may be lost, too. Beside other queue pairs, whose turn
 * it may be, after the whole. @interval_ns: the timeout
 */
static uint64_t answer_deadline(const struct av_wire *w, uint64_t interval_ns)
{
	uint64_t wait_ns = 4 * w->answer_ns;

	if (wait_ns < EARLY_NS)
		wait_ns = EARLY_NS;
	if (wait_ns < interval_ns / EARLY)
		wait_ns = interval_ns / EARLY;
	if (wait_ns > interval_ns || !av_window_is_alone(w->route.window))
		wait_ns = interval_ns;
	return w->since_ns + wait_ns;
}

/* Nothing more is sent for now: until there is an answer, or room for another packet. */
static void wait_for_turn(const struct av_qp_ref *end, struct av_wire *w)
{
	enum av_wait why = is_waiting(end, w) ? AV_WAIT_NO_ANSWER : AV_WAIT_FULL;
	uint64_t rest_ns = rest_left(end, w),
		 interval_ns = av_retry_limits_of(&end->qp->attr, why).interval_ns;

	w->since_ns = av_now_ns();
	end->qp->rnr_spent = end->qp->timeout_spent = 0;
	av_sq_wait_until(end, why,
			 rest_ns ? w->since_ns + rest_ns : answer_deadline(w, interval_ns));
}

/* What is known of why there is no answer, -errno. */
static int take_path_error(struct av_wire *w)
{
	int err = w->icmp_probed ? av_net_icmp_error(&w->route.path) : 0;

	w->icmp_probed = false;
	return err ? err : w->obstacle;
}

void av_wire_progress(const struct av_qp_ref *end, struct av_wire *w, bool acknowledgement)
{
	struct av_retry_limits p = av_retry_limits_of(&end->qp->attr, AV_WAIT_NO_ANSWER);
	uint64_t now = av_now_ns(), rest_ns;

	AV_ASSERT_HELD(&end->qp->req_lock);
	/* Later, nobody knows which packet is answered. */
	if (end->qp->timeout_spent == 0 && now < atomic_load(&end->qp->deadline_ns))
		w->answer_ns = now - w->since_ns;
	w->since_ns = now;
	rest_ns = av_window_rest(w->route.window, w->mtu, w->answer_ns);
	w->rest_until_ns = rest_ns ? now + rest_ns : 0;
	end->qp->rnr_spent = end->qp->timeout_spent = 0;
	w->waits = w->repeated = false;
	(void)av_gather_is_over(end->qp);
	w->obstacle = 0;
	if (acknowledgement)
		av_window_acknowledged(w->route.window, w->mtu, now);
	if (w->icmp_probed)
		(void)!take_path_error(w);
	atomic_store(&end->qp->deadline_ns, answer_deadline(w, p.interval_ns));
}

/*
 * A timeout is a try, unless that host acknowledges other packets: then they are lost on a crowded
 * way rather than for want of a peer, and a try has two. Each takes two intervals at most, so a try
 * takes no more than the four that it may. Source: IBTA volume 1, 9.7.6.1. Return: true: the last
 * try, and the queue pair failed
 */
static bool count_answer_timeout(const struct sending *s, uint64_t since_ns)
{
	bool crowded = av_window_heard(s->w->route.window, since_ns);
	enum av_fault fault =
		av_retry_count(s->end, AV_WAIT_NO_ANSWER, crowded ? AV_TRY / 2 : AV_TRY);

	if (fault != AV_FAULT_NONE) {
		s->w->silence = take_path_error(s->w);
		av_wire_fail_head(s->end, fault);
		return true;
	}
	s->w->icmp_probed = av_retry_is_last(s->end->qp);
	if (s->w->icmp_probed)
		av_net_icmp_probe(&s->w->route.path);
	return false;
}

/*
 * The time for an answer or RNR NAK is over, or a part of it, which doubles each time. Return:
 * true: the queue pair failed
 */
static bool handle_answer_timeout(const struct sending *s)
{
	struct av_retry_limits p = av_retry_limits_of(&s->end->qp->attr, AV_WAIT_NO_ANSWER);
	struct av_wire *w = s->w;
	uint64_t now = av_now_ns(), next;
	bool early = !w->waits && now - w->since_ns < p.interval_ns;

	if (!w->waits)
		av_window_lost(w->route.window);
	if (!w->waits && !early && p.tries && count_answer_timeout(s, now - p.interval_ns))
		return true;
	if (early)
		w->answer_ns = (now - w->since_ns) / 2;
	else
		w->since_ns = now;
	w->waits = w->repeated = false;
	av_wire_rewind(s->end, w, w->acked);
	/* What was lost at the same time is not repeated at the same time. */
	next = answer_deadline(w, p.interval_ns);
	av_sq_wait_until(s->end, AV_WAIT_NO_ANSWER,
			 next + (next - now) / SPREAD * (w->qpn % SPREAD));
	return false;
}

/* --- one request ----------------------------------------------------------------- */

/* A fault that the requester finds: those before the request complete first. */
static bool refuse_request(struct sending *s, enum av_fault fault)
{
	if (s->w->next != s->end->qp->sq_next) {
		av_diag_drop();
		return false;
	}
	flush_send_burst(s); /* once it has failed, the queue pair may be connected anew, with the
				same PSNs */
	av_wire_fail_head(s->end, fault);
	s->failed = true;
	return false;
}

/*
 * Packets of the parts of request @next. Two of them fit the window, so that the answer to one
 * shows what is missing of the one before. They are halved when it narrows, and never grow: what
 * is repeated lies within a part that was asked for before, as responders want it.
 */
static uint32_t read_part(const struct sending *s)
{
	uint32_t *part = &av_wire_begun_at(s->end, s->w, s->w->next)->part;
	uint32_t most = av_window_answer(s->w->route.window) / s->w->mtu;

	while (*part > 1 && *part > most)
		*part /= 2;
	return *part;
}

/* Answers that are under way of request @i, of which @sent packets have been asked for. */
static uint32_t answers_of(const struct sending *s, uint32_t i, uint32_t sent)
{
	int32_t come = av_psn_distance(av_wire_begun_at(s->end, s->w, i)->first, s->w->acked);
	uint32_t part = av_wire_begun_at(s->end, s->w, i)->part,
		 done = come > 0 ? (uint32_t)come / part : 0;

	return (sent + part - 1) / part - done;
}

/* Answers under way; requests that want one are done only when it has come. */
static uint32_t answers_wanted(const struct sending *s)
{
	uint32_t count = 0;

	for (uint32_t i = s->end->qp->sq_next; i != s->w->next; i++) {
		const struct av_sq_wqe *wqe = av_sq_slot(s->end, i);

		if (wqe && av_wr_opcode(wqe->opcode)->answered)
			count += answers_of(s, i, av_wire_packets_of(s->w, wqe));
	}
	return count;
}

/* Has the responder a resource for one more request that wants an answer, beside @more of them? */
static bool has_resource(const struct sending *s, uint32_t more)
{
	return answers_wanted(s) + more < s->end->qp->attr.max_rd_atomic;
}

/* Return: may the request's first packet be sent now? */
static bool start_request(struct sending *s, const struct av_sq_wqe *wqe)
{
	enum av_fault fault = av_execute_check(s->end, wqe);
	struct av_wire *w = s->w;

	if (fault != AV_FAULT_NONE)
		return refuse_request(s, fault);
	if ((wqe->flags & IBV_SEND_FENCE) && answers_wanted(s))
		return false;
	if (av_wr_opcode(wqe->opcode)->answered && !has_resource(s, 0))
		return false;
	av_wire_begun_at(s->end, w, w->next)->first = s->end->qp->next_psn;
	if (w->begun_end == w->next) {
		/* A power of two, like all MTUs. */
		av_wire_begun_at(s->end, w, w->next)->part =
			READ_BYTES / w->mtu < WINDOW_PACKETS ? READ_BYTES / w->mtu : WINDOW_PACKETS;
		w->begun_end++;
	}
	return true;
}

/* @packets have been sent, which take so many PSNs. */
static void advance_sent_psn(struct sending *s, uint32_t psns, uint32_t packets)
{
	struct av_qp_shared *q = s->end->qp;
	int32_t first_time;

	s->w->begun += psns;
	q->next_psn = AV_PSN_AFTER(q->next_psn, psns);
	first_time = av_psn_distance(s->w->sent, q->next_psn);
	if (first_time > 0)
		s->w->sent = q->next_psn;
	if (first_time < (int32_t)packets)
		q->counters.req.event[AV_REQ_REPEATED] +=
			packets - (first_time > 0 ? (uint32_t)first_time : 0);
	if (s->w->service == AV_SERVICE_UC) /* nobody answers */
		s->w->acked = q->next_psn;
}

/* Where @p's payload goes. NULL: no memory; the packet is lost. */
static uint8_t *put_request_packet(struct sending *s, const struct av_packet *p)
{
	s->left -= s->left > 0;
	if (!s->burst)
		s->burst = av_net_burst(&s->w->route.path, s->end->seg->head->device);
	return s->burst ? av_net_put(s->burst, p) : NULL;
}

/*
 * May @packets more of a READ's answer be asked for, beside what is under way? Each part is a
 * request of its own to the responder, and takes one of its resources. Those that are repeated come
 * one by one: what was lost had no room on its way.
 */
static bool may_ask(const struct sending *s, uint32_t packets)
{
	struct av_wire *w = s->w;
	uint32_t psn = s->end->qp->next_psn;

	if (w->acked == psn)
		return true;
	return w->sent == psn && (int32_t)packets <= room(s->end, w) &&
	       has_resource(s, answers_of(s, w->next, w->begun));
}

/* Ask for the next part of a READ, if it has room. Return: has it been asked for? */
static bool send_part(struct sending *s, const struct av_wire_message *m,
		      const struct av_sq_wqe *wqe, uint32_t packets)
{
	struct av_wire *w = s->w;
	uint32_t part = read_part(s), n = part - w->begun % part;
	uint64_t before = (uint64_t)w->begun * w->mtu;
	struct av_packet p;

	if (n > packets - w->begun)
		n = packets - w->begun;
	if (!may_ask(s, n) || !interface_room(s))
		return false;
	(void)av_wire_packet(m, 0, &p);
	p.psn = s->end->qp->next_psn;
	p.addr += before;
	p.length = (uint32_t)(wqe->bytes - before < (uint64_t)n * w->mtu ? wqe->bytes - before
									 : (uint64_t)n * w->mtu);
	(void)put_request_packet(s, &p);
	advance_sent_psn(s, n, 1);
	return true;
}

/*
 * Put a packet, with the acknowledgement that is due, if there is one, and room for it. @now_ns:
 * coarse
 */
static uint8_t *put_carrying(struct sending *s, const struct av_wire_message *m,
			     struct av_packet *p, uint64_t now_ns)
{
	struct av_qp_shared *q = s->end->qp;
	uint8_t *place;

	if (!atomic_load(&s->w->ack_pending) || !atomic_load(&s->w->carries_acks) ||
	    !av_operation_carries(m->operation) || !av_responder_acquire_soon(s->end))
		return put_request_packet(s, p);
	p->carries = true;
	p->carried = (uint32_t)av_wire_credits(s->end) << 24 |
		     AV_PSN_AFTER(q->expected_psn, AV_PSN_MASK);
	place = put_request_packet(s, p);
	if (place) {
		(void)av_wire_due(s->w, now_ns);
		atomic_store(&s->w->ack_pending, false);
	}
	av_lock_release(&q->resp_lock);
	return place;
}

/* Packets after which an acknowledgement is asked for: a full send, or a fourth of the window. */
static int32_t ack_interval(const struct av_wire *w)
{
	int32_t full = (int32_t)av_net_full_send(w->mtu), fourth = (window(w) + 3) / 4;

	return fourth < full ? fourth : full;
}

/*
 * There is room for @left packets, too few for a full send. Does @p, of a request of @packets, wait
 * for more of the window? If it would begin a send, more waits than there is room for, and
 * acknowledgements are on their way: at least three intervals are. Small requests gather elsewhere.
 */
static bool waits_for_full_send(const struct sending *s, const struct av_packet *p,
				uint32_t packets, int32_t left)
{
	const struct av_qp_shared *q = s->end->qp;
	bool more = packets - s->w->begun > (uint32_t)left ||
		    s->w->next + 1 != atomic_load(&q->sq_tail);

	return more && packets > 1 && s->w->acked != q->next_psn && left == room(s->end, s->w) &&
	       av_net_begins_send(s->burst, p);
}

/* Packets that have been put, but for their payload, which is copied to all of them at once. */
struct run {
	struct iovec *place; /* AV_MAX_SGE of them */
	uint32_t count, bytes;
	bool carries; /* the first has an acknowledgement */
};

/* Their payload is the next of @rest. Return: a fault: none of them is sent */
static enum av_fault fill_run(struct sending *s, struct run *r, struct av_spans *rest, uint64_t now)
{
	enum av_fault fault = AV_FAULT_NONE;
	struct av_spans to;

	if (r->bytes) {
		av_spans_iovec(&to, NULL, r->place, r->count);
		fault = av_xfer_copy_part(&to, rest, r->bytes, now);
	}
	if (fault == AV_FAULT_NONE) {
		av_spans_skip(rest, r->bytes);
		advance_sent_psn(s, r->count, r->count);
	} else {
		av_net_take_back(s->burst, r->count);
		if (r->carries)
			atomic_store(&s->w->ack_pending, true);
		fault = AV_FAULT_LOC_PROT;
	}
	*r = (struct run){.place = r->place};
	return fault;
}

/* Send @left packets, their payload from @rest. */
static enum av_fault send_packets(struct sending *s, const struct av_wire_message *m,
				  uint32_t packets, int32_t left, struct av_spans *rest)
{
	uint64_t now = av_now_coarse_ns();
	int32_t often = ack_interval(s->w);
	enum av_fault fault = AV_FAULT_NONE;
	struct iovec places[AV_MAX_SGE];
	struct run r = {.place = places};
	struct av_packet p;
	uint32_t more = 0; /* by which packets are longer, since the first carries */
	uint8_t *place;

	/*
	 * The last one that has room, in the window or at the interface, asks for the
	 * acknowledgement that those behind it wait for.
	 */
	for (; s->w->begun + r.count < packets && left > 0; left--) {
		(void)av_wire_packet(m, s->w->begun + r.count, &p);
		p.filler += m->fills && p.payload_bytes == m->mtu ? more : 0;
		if (r.count &&
		    (s->left == 0 || r.count == AV_MAX_SGE || av_net_begins_send(s->burst, &p)))
			fault = fill_run(s, &r, rest, now);
		if (fault != AV_FAULT_NONE)
			return fault;
		if (left < often && waits_for_full_send(s, &p, packets, left)) {
			if (s->burst)
				av_net_ask(s->burst);
			break;
		}
		if (!interface_room(s))
			break;
		p.ack_request |= m->head.ack_request && ((left - 1) % often == 0 || s->left == 1);
		place = r.count ? put_request_packet(s, &p) : put_carrying(s, m, &p, now);
		more = p.carries ? AV_CARRIED_BYTES : more;
		if (!place) {
			av_spans_skip(rest, p.payload_bytes);
			advance_sent_psn(s, 1, 1);
			continue;
		}
		r.carries |= p.carries;
		r.place[r.count++] = (struct iovec){place, p.payload_bytes};
		r.bytes += p.payload_bytes;
	}
	return fill_run(s, &r, rest, now);
}

static enum av_fault send_payload(struct sending *s, const struct av_wire_message *m,
				  const struct av_sq_wqe *wqe, uint32_t packets, int32_t left)
{
	struct av_spans buffers, rest;
	enum av_fault fault = av_request_buffers(s->end, wqe, 0, &buffers);

	if (fault != AV_FAULT_NONE)
		return fault;
	av_spans_copy(&rest, &buffers);
	av_spans_skip(&rest, (uint64_t)s->w->begun * s->w->mtu);
	if (s->w->begun == 0)
		s->w->source = (struct av_odp_message){0};
	av_spans_are_part(&rest, &s->w->source);
	fault = send_packets(s, m, packets, left, &rest);
	av_mem_put_list(&buffers);
	return fault;
}

/* Send what has room of the request @next. Return: has all of it been sent? */
static bool send_request(struct sending *s, const struct av_sq_wqe *wqe)
{
	struct av_wire *w = s->w;
	const struct av_packet_kind *kind = av_packet_kind(wqe->opcode);
	uint32_t packets = av_wire_packets_of(w, wqe);
	struct av_wire_message m = av_request_message(s->end, wqe, kind, NULL,
						      av_wire_begun_at(s->end, w, w->next)->first);
	struct av_spans none;
	enum av_fault fault = AV_FAULT_NONE;
	int32_t left = count_sendable_packets(s, wqe);
	uint8_t timeout = s->end->qp->attr.timeout;

	if (left <= 0)
		return false;
	av_spans_iovec(&none, NULL, NULL, 0);
	m.head.understands = w->reads_carried && (timeout == 0 || timeout >= LONG_TIMEOUT);
	m.fills = w->understood || atomic_load(&w->carries_acks);
	if (kind->operation == AV_OP_READ)
		while (w->begun < packets && send_part(s, &m, wqe, packets))
			;
	else if (m.bytes)
		fault = send_payload(s, &m, wqe, packets, left);
	else
		fault = send_packets(s, &m, 1, left, &none);
	if (fault != AV_FAULT_NONE)
		return refuse_request(s, fault);
	return w->begun >= packets;
}

/* An operation on the requester's own keys: all before it are done first. */
static bool run_local(struct sending *s, const struct av_sq_wqe *wqe)
{
	struct av_outcome result;

	if (s->w->next != s->end->qp->sq_next)
		return false;
	result = av_execute(s->end, &nobody, wqe, NULL);
	if (result.fault != AV_FAULT_NONE)
		return refuse_request(s, result.fault);
	av_finish_done(s->end, wqe);
	s->w->begun_end = s->w->next + 1;
	return true;
}

/* Return: was all of the request sent, so that the next one can be begun? */
static bool send_next_request(struct sending *s)
{
	const struct av_sq_wqe *wqe = av_sq_slot(s->end, s->w->next);
	bool local = wqe && av_wr_opcode(wqe->opcode)->local;

	if (!wqe)
		return false;
	if (local ? !run_local(s, wqe)
		  : (s->w->begun == 0 && !start_request(s, wqe)) || !send_request(s, wqe))
		return false;
	s->w->credits_used += !local && av_wr_opcode(wqe->opcode)->receives;
	s->w->next++;
	s->w->begun = 0;
	if (!local && s->end->qp->type == IBV_QPT_UC) /* nobody acknowledges it */
		av_wire_done(s->end, s->w, wqe);
	s->failed = av_wire_has_failed(s->end);
	return true;
}

void av_wire_settle(const struct av_qp_ref *end, struct av_wire *w)
{
	AV_ASSERT_HELD(&end->qp->req_lock);
	if (is_waiting(end, w))
		return;
	atomic_store(&end->qp->wait_reason, AV_WAIT_NONE);
	set_active(w, false);
}

void av_wire_flushed(const struct av_qp_ref *end)
{
	struct av_wire *w = end->qp->wire ? av_wire_at(end->seg, end->qp->index) : NULL;

	AV_ASSERT_HELD(&end->qp->req_lock);
	if (w)
		set_active(w, false);
}

bool av_wire_is_begun(const struct av_qp_ref *end)
{
	const struct av_wire *w = end->qp->wire ? av_wire_at(end->seg, end->qp->index) : NULL;

	AV_ASSERT_HELD(&end->qp->req_lock);
	return w && (int32_t)(w->begun_end - end->qp->sq_next) > 0;
}

bool av_wire_is_under_way(const struct av_qp_ref *end)
{
	struct av_wire *w = end->qp->wire ? av_wire_at(end->seg, end->qp->index) : NULL;

	/* No distance: the longest message has half of all PSNs. */
	return w && av_wire_is_begun(end) &&
	       av_wire_begun_at(end, w, end->qp->sq_next)->first != w->sent;
}

/*
 * Send what can be sent. @head: the request at the head of the queue. Singly, a request that was
 * never begun waits for those before it.
 */
static void send(struct sending *s, bool draining, uint32_t head)
{
	const struct av_qp_shared *q = s->end->qp;
	bool any = s->w->next != atomic_load(&q->sq_tail);

	if (any) {
		set_active(s->w, true);
		atomic_store_explicit(&s->w->spoke, true, memory_order_relaxed);
		/* Before what the program answers: its peer awaits both, in this order. */
		if (atomic_load(&s->w->ack_pending) && !atomic_load(&s->w->carries_acks))
			(void)av_wire_acknowledge(s->end, UINT64_MAX);
	}
	while (!s->w->waits && !s->failed &&
	       (!s->singly || s->w->next != s->w->begun_end || s->w->next == head) &&
	       s->w->next != (draining ? s->w->begun_end : atomic_load(&q->sq_tail)))
		if (!send_next_request(s))
			break;
	flush_send_burst(s);
	if (any && atomic_load(&s->w->ack_pending)) /* nothing has carried it */
		(void)av_wire_acknowledge(s->end, UINT64_MAX);
}

bool av_wire_step(const struct av_qp_ref *end, bool singly)
{
	struct av_wire *w = av_wire_at(end->seg, end->qp->index);
	struct sending s = {.end = end, .w = w, .singly = singly};
	bool draining = atomic_load(&end->qp->state) == IBV_QPS_SQD, waiting;
	uint32_t head = end->qp->sq_next;

	AV_ASSERT_HELD(&end->qp->req_lock);
	if (!w) {
		av_finish_error(end);
		return true;
	}
	if ((int32_t)(head - w->begun_end) > 0) /* a fault on demand has ended what never began */
		w->next = w->begun_end = head;
	av_wire_settle(end, w);
	if (atomic_load(&end->qp->wait_reason) != AV_WAIT_NONE &&
	    atomic_load(&end->qp->deadline_ns) <= av_now_ns() && handle_answer_timeout(&s))
		return true;
	if (draining || singly || !av_wire_gathers(end, w))
		send(&s, draining, head);
	waiting = s.full || is_waiting(end, w);
	set_active(w, waiting);
	if (!s.failed && waiting && atomic_load(&end->qp->wait_reason) == AV_WAIT_NONE)
		wait_for_turn(end, w);
	return s.failed || (draining && !waiting && !av_wire_is_under_way(end)) ||
	       (singly && end->qp->sq_next != head);
}
