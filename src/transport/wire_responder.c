/* SPDX-License-Identifier: MIT */
/*
 * The responder of a queue pair on the wire: requests that come as packets. Source: IBTA volume 1,
 * 9.7.4 (sequence), 9.7.5.1 (acknowledgements), 9.7.5.2.8 (RNR), 9.8.2 (UC), 9.9.3 (errors).
 */
#include <arpa/inet.h>

#include "transport/execution.h"
#include "transport/transport.h"

#define PAYS	   2	  /* answers in a row after which an acknowledgement waits for the next, */
#define PAYS_NOT   (-62)  /* and how many more after it has waited in vain, */
#define ANSWER_NS  50000u /* so long */
#define READ_STEPS 4u	  /* of one turn: who waits behind a READ waits for half a megabyte */

/* A request packet, at its responder, whose @resp_lock is held. */
struct arrival {
	const struct av_qp_ref *end;
	struct av_wire *w;
	const struct av_net_packet *next, *behind; /* those that came with it, and are left */
	struct av_net_burst *answers;		   /* of all of them; NULL: none, or no memory */
	const struct av_packet *p;
	const struct av_opcode *info;
	struct av_sq_wqe head;
	struct av_fragment fragment;
	struct av_outcome outcome;
	struct av_events events;
};

/* --- answers --------------------------------------------------------------------- */

static struct av_wire_message wire_answer(const struct arrival *a, enum av_operation operation)
{
	struct av_wire_message m =
		av_answer_message(a->end->qp, a->end->qp->type, a->end->qp->attr.path_mtu,
				  a->end->qp->attr.dest_qp_num);

	m.operation = operation;
	m.head.understands = a->w->reads_carried;
	m.fills = atomic_load_explicit(&a->w->carries_acks, memory_order_relaxed);
	return m;
}

/* Where the payload of answer @p goes. NULL: no memory; it is lost. */
static uint8_t *put_answer_packet(struct arrival *a, const struct av_packet *p)
{
	if (!a->answers)
		a->answers = av_net_burst(&a->w->route.path, a->end->seg->head->device);
	return a->answers ? av_net_put(a->answers, p) : NULL;
}

static void send_answers(struct arrival *a)
{
	if (a->answers)
		(void)av_net_send(a->answers);
	a->answers = NULL;
}

/*
 * An answer without payload. What says how far this side has come leaves before it comes further.
 * @syndrome: AV_SYNDROME_ACK: with credits in it
 */
static void answer(struct arrival *a, enum av_operation operation, uint32_t psn, uint8_t syndrome,
		   uint64_t original)
{
	struct av_wire_message m = wire_answer(a, operation);
	struct av_packet p;

	m.head.psn = psn & AV_PSN_MASK;
	m.head.syndrome = syndrome == AV_SYNDROME_ACK ? av_wire_credits(a->end) : syndrome;
	m.head.original = original;
	if (av_wire_packet(&m, 0, &p) >= 0)
		(void)put_answer_packet(a, &p);
	if (operation == AV_OP_ACK)
		send_answers(a);
	/*
	 * A refusal acknowledges all before it, and there are no credits to tell. That of a
	 * duplicate leaves what came since.
	 */
	if (syndrome != AV_SYNDROME_ACK && syndrome != AV_NAK_SEQUENCE && !a->fragment.again)
		atomic_store(&a->w->ack_pending, false);
}

/* The newest one: PSNs come again. */
static void send_kept(struct arrival *a)
{
	for (uint32_t i = 1; i <= AV_MAX_RD_ATOM; i++) {
		const struct av_wire_answer *k = &a->w->kept[(a->w->answered - i) % AV_MAX_RD_ATOM];

		if (k->there && k->psn == a->p->psn) {
			answer(a, k->atomic ? AV_OP_ATOMIC_ACK : AV_OP_READ_RESPONSE, k->psn,
			       AV_SYNDROME_ACK, k->original);
			return;
		}
	}
}

