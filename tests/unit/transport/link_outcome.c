/* SPDX-License-Identifier: MIT */
/* Memory, completions, and what is left at the end. */
#include <arpa/inet.h>
#include <string.h>

#include "unit/transport/link_parts.h"

#include "lib/turned_clock.h"
#include "transport/transport.h"

#define OVER 0x5c /* what complete buffers are written over with */

/* --- memory ----------------------------------------------------------------------- */

static void write_over(unsigned int host, struct link_room room)
{
	memset(link_side[host].arena + room.at, OVER, room.bytes);
	memset(link_want[host] + room.at, OVER, room.bytes);
}

static void check_bytes(unsigned int host, struct link_room room, unsigned int r)
{
	const uint8_t *at = link_side[host].arena + room.at;

	for (uint32_t i = 0; i < room.bytes; i++)
		if (at[i] != link_pattern(r, i))
			link_fail("request %u: byte %u of %u at host %u is %#x, not %#x", r, i,
				  room.bytes, host, at[i], link_pattern(r, i));
}

static uint64_t word_at(unsigned int host, struct link_room room)
{
	uint64_t word;

	memcpy(&word, link_side[host].arena + room.at, WORD);
	return word;
}

bool link_is_untouched(unsigned int r)
{
	unsigned int to = !link_now->request[r].from;

	return memcmp(link_side[to].arena + link_known[r].there.at,
		      link_want[to] + link_known[r].there.at, link_known[r].there.bytes) == 0;
}

/* What an RDMA WRITE has brought, as soon as it is known to be there. */
static void check_written(unsigned int r)
{
	unsigned int to = !link_now->request[r].from;

	if (link_known[r].taken && link_is_reliable())
		return;
	link_known[r].taken = true;
	check_bytes(to, link_known[r].there, r);
	if (link_is_reliable())
		write_over(to, link_known[r].there);
	else /* it may come twice */
		link_fill(to, link_known[r].there, r);
}

static void check_done(unsigned int r)
{
	const struct link_request *q = &link_now->request[r];
	struct link_room own = link_known[r].own, there = link_known[r].there;

	if (q->opcode == AV_WR_ATOMIC_WRITE || q->opcode == IBV_WR_RDMA_WRITE)
		check_written(r);
	if (q->opcode == IBV_WR_RDMA_READ)
		check_bytes(q->from, own, r);
	if (link_is_atomic(q->opcode)) {
		MUST_BE(word_at(q->from, own), link_word_before(r));
		MUST_BE(word_at(!q->from, there), link_word_after(r));
	}
	if (!link_now->onto && (q->opcode == IBV_WR_RDMA_READ || link_is_atomic(q->opcode)))
		write_over(!q->from, there);
	write_over(q->from, own);
}

/* --- completions ------------------------------------------------------------------ */

static uint32_t completion_of(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case AV_WR_FLUSH:
		return AV_WC_FLUSH;
	case AV_WR_ATOMIC_WRITE:
		return AV_WC_ATOMIC_WRITE;
	default:
		return IBV_WC_SEND;
	}
}

static unsigned int next_of(unsigned int host, unsigned int from)
{
	while (from < link_count && link_now->request[from].from != host)
		from++;
	return from;
}

static void sent_completely(unsigned int host, const struct ibv_wc *wc)
{
	struct link_side *s = &link_side[host];
	unsigned int r = next_of(host, s->completed);

	while (link_is_quiet(r)) { /* whatever is behind it says that it is complete */
		link_known[r].complete = true;
		link_known[r].status = IBV_WC_SUCCESS;
		check_done(r);
		r = next_of(host, r + 1);
	}
	MUST(r < s->posted);
	s->completed = r + 1;
	s->last_ns = turned_clock_ns();
	link_known[r].complete = true;
	link_known[r].status = wc->status;
	MUST_BE(wc->wr_id, r);
	MUST_BE(wc->qp_num, atomic_load(&s->end.qp->qpn));
	if (link_now->fails && wc->status != IBV_WC_SUCCESS)
		return;
	MUST_BE(wc->status, IBV_WC_SUCCESS);
	MUST_BE(wc->opcode, completion_of(link_now->request[r].opcode));
	if (link_now->request[r].opcode == IBV_WR_RDMA_READ ||
	    link_is_atomic(link_now->request[r].opcode))
		MUST_BE(wc->byte_len, link_bytes_of(r));
	if (link_is_reliable())
		check_done(r);
}

