/* SPDX-License-Identifier: MIT */
/*
 * Answers to a requester on the wire. Source: IBTA volume 1, 9.7.5.1 (acknowledgements), 9.7.5.2
 * (NAKs, RNR), 9.4.4 (RDMA READ responses), 9.4.5 (atomics).
 */
#include "transport/execution.h"
#include "transport/transport.h"

#define SYNDROME_KIND 0xe0
#define SYNDROME_CODE 0x1f
#define KIND_ACK      0x00
#define KIND_RNR_NAK  0x20
#define KIND_NAK      0x60

/* An answer, at its requester. */
struct answer {
	const struct av_qp_ref *end;
	struct av_wire *w;
	const struct av_packet *p;
	const struct av_net_packet *next, *behind; /* those that came with it, and are left */
	bool acknowledges;			   /* it has a syndrome */
};

void av_wire_done(const struct av_qp_ref *end, struct av_wire *w, const struct av_sq_wqe *wqe)
{
	uint32_t kind = av_wr_opcode(wqe->opcode)->traffic;

	av_traffic_count(&end->qp->counters.req.traffic, kind, wqe->bytes,
			 av_wire_packets_of(w, wqe));
	w->credits_acked += av_wr_opcode(wqe->opcode)->receives;
	av_finish_done(end, wqe);
}

/* Turn to a packet. */
static void turn_to(struct answer *a, const struct av_packet *p)
{
	a->p = p;
	a->acknowledges = av_opcode_info(p->opcode)->headers & 1 << AV_HEADER_AETH;
}

static bool is_refusal(const struct answer *a)
{
	return a->acknowledges && (a->p->syndrome & SYNDROME_KIND) != KIND_ACK;
}

/* The request at the head, which has been begun, and its first PSN. NULL: there is none. */
static const struct av_sq_wqe *head(const struct answer *a, uint32_t *first)
{
	uint32_t request = a->end->qp->sq_next;

	if (request == a->w->begun_end || av_wire_has_failed(a->end))
		return NULL;
	*first = av_wire_begun_at(a->end, a->w, request)->first;
	return av_sq_slot(a->end, request);
}

void av_wire_rewind(const struct av_qp_ref *end, struct av_wire *w, uint32_t psn)
{
	uint32_t request;

	AV_ASSERT_HELD(&end->qp->req_lock);
	w->credits_used = w->credits_acked;
	for (request = end->qp->sq_next; request != w->begun_end; request++) {
		const struct av_sq_wqe *wqe = av_sq_slot(end, request);
		int32_t distance = av_psn_distance(av_wire_begun_at(end, w, request)->first, psn);

		if (!wqe || distance < (int32_t)av_wire_packets_of(w, wqe)) {
			w->begun = distance > 0 ? (uint32_t)distance : 0;
			break;
		}
		w->credits_used += av_wr_opcode(wqe->opcode)->receives;
	}
	if (request == w->begun_end)
		w->begun = 0;
	w->next = request;
	end->qp->next_psn = psn;
}

/* What was to be repeated has arrived meanwhile: go on behind it. */
static void skip_acked_repeats(const struct answer *a)
{
	if (av_psn_distance(a->end->qp->next_psn, a->w->acked) > 0)
		av_wire_rewind(a->end, a->w, a->w->acked);
}

/*
 * Everything before @psn has been acknowledged, by whatever answers a later packet. But a request
 * that wants an answer of its own is not done without it.
 * Return: is all of it done? Else answers have been lost, or the queue pair has failed
 */
static bool acknowledged(const struct answer *a, uint32_t psn)
{
	struct av_wire *w = a->w;
	const struct av_sq_wqe *wqe;
	uint32_t first, requests = 0;

	while (av_psn_distance(w->acked, psn) > 0 && (wqe = head(a, &first))) {
		uint32_t end = AV_PSN_AFTER(first, av_wire_packets_of(w, wqe));

		if (av_wr_opcode(wqe->opcode)->answered)
			return false;
		if (requests++ == 0)
			av_wire_progress(a->end, w, true);
		if (av_psn_distance(end, psn) < 0) {
			w->acked = psn;
			break;
		}
		w->acked = end;
		av_wire_done(a->end, a->w, wqe);
	}
	skip_acked_repeats(a);
	return !av_wire_has_failed(a->end);
}

/*
 * Something is missing here or at the responder: send again, once until there is progress. Whatever
 * says so again may be a duplicate, or older than the repetition. If that is lost, too, the answer
 * times out. Return: it is sent again
 */
static bool go_back(const struct answer *a)
{
	if (a->w->repeated)
		return false;
	av_wire_rewind(a->end, a->w, a->w->acked);
	av_window_lost(a->w->route.window);
	a->w->repeated = true;
	return true;
}