/* Acknowledge all before @expected_psn, if owed or @anyway. Context: @resp_lock is held. */
static void send_owed(const struct av_qp_ref *end, bool anyway)
{
	struct arrival a = {.end = end, .w = av_wire_at(end->seg, end->qp->index)};

	AV_ASSERT_HELD(&end->qp->resp_lock);
	if (!a.w || a.w->service == AV_SERVICE_UC || !(anyway || atomic_load(&a.w->ack_pending)))
		return;
	answer(&a, AV_OP_ACK, end->qp->expected_psn - 1, AV_SYNDROME_ACK, 0);
	atomic_store(&a.w->ack_pending, false);
}

uint64_t av_wire_due(struct av_wire *w, uint64_t now_ns)
{
	if (now_ns == UINT64_MAX)
		return 0;
	if (!w->due_ns || w->due_ns > now_ns)
		return w->due_ns;
	w->pays = PAYS_NOT;
	return w->due_ns = 0;
}

uint64_t av_wire_acknowledge(const struct av_qp_ref *end, uint64_t now_ns)
{
	struct av_wire *w;
	uint64_t due;

	if (!av_responder_acquire_soon(end))
		return 0;
	w = av_wire_at(end->seg, end->qp->index);
	due = w && atomic_load(&w->ack_pending) ? av_wire_due(w, now_ns) : 0;
	if (!due)
		send_owed(end, false);
	av_lock_release(&end->qp->resp_lock);
	return due ? due : UINT64_MAX;
}

void av_wire_tell_credits(const struct av_qp_ref *end)
{
	if (!av_responder_acquire(end))
		return;
	send_owed(end, true);
	av_lock_release(&end->qp->resp_lock);
}

/* --- the request as it would be in a ring ---------------------------------------- */

static void fill_arrival_wqe(struct arrival *a)
{
	const struct av_packet *p = a->p;
	struct av_sq_wqe *h = &a->head;

	*h = (struct av_sq_wqe){
		.opcode = av_packet_wr_opcode(a->info),
		.flags = p->solicited ? IBV_SEND_SOLICITED : 0,
		.imm = a->info->tail == AV_TAIL_INVALIDATE ? p->invalidate : htonl(p->imm),
		.bytes = p->payload_bytes,
		.remote_addr = p->addr,
		.rkey = p->rkey,
		.srqn = p->srqn,
	};
	switch ((enum av_operation)a->info->operation) {
	case AV_OP_CMP_SWAP:
		h->compare_add = p->compare;
		h->swap = p->swap_add;
		h->bytes = sizeof(uint64_t);
		break;
	case AV_OP_FETCH_ADD:
		h->compare_add = p->swap_add;
		h->bytes = sizeof(uint64_t);
		break;
	case AV_OP_FLUSH:
		h->compare_add = p->length;
		h->placement = p->placement;
		h->selectivity = p->selectivity;
		break;
	default:
		break;
	}
}

/* --- messages in fragments ---------------------------------------------------------- */

static bool starts_message(const struct arrival *a)
{
	return a->info->place == AV_PLACE_FIRST || a->info->place == AV_PLACE_ONLY;
}

static bool ends(const struct arrival *a)
{
	return a->info->place == AV_PLACE_LAST || a->info->place == AV_PLACE_ONLY;
}

/* Does the packet go on with what has come so far, and has it the length that it must have? */
static bool is_in_order(const struct arrival *a)
{
	const struct av_wire_coming *c = &a->w->coming;
	uint32_t bytes = av_wire_payload_bytes(a->w, a->p), mtu = a->w->mtu;

	if (starts_message(a) == c->begun)
		return false;
	/* It goes on with the same operation, at the same shared queue, if XRC names one. */
	if (c->begun &&
	    (c->operation != (enum av_operation)a->info->operation ||
	     (a->w->service == AV_SERVICE_XRC && a->p->srqn != a->end->qp->receiving_srqn)))
		return false;
	if (ends(a) ? bytes > mtu || (!starts_message(a) && bytes == 0) : bytes != mtu)
		return false;
	if (a->info->operation != AV_OP_WRITE)
		return true;
	if (starts_message(a))
		return ends(a) ? a->p->length == bytes
			       : a->p->length > bytes && a->p->length <= AV_WIRE_MESSAGE_MAX;
	return ends(a) ? c->received + bytes == c->announced : c->received + bytes < c->announced;
}

