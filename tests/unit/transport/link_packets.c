/* SPDX-License-Identifier: MIT */
/* Are these the packets that the specification wants of the exchange? */
#include <stddef.h>

#include "unit/transport/link_parts.h"

#include "transport/outcome.h"
#include "wire/packet.h"

#define NO_CODE 0x1fu

void (*link_on_sent)(const struct link_packet *p);
void (*link_on_arrival)(const struct link_arrival *a);

/* --- packets ---------------------------------------------------------------------- */

/* Payload of request @r, from its packet @index on. */
static void check_payload(const struct av_packet *p, unsigned int r, uint32_t index)
{
	uint32_t before = index * link_mtu(), left = link_bytes_of(r) - before;

	MUST_BE(p->payload_bytes, left < link_mtu() ? left : link_mtu());
	for (uint32_t i = 0; i < p->payload_bytes; i++)
		MUST_BE(p->payload[i], link_pattern(r, before + i));
}

/* The extended headers of a request. */
static void check_target(const struct av_packet *p, unsigned int r, uint32_t index,
			 uint16_t headers)
{
	const struct link_request *q = &link_now->request[r];
	uint32_t before = q->opcode == IBV_WR_RDMA_READ ? index * link_mtu() : 0;

	if (headers & (1 << AV_HEADER_RETH | 1 << AV_HEADER_ATOMIC_ETH)) {
		MUST_BE(p->addr, link_address_of(!q->from, link_known[r].there.at + before));
		MUST_BE(p->rkey, link_key_of(r));
	}
	if (q->opcode == IBV_WR_RDMA_READ)
		MUST(p->length <= link_bytes_of(r) - before && (p->length || !link_bytes_of(r)));
	else if (headers & 1 << AV_HEADER_RETH)
		MUST_BE(p->length, link_bytes_of(r));
	if (q->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		MUST(p->compare == link_comparison(r) && p->swap_add == link_operand(r));
	if (q->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		MUST_BE(p->swap_add, link_operand(r));
	if (q->opcode == AV_WR_FLUSH)
		MUST(p->placement == AV_FLUSH_GLOBAL && p->selectivity == AV_FLUSH_RANGE);
	if (headers & 1 << AV_HEADER_IMMDT)
		MUST_BE(p->imm, link_immediate(r));
	if (headers & 1 << AV_HEADER_IETH)
		MUST_BE(p->invalidate, link_side[!q->from].window);
	if (headers & 1 << AV_HEADER_XRCETH)
		MUST_BE(p->srqn, link_side[!q->from].srqn);
	if (headers & 1 << AV_HEADER_DETH)
		MUST(p->qkey == QKEY && p->src_qpn == atomic_load(&link_side[q->from].end.qp->qpn));
}

/* Does that host read carried acknowledgements, and say so? */
static bool link_reads(unsigned int host)
{
	uint8_t timeout = link_side[host].end.qp->attr.timeout;

	return link_now->type == IBV_QPT_RC && !(link_now->plain >> host & 1) &&
	       (timeout == 0 || timeout >= LINK_PATIENT);
}

/* What it says of carried acknowledgements, which none does before its peer has said it, too. */
static void check_carried(unsigned int from, const struct av_packet *p)
{
	const struct av_qp_shared *qp = link_side[from].end.qp;

	MUST_BE(p->understands, link_reads(from));
	if (!p->carries)
		return;
	MUST(link_reads(!from) && !(link_now->plain >> from & 1) && link_flow[!from].sent > 0);
	MUST_BE(p->carried & AV_PSN_MASK, AV_PSN_AFTER(qp->expected_psn, AV_PSN_MASK));
}

/* Who does not say that it reads fillers gets none. They only make a whole packet longer. */
static void check_filler(const struct av_packet *p)
{
	if (!p->filler)
		return;
	MUST(link_now->type == IBV_QPT_RC && !link_now->plain);
	MUST_BE(p->payload_bytes, link_mtu());
}

/* PSNs that a request packet takes: those of a READ are its answer's. */
static uint32_t psns_of(const struct av_packet *p, uint32_t opcode)
{
	if (opcode != IBV_WR_RDMA_READ || p->length <= link_mtu())
		return 1;
	return (p->length + link_mtu() - 1) / link_mtu();
}

static bool wants_answer(unsigned int r)
{
	uint32_t opcode = link_now->request[r].opcode;

	return link_is_atomic(opcode) || link_wants_read_response(opcode);
}

/* A request is sent for the first time: are there no more answers under way than there may be? */
static void check_turn(unsigned int r)
{
	unsigned int under_way = 0;

	for (unsigned int i = 0; i < r; i++)
		under_way += link_now->request[i].from == link_now->request[r].from &&
			     wants_answer(i) && link_known[i].begun && !link_known[i].answered;
	if (link_now->request[r].flags & IBV_SEND_FENCE)
		MUST_BE(under_way, 0);
	if (wants_answer(r))
		MUST(under_way < (link_now->rd_atomic ? link_now->rd_atomic : 4));
	link_known[r].begun = true;
}

void link_no_packets(struct link_flow *f, uint32_t psns)
{
	f->sent = f->before = psns;
	for (uint32_t i = 0; i < psns; i++) {
		struct link_known *k = &link_known[f->at[i].request];

		k->begun = k->answered = true;
		f->at[i].ends = f->at[i].index + 1 == k->packets;
	}
}

/* The first packet of a connection that has moved: what is before it has been executed. */
static void begin_flow(struct link_flow *f, uint32_t place)
{
	MUST(link_now->refused[0] || link_now->refused[1]);
	MUST_BE(f->at[place].index, 0);
	f->moved = true;
	link_no_packets(f, place);
}

static void check_request(unsigned int from, const struct av_packet *p, const struct av_opcode *o)
{
	struct link_flow *f = &link_flow[from];
	int32_t place = av_psn_distance(f->first, p->psn);
	const struct link_request *q;
	uint32_t index, n;
	unsigned int r;
	bool last;

	if (link_now->near && !f->moved && place >= 0 && (uint32_t)place < f->psns)
		begin_flow(f, (uint32_t)place);
	if (place < 0 || (uint32_t)place > f->sent || (uint32_t)place >= f->psns)
		link_fail("PSN %06x: behind the next one", p->psn);
	r = f->at[place].request;
	q = &link_now->request[r];
	index = f->at[place].index;
	n = psns_of(p, q->opcode);
	if ((uint32_t)place < f->sent && (!link_is_reliable() || (uint32_t)place + n > f->sent))
		link_fail("PSN %06x: once more", p->psn);
	if ((uint32_t)place == f->sent) {
		f->sent += n;
		f->at[f->sent - 1].ends |= q->opcode == IBV_WR_RDMA_READ;
	}
	if (!link_known[r].begun)
		check_turn(r);
	last = q->opcode == IBV_WR_RDMA_READ || index + 1 == link_known[r].packets;
	MUST_BE(p->opcode,
		(unsigned int)av_opcode_find(
			av_service_of(link_now->type), link_operation_of(q->opcode),
			q->opcode == IBV_WR_RDMA_READ ? AV_PLACE_ONLY
						      : link_place_of(index, link_known[r].packets),
			last ? link_tail_of(q->opcode) : AV_TAIL_NONE));
	MUST_BE(p->solicited, (q->flags & IBV_SEND_SOLICITED) && last);
	MUST(!link_is_reliable() || !last || p->ack_request);
	check_target(p, r, index, o->headers);
	check_carried(from, p);
	check_filler(p);
	if (link_sends(q->opcode))
		check_payload(p, r, index);
	else
		MUST_BE(p->payload_bytes, 0);
	MUST(!link_known[r].complete || !link_is_reliable());
}

/* Messages of @f whose last packet is before PSN @psn. */
uint32_t link_messages_before(const struct link_flow *f, uint32_t psn)
{
	int32_t end = av_psn_distance(f->first, psn);
	uint32_t n = 0;

	for (int32_t i = 0; i < end && (uint32_t)i < f->psns; i++)
		n += f->at[i].ends;
	return n;
}

static void check_result(const struct link_flow *f, const struct av_packet *p,
			 const struct av_opcode *o)
{
	int32_t place = av_psn_distance(f->first, p->psn);
	unsigned int r;

	MUST(place >= 0 && (uint32_t)place < f->sent);
	r = f->at[place].request;
	if (o->operation == AV_OP_ATOMIC_ACK) {
		MUST(link_is_atomic(link_now->request[r].opcode));
		MUST_BE(p->original, link_word_before(r));
		return;
	}
	MUST(link_wants_read_response(link_now->request[r].opcode));
	if (link_now->request[r].opcode != IBV_WR_RDMA_READ)
		MUST_BE(p->payload_bytes, 0);
	else if (!link_known[r].complete) /* else its bytes are those that are there by now */
		check_payload(p, r, f->at[place].index);
}

/* @from: the responder's host */
static void check_answer(unsigned int from, const struct av_packet *p, const struct av_opcode *o)
{
	const struct link_flow *f = &link_flow[!from];
	uint32_t expected = link_side[from].end.qp->expected_psn;

	MUST(link_is_reliable());
	MUST(!p->ack_request && !p->solicited && !p->carries);
	MUST_BE(p->understands, link_now->type == IBV_QPT_RC && !(link_now->plain >> from & 1));
	check_filler(p);
	if (o->operation != AV_OP_ACK) {
		check_result(f, p, o);
		return;
	}
	MUST(av_psn_distance(f->first, p->psn) >= -1);
	MUST(av_psn_distance(f->first, p->psn) <= (int32_t)f->sent);
	if (p->syndrome <= NO_CODE)
		MUST_BE(p->psn, AV_PSN_AFTER(expected, AV_PSN_MASK));
	else if (!link_now->fails)
		MUST_BE(p->psn, expected);
	if (!link_now->fails)
		MUST_BE(p->msn, link_messages_before(f, expected));
	MUST(p->syndrome <= NO_CODE || p->syndrome == 0x60 || link_now->fails ||
	     p->syndrome == (0x20 | LINK_RNR_TIMER));
}

void link_judge_sent(const struct link_packet *p)
{
	const struct av_packet *b = &p->net->packet;
	const struct av_opcode *info = av_opcode_info(b->opcode);

	link_trace(p);
	MUST(info);
	MUST_BE(b->dest_qpn, atomic_load(&link_side[!p->from].end.qp->qpn));
	MUST_BE(b->pkey, 0xffff);
	if (info->operation == AV_OP_CNP)
		MUST(link_now->congested && b->becn);
	else if (info->response)
		check_answer(p->from, b, info);
	else
		check_request(p->from, b, info);
	if (link_on_sent)
		link_on_sent(p);
}

/* --- unreliable services ---------------------------------------------------------- */

void link_delivered(struct link_flow *f, unsigned int r)
{
	link_known[r].taken = true;
	if (link_receives(link_now->request[r].opcode) && f->due < f->receives)
		f->order[f->due++] = r;
}

/* What its receiver does with a packet: IBTA volume 1, 9.8.2 and 9.8.3. */
static void receive_unreliable(struct link_flow *f, const struct av_packet *p,
			       const struct av_opcode *o)
{
	bool begins = o->place == AV_PLACE_FIRST || o->place == AV_PLACE_ONLY;
	bool ends = o->place == AV_PLACE_LAST || o->place == AV_PLACE_ONLY;
	unsigned int r = f->at[av_psn_distance(f->first, p->psn)].request;

	if (link_now->type == IBV_QPT_UC && (p->psn != f->expected || begins))
		f->coming = begins;
	else if (link_now->type == IBV_QPT_UD)
		f->coming = true;
	if (!f->coming)
		return;
	f->expected = AV_PSN_AFTER(p->psn, 1);
	f->coming = !ends;
	if (ends)
		link_delivered(f, r);
}

static void note_answer(const struct link_flow *f, const struct av_packet *p)
{
	int32_t place = av_psn_distance(f->first, p->psn);
	unsigned int r = f->at[place].request;

	link_known[r].answered |= f->at[place].index + 1 == link_known[r].packets;
}

void link_judge_arrival(const struct link_arrival *a)
{
	const struct av_opcode *info = av_opcode_info(a->net->packet.opcode);

	if (link_on_arrival)
		link_on_arrival(a);
	if (!info || info->operation == AV_OP_CNP)
		return;
	if (!link_side[!a->from].end.qp->wire && link_now->type != IBV_QPT_UD)
		return; /* it has not moved yet */
	if (!link_is_reliable())
		receive_unreliable(&link_flow[a->from], &a->net->packet, info);
	else if (info->operation == AV_OP_READ_RESPONSE || info->operation == AV_OP_ATOMIC_ACK)
		note_answer(&link_flow[!a->from], &a->net->packet);
}