/* An answer before this one is missing. */
static void gap(const struct answer *a)
{
	if (!av_wire_has_failed(a->end) && go_back(a))
		av_count_req(a->end->qp, AV_REQ_ANSWER_LOST);
}

/* --- refusals -------------------------------------------------------------------- */

static void receiver_not_ready(const struct answer *a)
{
	enum av_fault fault = av_retry_count(a->end, AV_WAIT_RNR, AV_TRY);
	struct av_wire *w = a->w;

	if (fault != AV_FAULT_NONE) {
		av_wire_fail_head(a->end, fault);
		return;
	}
	av_wire_rewind(a->end, w, w->acked);
	w->credit_limit = w->credits_acked;
	w->waits = true;
	av_sq_wait_until(a->end, AV_WAIT_NO_ANSWER,
			 av_now_ns() + av_rnr_timer_ns(a->p->syndrome & SYNDROME_CODE));
}

static void handle_nak(const struct answer *a, uint8_t nak)
{
	int fault = AV_FAULT_NONE + 1;

	if (nak == AV_NAK_SEQUENCE) {
		av_count_req(a->end->qp, AV_REQ_SEQUENCE_NAK);
		if (!a->w->waits)
			(void)go_back(a);
		return;
	}
	while (fault < AV_FAULT_N && av_fault_effects((enum av_fault)fault)->nak != nak)
		fault++;
	if (fault == AV_FAULT_N || nak == AV_NAK_NONE)
		return;
	av_diag_note(AV_CHECK_PEER_REFUSED, nak, 0);
	av_wire_fail_head(a->end, (enum av_fault)fault);
}

static void acknowledgement(const struct answer *a)
{
	uint8_t kind = a->p->syndrome & SYNDROME_KIND;

	if (kind != KIND_ACK && kind != KIND_RNR_NAK && kind != KIND_NAK)
		return;
	if (!acknowledged(a, AV_PSN_AFTER(a->p->psn, kind == KIND_ACK)))
		gap(a);
	else if (kind == KIND_NAK)
		handle_nak(a, a->p->syndrome);
	else if (kind == KIND_RNR_NAK && a->w->acked == a->p->psn && !a->w->waits)
		receiver_not_ready(a);
}

/* --- results --------------------------------------------------------------------- */

/* Copy a result to the request's buffers, @before bytes from their beginning. */
static enum av_fault place(const struct answer *a, const struct av_sq_wqe *wqe, uint64_t before,
			   const struct iovec *bytes, uint32_t count)
{
	struct av_spans buffers, rest, from;
	enum av_fault moved;

	if (bytes->iov_len == 0)
		return AV_FAULT_NONE;
	if (av_request_buffers(a->end, wqe, IBV_ACCESS_LOCAL_WRITE, &buffers) != AV_FAULT_NONE)
		return AV_FAULT_LOC_PROT;
	av_spans_copy(&rest, &buffers);
	av_spans_skip(&rest, before);
	if (before == 0)
		a->w->result = (struct av_odp_message){0};
	av_spans_are_part(&rest, &a->w->result);
	av_spans_iovec(&from, NULL, bytes, count);
	moved = av_xfer_copy_part(&rest, &from, from.bytes, av_now_coarse_ns());
	av_mem_put_list(&buffers);
	return moved == AV_FAULT_NONE ? AV_FAULT_NONE : AV_FAULT_LOC_PROT;
}

/* Has a packet of the answer, behind so much of it, the length that it must have? */
static bool has_answer_length(const struct answer *a, const struct av_packet *p,
			      const struct av_sq_wqe *wqe, uint64_t before)
{
	uint64_t left = wqe->opcode == IBV_WR_RDMA_READ ? wqe->bytes - before : 0;

	return av_wire_payload_bytes(a->w, p) == (left < a->w->mtu ? left : a->w->mtu);
}

/* Turn to the next packet, if it goes on with the answer to a READ, of which @before has come. */
static bool take_more(struct answer *a, const struct av_sq_wqe *wqe, uint64_t before)
{
	const struct av_packet *p = a->next < a->behind ? &a->next->packet : NULL;

	if (!p || before >= wqe->bytes || p->psn != AV_PSN_AFTER(a->p->psn, 1) ||
	    av_psn_distance(p->psn, a->w->sent) <= 0 || wqe->opcode != IBV_WR_RDMA_READ ||
	    av_opcode_info(p->opcode)->operation != AV_OP_READ_RESPONSE ||
	    (p->syndrome & SYNDROME_KIND) != KIND_ACK || !has_answer_length(a, p, wqe, before) ||
	    !av_wire_is_peer(a->end, a->next))
		return false;
	turn_to(a, p);
	a->next++;
	return true;
}