static bool has_fragments(const struct arrival *a)
{
	return a->info->operation == AV_OP_SEND || a->info->operation == AV_OP_WRITE;
}

/* Does a request of one packet announce the bytes that it may? */
static bool announces_rightly(const struct arrival *a)
{
	if (a->info->operation == AV_OP_READ)
		return a->p->length <= AV_WIRE_MESSAGE_MAX;
	return a->info->operation != AV_OP_ATOMIC_WRITE || a->p->length == a->p->payload_bytes;
}

/* Where the fragment belongs in its message. */
static void locate_fragment(struct arrival *a, const struct iovec *payload)
{
	const struct av_wire_coming *c = &a->w->coming;
	bool first = starts_message(a);

	a->fragment = (struct av_fragment){
		.payload = payload,
		.before = first ? 0 : c->received,
		.whole = first && a->info->operation == AV_OP_WRITE ? a->p->length : 0,
		.message = &a->w->target,
	};
	if (first) {
		a->w->target = (struct av_odp_message){0};
	} else {
		a->head.remote_addr = c->addr + c->received;
		a->head.rkey = c->rkey;
	}
	a->head.bytes = 0;
}

/* Append the packet's payload to the fragment. */
static void add_payload(struct arrival *a, struct iovec *payload)
{
	struct av_wire_coming *c = &a->w->coming;
	uint32_t bytes = av_wire_payload_bytes(a->w, a->p);

	if (starts_message(a))
		*c = (struct av_wire_coming){
			.operation = (enum av_operation)a->info->operation,
			.addr = a->p->addr,
			.rkey = a->p->rkey,
			.announced = a->p->length,
		};
	payload[a->fragment.payloads++] = (struct iovec){(void *)(uintptr_t)a->p->payload, bytes};
	a->head.bytes += bytes;
	a->head.flags |= a->p->solicited ? IBV_SEND_SOLICITED : 0;
	a->fragment.more = c->begun = !ends(a);
	c->received += bytes;
}

/* Turn to the next packet, if it goes on with this one's message, and is of the same request. */
static bool take_next(struct arrival *a)
{
	const struct av_packet *p = a->p;
	const struct av_opcode *info = a->info;

	if (ends(a) || a->fragment.payloads == AV_MAX_SGE || a->next == a->behind)
		return false;
	a->p = &a->next->packet;
	a->info = av_opcode_info(a->p->opcode);
	if (a->p->psn == AV_PSN_AFTER(p->psn, 1) && is_in_order(a) &&
	    av_packet_wr_opcode(a->info) == a->head.opcode && av_wire_is_peer(a->end, a->next)) {
		a->next++;
		return true;
	}
	a->p = p;
	a->info = info;
	return false;
}

/* --- execution ------------------------------------------------------------------- */

/* Execute the fragment. Return: done; else it is to be refused, or has to come again. */
static bool execute_arrived_fragment(struct arrival *a)
{
	struct av_events events;
	bool done;

	a->fragment.refused = a->w->not_ready;
	a->outcome = av_execute_fragment(a->end, &a->head, &a->fragment, &events);
	if (events.count)
		a->events = events;
	a->w->not_ready = a->outcome.wait_reason == AV_WAIT_RNR;
	if (a->w->not_ready)
		a->w->nak_sent = true; /* those behind it will come again, too */
	done = a->outcome.wait_reason == AV_WAIT_NONE && a->outcome.fault == AV_FAULT_NONE;
	if (!done || a->outcome.lost)
		av_diag_drop(); /* it was for the requester's record, too, made elsewhere */
	return done;
}

/* What the requester hears of a fragment that was not done. Return: a syndrome; AV_NAK_NONE */
static uint8_t fragment_nak_syndrome(const struct arrival *a)
{
	return a->w->service == AV_SERVICE_UC ? AV_NAK_NONE : av_nak_syndrome(&a->outcome);
}

static bool execute_or_nak(struct arrival *a)
{
	bool done = execute_arrived_fragment(a);
	uint8_t syndrome = done ? AV_NAK_NONE : fragment_nak_syndrome(a);

	if (syndrome != AV_NAK_NONE)
		answer(a, AV_OP_ACK, a->end->qp->expected_psn, syndrome, 0);
	return done;
}