int link_status(unsigned int r)
{
	return link_known[r].complete ? (int)link_known[r].status : -1;
}

static void check_received(unsigned int host, const struct ibv_wc *wc, unsigned int r)
{
	const struct link_request *q = &link_now->request[r];
	bool imm = link_tail_of(q->opcode) == AV_TAIL_IMM, inv = q->opcode == IBV_WR_SEND_WITH_INV;
	bool datagram = link_now->type == IBV_QPT_UD;

	MUST_BE(wc->status, IBV_WC_SUCCESS);
	MUST_BE(wc->opcode, link_is_write(q->opcode) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	MUST_BE(wc->byte_len, link_bytes_of(r) + (datagram ? GRH : 0));
	MUST_BE(wc->wc_flags, (imm ? IBV_WC_WITH_IMM : 0u) | (inv ? IBV_WC_WITH_INV : 0u) |
				      (datagram ? IBV_WC_GRH : 0u));
	MUST_BE(wc->qp_num, atomic_load(&link_side[host].end.qp->qpn));
	if (imm)
		MUST_BE(ntohl(wc->imm_data), link_immediate(r));
	if (inv)
		MUST_BE(wc->invalidated_rkey, link_side[host].window);
	if (datagram)
		MUST_BE(wc->src_qp, atomic_load(&link_side[!host].end.qp->qpn));
}

static void received(unsigned int host, const struct ibv_wc *wc)
{
	struct link_side *s = &link_side[host];
	struct link_flow *f = &link_flow[!host];
	struct link_room all, message;
	unsigned int r;

	if (link_now->fails && wc->status != IBV_WC_SUCCESS) {
		MUST_BE(wc->wr_id, s->received);
		s->received++;
		return;
	}
	MUST(s->received < f->due);
	r = f->order[s->received];
	all = message = f->receive[s->received];
	MUST_BE(wc->wr_id, s->received);
	s->received++;
	check_received(host, wc, r);
	if (!link_is_write(link_now->request[r].opcode))
		link_known[r].taken = true;
	if (link_is_write(link_now->request[r].opcode)) {
		check_written(r);
		if (!link_is_reliable()) /* a SEND that was lost may have begun there */
			write_over(host, all);
		return;
	}
	message.at += link_now->type == IBV_QPT_UD ? GRH : 0;
	message.bytes = link_bytes_of(r);
	check_bytes(host, message, r);
	if (link_is_reliable()) {
		all.at += message.bytes;
		all.bytes -= message.bytes;
		MUST(!memcmp(s->arena + all.at, link_want[host] + all.at, all.bytes));
		all = f->receive[s->received - 1];
	}
	write_over(host, all);
}

static void poll_cq(unsigned int host, uint32_t cq,
		    void (*got)(unsigned int, const struct ibv_wc *))
{
	struct link_side *s = &link_side[host];
	struct ibv_wc wc[DEPTH];
	int n;

	link_run_as(host);
	n = av_poll(s->seg, av_cq_at(s->seg, cq), DEPTH, wc, NULL);

	MUST(n >= 0);
	for (int i = 0; i < n; i++)
		got(host, &wc[i]);
}

/* Receivers first: a sender's completion says that its message is there. */
void link_poll(void)
{
	turned_clock_to(turned_clock_ns()); /* its readings are no waiting */
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		poll_cq(h, link_side[h].recv_cq, received);
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		poll_cq(h, link_side[h].send_cq, sent_completely);
}
/* --- the end ---------------------------------------------------------------------- */

static void check_pins(const struct av_seg *seg)
{
	for (unsigned int i = 0; i < AV_PINS; i++)
		MUST_BE(atomic_load(&seg->head->pin[i].word), 0);
}

/* Messages in packets that take receive requests. */
static uint32_t takers_of(const struct link_flow *f)
{
	uint32_t n = 0;

	for (uint32_t i = f->before; i < f->sent; i++)
		n += f->at[i].index == 0 &&
		     link_receives(link_now->request[f->at[i].request].opcode);
	return n;
}

static void check_connection(unsigned int host)
{
	const struct link_side *s = &link_side[host];
	const struct av_wire *w = av_wire_at(s->seg, s->end.qp->index);
	const struct link_flow *out = &link_flow[host], *in = &link_flow[!host];
	uint32_t next = AV_PSN_AFTER(out->first, out->psns);

	MUST_BE(w->acked, next);
	MUST_BE(w->sent, next);
	MUST(w->next == s->end.qp->sq_next && w->begun_end == s->end.qp->sq_next && w->begun == 0);
	MUST(!w->active && !w->waits && !atomic_load(&w->ack_pending) &&
	     w->coming.begun == in->coming);
	MUST_BE(w->read.next, w->read.packets);
	MUST(!w->read.dropped && !atomic_load(&s->end.qp->reading));
	if (!link_is_reliable())
		return;
	MUST_BE(w->credits_acked, takers_of(out));
	MUST_BE(w->credits_used, w->credits_acked);
	MUST(s->end.qp->timeout_spent == 0 && !w->nak_sent);
}

/* What both sides count, in packets or without. */
static void check_numbers(unsigned int host)
{
	const struct av_qp_shared *qp = link_side[host].end.qp;
	const struct link_flow *out = &link_flow[host], *in = &link_flow[!host];
	uint32_t expected = AV_PSN_AFTER(in->first, in->psns);

	MUST_BE(qp->next_psn, AV_PSN_AFTER(out->first, out->psns));
	if (!link_is_reliable())
		return;
	MUST_BE(qp->expected_psn, expected);
	MUST_BE(qp->msn, link_messages_before(in, expected));
}

/* A connection moves if a process was refused anything, and only then. */
static void check_move(unsigned int host)
{
	const struct av_qp_shared *qp = link_side[host].end.qp;
	bool refused = link_now->refused[0] || link_now->refused[1];

	MUST_BE(atomic_load(&qp->to_wire), refused ? AV_TO_WIRE_MOVED : AV_TO_WIRE_NOT);
	MUST_BE(qp->wire, refused);
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		if (!link_flow[h].moved)
			link_no_packets(&link_flow[h], link_flow[h].psns);
}

void link_check_side(unsigned int host)
{
	const struct link_side *s = &link_side[host];

	MUST_BE(next_of(host, s->completed), link_count);
	MUST_BE(s->received, link_flow[!host].due);
	MUST_BE(atomic_load(&s->end.qp->state), IBV_QPS_RTS);
	MUST_BE(s->end.qp->sq_next, atomic_load(&s->end.qp->sq_tail));
	MUST_BE(atomic_load(&s->end.qp->wait_reason), AV_WAIT_NONE);
	MUST(!s->end.qp->receiving || link_flow[!host].coming);
	MUST_BE(atomic_load(&s->end.qp->req_lock.owner) | atomic_load(&s->end.qp->resp_lock.owner),
		0);
	check_pins(s->seg);
	if (link_now->type == IBV_QPT_UD)
		return;
	if (link_now->near)
		check_move(host);
	check_numbers(host);
	if (s->end.qp->wire)
		check_connection(host);
}

/* Of what was lost, some bytes may be there. */
static void forgive(unsigned int host, struct link_room room, uint8_t before, unsigned int r)
{
	for (uint32_t i = room.at; i < room.at + room.bytes; i++) {
		uint8_t is = link_side[host].arena[i];

		MUST(link_receives(link_now->request[r].opcode) || is == before ||
		     is == link_pattern(r, i - room.at));
		link_want[host][i] = is;
	}
}

static void check_lossy_memory(void)
{
	for (unsigned int r = 0; r < link_count; r++) {
		unsigned int to = !link_now->request[r].from;

		if (!link_is_write(link_now->request[r].opcode))
			continue;
		if (link_now->request[r].opcode == IBV_WR_RDMA_WRITE && link_known[r].taken)
			check_written(r);
		else if (!link_known[r].taken)
			forgive(to, link_known[r].there, UNTOUCHED, r);
	}
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		for (unsigned int i = link_side[!h].received; i < link_flow[h].receives; i++)
			forgive(!h, link_flow[h].receive[i], UNTOUCHED, link_flow[h].at[0].request);
}

void link_check_memory(void)
{
	if (!link_is_reliable())
		check_lossy_memory();
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		for (uint32_t i = 0; i < link_used[h]; i++)
			if (link_side[h].arena[i] != link_want[h][i])
				link_fail("byte %u at host %u is %#x, not %#x", i, h,
					  link_side[h].arena[i], link_want[h][i]);
}