static void result(struct answer *a, const void *bytes, uint32_t length)
{
	const enum av_operation operation = av_opcode_info(a->p->opcode)->operation;
	const struct av_packet_kind *kind;
	struct iovec run[AV_MAX_SGE];
	const struct av_sq_wqe *wqe;
	struct av_wire *w = a->w;
	bool acknowledges = a->acknowledges;
	uint64_t before, sum = length;
	enum av_fault fault;
	uint32_t first, n = 1;

	if (!acknowledged(a, a->p->psn) || w->acked != a->p->psn) {
		gap(a);
		return;
	}
	wqe = head(a, &first);
	kind = wqe ? av_packet_kind(wqe->opcode) : NULL;
	if (!kind || kind->answer != operation)
		return;
	before = (uint64_t)(uint32_t)av_psn_distance(first, a->p->psn) * w->mtu;
	if (av_wire_payload_bytes(w, a->p) != length ? length != wqe->bytes
						     : !has_answer_length(a, a->p, wqe, before)) {
		w->obstacle = -EBADMSG;
		return;
	}
	run[0] = (struct iovec){(void *)(uintptr_t)bytes, length};
	for (; n < AV_MAX_SGE && take_more(a, wqe, before + sum); n++) {
		run[n] = (struct iovec){(void *)(uintptr_t)a->p->payload,
					av_wire_payload_bytes(w, a->p)};
		sum += run[n].iov_len;
		acknowledges |= a->acknowledges;
	}
	fault = place(a, wqe, before, run, n);
	if (fault != AV_FAULT_NONE) {
		av_wire_fail_head(a->end, fault);
		return;
	}
	/* Of a long answer, its first packet and its last acknowledge. */
	av_wire_progress(a->end, w, acknowledges);
	w->acked = AV_PSN_AFTER(w->acked, n);
	if (w->acked == AV_PSN_AFTER(first, av_wire_packets_of(w, wqe)))
		av_wire_done(a->end, a->w, wqe);
	skip_acked_repeats(a);
}

static void handle_answer(struct answer *a, const struct av_opcode *info)
{
	if (info->operation == AV_OP_ACK)
		acknowledgement(a);
	else if (is_refusal(a))
		return; /* a result refuses nothing */
	else if (info->operation == AV_OP_ATOMIC_ACK)
		result(a, &a->p->original, sizeof(a->p->original));
	else
		result(a, a->p->payload, av_wire_payload_bytes(a->w, a->p));
}

/* How many receive requests the responder has. Who waits for one does not sleep the time out. */
static void credits(const struct answer *a)
{
	uint8_t code = a->p->syndrome & SYNDROME_CODE;

	if (!a->acknowledges || is_refusal(a))
		return;
	/* It had executed all acknowledged messages before: the number counts from there. */
	a->w->credit_limit = a->w->credits_acked + av_credits_of(code);
	if (a->w->waits && code != 0 && code != AV_CREDITS_NONE_CODE)
		atomic_store(&a->end->qp->deadline_ns, 0);
}

/* @carried: it came in a request packet. */
static void take(struct answer *a, const struct av_net_packet *packet, bool carried)
{
	const struct av_opcode *info = av_opcode_info(a->p->opcode);
	uint32_t state = atomic_load(&a->end->qp->state);
	int32_t ahead;
	bool due;

	if (!a->w || !av_wire_is_peer(a->end, packet) || (carried && !a->w->reads_carried))
		return;
	if (!carried)
		a->w->understood = a->w->reads_carried && a->p->understands;
	if (state != IBV_QPS_RTS && state != IBV_QPS_SQD)
		return;
	/* What answers nothing that is under way is late. */
	ahead = av_psn_distance(a->w->acked, a->p->psn);
	due = ahead >= 0 && ahead < av_psn_distance(a->w->acked, a->w->sent);
	if (due)
		handle_answer(a, info);
	/* The last one once more acknowledges nothing. */
	if (due || ahead == -1)
		credits(a);
	if (due)
		av_wire_settle(a->end, a->w);
}

void av_wire_answered(const struct av_qp_ref *end, const struct av_net_packet *packet,
		      unsigned int count, const struct av_packet *carried)
{
	struct answer a = {.end = end, .next = packet, .behind = packet + count};
	struct av_qp_ref none = {0};

	av_lock_acquire_plain(&end->qp->req_lock, AV_RANK_REQUESTER);
	a.w = av_wire_at(end->seg, end->qp->index); /* by now: it may have ended */
	while (a.next < a.behind) {
		packet = a.next++;
		turn_to(&a, carried ? carried : &packet->packet);
		take(&a, packet, carried);
	}
	av_sq_progress_entered(end, &none, true);
}