/*
 * Until when its acknowledgement may wait for what the program sends; 0: not. Of a stream, messages
 * that come in several parts or one behind another, none waits.
 */
static uint64_t answer_due(const struct arrival *a)
{
	struct av_wire *w = a->w;

	if (a->fragment.before == 0 && ends(a) && !atomic_load(&w->ack_pending) &&
	    atomic_exchange(&w->spoke, false))
		w->pays = (int8_t)(w->pays + (w->pays < PAYS));
	else if (w->pays > 0)
		w->pays = 0;
	return w->pays == PAYS && atomic_load(&w->carries_acks) ? av_now_ns() + ANSWER_NS : 0;
}

/* Execute the packet, and those right behind it that go on with its message, as one fragment. */
static void execute_payload(struct arrival *a)
{
	struct av_wire_coming before = a->w->coming;
	struct iovec payload[AV_MAX_SGE];
	bool asked = false;

	locate_fragment(a, payload);
	do {
		add_payload(a, payload);
		asked |= a->p->ack_request;
	} while (take_next(a));
	/* Before the program hears of the message: its answer takes the acknowledgement along. */
	if (asked || ends(a))
		av_wire_owe(a->end, a->w, answer_due(a));
	if (!execute_or_nak(a))
		a->w->coming = before;
}

/*
 * Put the next packets of a READ's answer, which are sent together, and read the payload of all
 * into them at once. Return: false: they have no memory, or are refused
 */
static bool put_read_run(struct arrival *a, const struct av_wire_message *m, uint32_t until)
{
	uint32_t next = a->w->read.next, n = 0;
	int32_t again = av_psn_distance(a->p->psn + next, a->end->qp->expected_psn);
	uint64_t before = (uint64_t)next * a->w->mtu;
	struct iovec place[AV_MAX_SGE];
	struct av_packet p;

	if (again > 0 && (uint32_t)again < until - next) /* only those that were sent before */
		until = next + (uint32_t)again;
	a->head.bytes = 0;
	for (; n < AV_MAX_SGE && next + n < until; n++) {
		(void)av_wire_packet(m, next + n, &p);
		if (n > 0 && av_net_begins_send(a->answers, &p))
			break;
		place[n] = (struct iovec){put_answer_packet(a, &p), p.payload_bytes};
		if (!place[n].iov_base)
			return false;
		a->head.bytes += p.payload_bytes;
	}
	a->head.remote_addr = a->p->addr + before;
	a->fragment = (struct av_fragment){
		.payload = place,
		.payloads = n,
		.message = &a->w->read.source,
		.before = before,
		.whole = next == 0 ? a->p->length : 0,
		.more = a->p->length > before + a->head.bytes,
		.again = again > 0,
	};
	if (execute_arrived_fragment(a)) {
		a->w->read.next += n;
		return true;
	}
	/* Behind what was read before, and instead of these packets. */
	av_net_take_back(a->answers, n);
	if (fragment_nak_syndrome(a) != AV_NAK_NONE)
		answer(a, AV_OP_ACK, a->p->psn + next, fragment_nak_syndrome(a), 0);
	return false;
}

/* Put packets until the answer is given, or refused, or @until is the next one. */
static void put_read_responses(struct arrival *a, uint32_t until)
{
	struct av_wire_message m = wire_answer(a, AV_OP_READ_RESPONSE);
	struct av_wire_read *r = &a->w->read;
	uint32_t end = AV_PSN_AFTER(a->p->psn, r->packets);

	m.bytes = a->p->length;
	m.head.psn = a->p->psn;
	m.head.msn = AV_PSN_AFTER(m.head.msn, av_psn_distance(a->end->qp->expected_psn, end) > 0);
	m.head.syndrome = av_wire_credits(a->end);
	while (r->next < until)
		if (!put_read_run(a, &m, until))
			r->next = r->packets;
}

/* The sending end of XRC has no responder: nobody answers. Context: @resp_lock is held */
static bool answers(const struct av_qp_ref *end)
{
	uint32_t state = atomic_load(&end->qp->state);

	return AV_RESPONDER_ANSWERS(state) && end->qp->type != IBV_QPT_XRC_SEND;
}

/*
 * Answer for one turn. A long answer waits for others, and for the interface to have room. The
 * timer gives it its next turn. Return: when that is; UINT64_MAX: it has been given
 */
static uint64_t answer_read(struct arrival *a)
{
	uint32_t step = av_net_room(a->w->mtu);
	struct av_wire_read *r = &a->w->read;
	bool room = true;

	for (uint32_t i = 0; i < READ_STEPS && r->next < r->packets && room; i++) {
		uint32_t left = r->packets - r->next;

		room = r->packets == 1 || av_net_has_room(&a->w->route.path);
		if (room)
			put_read_responses(a, r->next + (left < step ? left : step));
	}
	atomic_store(&a->end->qp->reading, r->next < r->packets);
	if (r->next < r->packets)
		return av_now_ns() +
		       (room ? 0 : av_retry_limits_of(&a->end->qp->attr, AV_WAIT_FULL).interval_ns);
	if (r->dropped && answers(a->end)) { /* what came meanwhile has to come again */
		r->dropped = false;
		a->w->nak_sent = true;
		answer(a, AV_OP_ACK, a->end->qp->expected_psn, AV_NAK_SEQUENCE, 0);
	}
	return UINT64_MAX;
}

static void execute_read(struct arrival *a)
{
	struct av_wire *w = a->w;
	uint64_t next;

	w->read = (struct av_wire_read){.request = *a->p,
					.packets = av_wire_packets(a->p->length, w->mtu),
					.dropped = w->read.dropped};
	next = answer_read(a);
	if (next != UINT64_MAX)
		av_timer_arm(a->end, next);
}

static void execute_word(struct arrival *a)
{
	bool write = a->info->operation == AV_OP_ATOMIC_WRITE;
	bool atomic = !write && a->info->operation != AV_OP_FLUSH;
	uint64_t original = 0;
	struct iovec word = {write ? (void *)(uintptr_t)a->p->payload : (void *)&original,
			     sizeof(original)};

	a->fragment = (struct av_fragment){.payload = &word, .payloads = 1};
	if (!execute_or_nak(a))
		return;
	a->w->kept[a->w->answered++ % AV_MAX_RD_ATOM] = (struct av_wire_answer){
		.there = true, .psn = a->p->psn, .atomic = atomic, .original = original};
	answer(a, atomic ? AV_OP_ATOMIC_ACK : AV_OP_READ_RESPONSE, a->p->psn, AV_SYNDROME_ACK,
	       original);
}

static void execute_request(struct arrival *a)
{
	if (has_fragments(a) ? !is_in_order(a) : a->w->coming.begun || !announces_rightly(a)) {
		av_diag_note(AV_CHECK_PACKET_ORDER, a->info->place, a->p->payload_bytes);
		a->head.opcode = UINT32_MAX; /* no operation: refused as an invalid request */
		(void)execute_or_nak(a);
	} else if (has_fragments(a)) {
		execute_payload(a);
	} else if (a->info->operation == AV_OP_READ) {
		execute_read(a);
	} else {
		execute_word(a);
	}
}

/* --- sequence -------------------------------------------------------------------- */

static void repeat(struct arrival *a)
{
	if (has_fragments(a))
		av_wire_owe(a->end, a->w, 0);
	else if (a->info->operation != AV_OP_READ)
		send_kept(a);
	else if (announces_rightly(a))
		execute_read(a);
}

/*
 * Is it dropped, since the answer to a READ before it is not given yet? The same READ once more, or
 * one before it, is not: its requester misses a part.
 */
static bool comes_too_early(struct arrival *a, int32_t ahead)
{
	struct av_wire_read *r = &a->w->read;
	uint32_t end = AV_PSN_AFTER(r->request.psn, r->packets);
	bool again = ahead <= 0 && a->info->operation == AV_OP_READ &&
		     av_psn_distance(end, a->p->psn) < 0;

	if (r->next == r->packets || again)
		return false;
	r->dropped = true;
	return true;
}

static void reliable(struct arrival *a)
{
	int32_t ahead = av_psn_distance(a->end->qp->expected_psn, a->p->psn);

	if (comes_too_early(a, ahead))
		return;
	if (ahead != 0)
		av_count_rsp(a->end->qp, ahead > 0 ? AV_RSP_AHEAD : AV_RSP_DUPLICATE);
	if (ahead > 0 && !a->w->nak_sent) {
		a->w->nak_sent = true;
		answer(a, AV_OP_ACK, a->end->qp->expected_psn, AV_NAK_SEQUENCE, 0);
	}
	if (ahead < 0)
		repeat(a);
	if (ahead != 0)
		return;
	a->w->nak_sent = false;
	atomic_store_explicit(&a->w->carries_acks, a->p->understands && a->w->reads_carried,
			      memory_order_relaxed);
	execute_request(a);
}

/* A message with a gap is dropped as a whole. The next one begins with the next First or Only. */
static void drop_message(struct arrival *a)
{
	struct av_receiver to = av_receiver_of(a->end);

	if (a->w->coming.begun)
		av_count_rsp(a->end->qp, AV_RSP_DROPPED);
	a->w->coming.begun = false;
	if (a->end->qp->receiving)
		av_receive_cancel(&to);
}

static void unreliable(struct arrival *a)
{
	bool gap = a->p->psn != a->end->qp->expected_psn;

	if (gap || (starts_message(a) && a->w->coming.begun))
		drop_message(a);
	if (!starts_message(a) && !a->w->coming.begun)
		return;
	a->end->qp->expected_psn = a->p->psn;
	if (!has_fragments(a) || !is_in_order(a)) {
		drop_message(a);
		return;
	}
	execute_payload(a);
	if (a->outcome.lost)
		a->w->coming.begun = false;
}

/* @qpn: of the queue pair, when its @resp_lock was taken */
static void release_responder(struct arrival *a, uint32_t qpn)
{
	send_answers(a);
	av_lock_release(&a->end->qp->resp_lock);
	av_events_raise(a->end, qpn, &a->events);
	if (a->outcome.responder_failed)
		av_sq_progress(a->end, NULL); /* flush its own send queue */
}

/* Handle packets until an event is to be raised. Return: false: the queue pair is not to be had */
static bool handle_requests(struct arrival *a)
{
	uint32_t qpn;

	if (!av_responder_acquire(a->end))
		return false;
	a->w = av_wire_at(a->end->seg, a->end->qp->index); /* by now: it may have ended */
	qpn = atomic_load(&a->end->qp->qpn);
	while (a->next < a->behind && !a->events.count && !a->outcome.responder_failed) {
		const struct av_net_packet *packet = a->next++;

		if (!a->w || !av_wire_is_peer(a->end, packet) || !answers(a->end))
			continue;
		a->p = &packet->packet;
		a->info = av_opcode_info(a->p->opcode);
		fill_arrival_wqe(a);
		if (a->w->service == AV_SERVICE_UC)
			unreliable(a);
		else
			reliable(a);
	}
	release_responder(a, qpn);
	return true;
}

void av_wire_requested(const struct av_qp_ref *end, const struct av_net_packet *packet,
		       unsigned int count)
{
	struct arrival a = {.end = end, .next = packet, .behind = packet + count};

	while (a.next < a.behind) {
		if (!handle_requests(&a))
			a.next++;
		a.outcome = (struct av_outcome){0};
		a.events.count = 0;
	}
}

uint64_t av_wire_read_on(const struct av_qp_ref *end)
{
	struct arrival a = {.end = end};
	uint64_t next = UINT64_MAX;
	uint32_t qpn;

	if (!atomic_load(&end->qp->reading) || !av_responder_acquire(end))
		return UINT64_MAX;
	a.w = av_wire_at(end->seg, end->qp->index);
	qpn = atomic_load(&end->qp->qpn);
	if (a.w && answers(end) && a.w->read.next < a.w->read.packets) {
		a.p = &a.w->read.request;
		a.info = av_opcode_info(a.p->opcode);
		fill_arrival_wqe(&a);
		next = answer_read(&a);
	} else {
		atomic_store(&end->qp->reading, false);
	}
	release_responder(&a, qpn);
	return next;
}
