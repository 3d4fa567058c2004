/* SPDX-License-Identifier: MIT */
/* What is posted: where its bytes are, which they are, and the requests. */
#include <arpa/inet.h>
#include <string.h>

#include "unit/transport/link_parts.h"

#include "lib/check.h"
#include "lib/turned_clock.h"
#include "queue/rq.h"
#include "transport/transport.h"

#define AROUND	  24u	    /* bytes around each buffer that nobody may touch */
#define FIRST_PSN 0xfffffcu /* of host 0: some are on the other side of 0 */

const struct link_exchange *link_now;
unsigned int link_count;
struct link_known link_known[LINK_REQUESTS];
struct link_flow link_flow[LINK_HOSTS];
uint8_t *link_want[LINK_HOSTS];
uint32_t link_used[LINK_HOSTS];

static unsigned int next_post;
static unsigned int pattern_of_run; /* so that nothing of the run before passes for right */

/* --- the exchange ----------------------------------------------------------------- */

bool link_receives(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool link_is_write(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool link_is_atomic(uint32_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

bool link_wants_read_response(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == AV_WR_FLUSH || opcode == AV_WR_ATOMIC_WRITE;
}

/* Does its payload travel to the peer? */
bool link_sends(uint32_t opcode)
{
	return link_receives(opcode) || link_is_write(opcode) || opcode == AV_WR_ATOMIC_WRITE;
}

uint32_t link_mtu_code(void)
{
	return link_now->mtu ? link_now->mtu : IBV_MTU_256;
}

uint32_t link_mtu(void)
{
	return 128u << link_mtu_code();
}

bool link_is_reliable(void)
{
	return link_now->type != IBV_QPT_UC && link_now->type != IBV_QPT_UD;
}

/* Bytes of the operation at its responder. */
uint32_t link_bytes_of(unsigned int r)
{
	uint32_t opcode = link_now->request[r].opcode;

	return link_is_atomic(opcode) || opcode == AV_WR_ATOMIC_WRITE ? WORD
								      : link_now->request[r].bytes;
}

uint8_t link_pattern(unsigned int r, uint32_t at)
{
	return (uint8_t)(r * 37 + at * 7 + at / 251 + pattern_of_run + 1);
}

uint64_t link_word_before(unsigned int r)
{
	return 0x0101010101010101u * (r + 1);
}

uint64_t link_operand(unsigned int r)
{
	return 0x00a0b0c0d0e0f001u + r;
}

/* Every other comparison does not fit. */
uint64_t link_comparison(unsigned int r)
{
	return link_word_before(r) + r % 2;
}

uint64_t link_word_after(unsigned int r)
{
	if (link_now->request[r].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return link_word_before(r) + link_operand(r);
	return r % 2 ? link_word_before(r) : link_operand(r);
}

uint32_t link_immediate(unsigned int r)
{
	return 0x11220000u + r;
}

bool link_is_quiet(unsigned int r)
{
	return link_now->unsignaled && r % 2 == 0 && r + 1 < link_count;
}

static struct link_room allot(unsigned int host, uint32_t bytes)
{
	struct link_room room = {link_used[host] + AROUND, bytes};

	link_used[host] = (room.at + bytes + AROUND + 7) / 8 * 8;
	CHECK(link_used[host] <= ARENA);
	return room;
}

void link_fill(unsigned int host, struct link_room room, unsigned int r)
{
	for (uint32_t i = 0; i < room.bytes; i++)
		link_want[host][room.at + i] = link_pattern(r, i);
}

/* Where everything is, and what it holds before. */
void link_lay_out(void)
{
	pattern_of_run++;
	next_post = 0;
	link_used[0] = link_used[1] = 0;
	for (link_count = 0; link_count < LINK_REQUESTS && link_now->request[link_count].there;
	     link_count++) {
		unsigned int from = link_now->request[link_count].from;

		link_known[link_count] =
			(struct link_known){.own = allot(from, link_bytes_of(link_count)),
					    .there = allot(!from, link_bytes_of(link_count))};
	}
	for (unsigned int r = 1; link_now->onto && r < link_count; r++)
		link_known[r].there = link_known[0].there;
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		link_flow[h] = (struct link_flow){.first = h ? 0x77 : FIRST_PSN};
		link_flow[h].expected = link_flow[h].first;
	}
	for (unsigned int r = 0; r < link_count + (link_is_reliable() ? 0 : SPARE); r++) {
		unsigned int host = r < link_count ? link_now->request[r].from : 0,
			     one = r < link_count ? r : 0;
		struct link_flow *f = &link_flow[host];

		if (link_receives(link_now->request[one].opcode))
			f->receive[f->receives++] =
				allot(!host, (link_now->type == IBV_QPT_UD ? GRH : 0) +
						     (link_is_reliable() ? link_bytes_of(one)
									 : 4 * link_mtu()) +
						     (one % 3) * 5);
	}
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		memset(link_want[h], UNTOUCHED, link_used[h]);
	for (unsigned int r = 0; r < link_count; r++) {
		unsigned int from = link_now->request[r].from;
		uint64_t word = link_word_before(r);

		if (link_sends(link_now->request[r].opcode))
			link_fill(from, link_known[r].own, r);
		if (link_now->request[r].opcode == IBV_WR_RDMA_READ)
			link_fill(!from, link_known[r].there, r);
		if (link_is_atomic(link_now->request[r].opcode))
			memcpy(link_want[!from] + link_known[r].there.at, &word, WORD);
	}
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		memcpy(link_side[h].arena, link_want[h], link_used[h]);
}

static void plan_packets(unsigned int r)
{
	struct link_flow *f = &link_flow[link_now->request[r].from];
	uint32_t opcode = link_now->request[r].opcode, n = 1;

	if (opcode != AV_WR_FLUSH && link_bytes_of(r) > link_mtu())
		n = (link_bytes_of(r) + link_mtu() - 1) / link_mtu();
	link_known[r].packets = n;
	for (uint32_t i = 0; i < n; i++, f->psns++) {
		CHECK(f->psns < PSNS);
		f->at[f->psns].request = r;
		f->at[f->psns].index = i;
		f->at[f->psns].ends = opcode != IBV_WR_RDMA_READ && i + 1 == n;
	}
}

enum av_operation link_operation_of(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return AV_OP_WRITE;
	case IBV_WR_RDMA_READ:
		return AV_OP_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return AV_OP_CMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return AV_OP_FETCH_ADD;
	case AV_WR_FLUSH:
		return AV_OP_FLUSH;
	case AV_WR_ATOMIC_WRITE:
		return AV_OP_ATOMIC_WRITE;
	default:
		return AV_OP_SEND;
	}
}

enum av_tail link_tail_of(uint32_t opcode)
{
	if (opcode == IBV_WR_SEND_WITH_INV)
		return AV_TAIL_INVALIDATE;
	return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM
		       ? AV_TAIL_IMM
		       : AV_TAIL_NONE;
}

enum av_place link_place_of(uint32_t index, uint32_t packets)
{
	if (packets == 1)
		return AV_PLACE_ONLY;
	if (index == 0)
		return AV_PLACE_FIRST;
	return index + 1 == packets ? AV_PLACE_LAST : AV_PLACE_MIDDLE;
}

uint64_t link_address_of(unsigned int host, uint32_t at)
{
	return (uintptr_t)link_side[host].arena + at;
}

/* The key that it names at its responder. */
uint32_t link_key_of(unsigned int r)
{
	return link_side[!link_now->request[r].from].key +
	       (link_now->wrong_key == r + 1 ? 0x10000 : 0);
}

/* --- posting ---------------------------------------------------------------------- */

/* Return: how many */
static uint32_t elements_of(unsigned int host, struct link_room room, uint32_t key,
			    struct ibv_sge sge[ELEMENTS])
{
	uint32_t n = link_now->split ? ELEMENTS : 1, each = room.bytes / n;

	for (uint32_t i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){link_address_of(host, room.at + i * each),
					  i + 1 < n ? each : room.bytes - i * each, key};
	return n;
}

static void fill_wqe(struct av_sq_wqe *wqe, unsigned int r)
{
	const struct link_request *q = &link_now->request[r];
	const struct link_side *s = &link_side[q->from], *to = &link_side[!q->from];
	union ibv_gid gid = link_gid(!q->from);

	*wqe = (struct av_sq_wqe){
		.wr_id = r,
		.opcode = q->opcode,
		.flags = q->flags | (link_is_quiet(r) ? 0 : IBV_SEND_SIGNALED),
		.imm = q->opcode == IBV_WR_SEND_WITH_INV ? to->window : htonl(link_immediate(r)),
		.bytes = q->opcode == AV_WR_FLUSH ? 0 : link_bytes_of(r),
		.remote_addr = link_address_of(!q->from, link_known[r].there.at),
		.rkey = link_key_of(r),
	};
	if (link_now->type == IBV_QPT_UD)
		av_sq_fill_ud(wqe,
			      &(struct ibv_ah_attr){.is_global = 1,
						    .grh = {.dgid = gid, .hop_limit = 64}},
			      atomic_load(&to->end.qp->qpn), QKEY);
	else
		wqe->srqn = to->srqn;
	if (q->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wqe->compare_add = link_comparison(r);
		wqe->swap = link_operand(r);
	} else if (q->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wqe->compare_add = link_operand(r);
	} else if (q->opcode == AV_WR_FLUSH) {
		wqe->compare_add = q->bytes;
		wqe->placement = AV_FLUSH_GLOBAL;
		wqe->selectivity = AV_FLUSH_RANGE;
	} else if (q->opcode == AV_WR_ATOMIC_WRITE) {
		wqe->flags |= IBV_SEND_INLINE;
	}
	if (wqe->flags & IBV_SEND_INLINE)
		memcpy(wqe->data, s->arena + link_known[r].own.at, wqe->bytes);
	else if (wqe->bytes)
		wqe->count = elements_of(q->from, link_known[r].own,
					 s->key + (link_now->own_wrong_key == r + 1 ? 0x10000 : 0),
					 wqe->sge);
}

/* From that request on, the kernel may refuse a process the other's memory. */
static void refuse(unsigned int r)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		if (link_now->near && link_now->refused[h] == r + 1)
			atomic_store(&link_side[!h].seg->vm_refused, true);
}

static void post(unsigned int r)
{
	struct link_side *s = &link_side[link_now->request[r].from];
	uint32_t number = atomic_load(&s->end.qp->sq_tail);
	struct link_flow *f = &link_flow[link_now->request[r].from];

	if (link_now->type != IBV_QPT_UD && link_now->type != IBV_QPT_UC &&
	    link_receives(link_now->request[r].opcode))
		f->order[f->due++] = r;
	plan_packets(r);
	s->posted = r + 1;
	refuse(r);
	link_run_as(link_now->request[r].from);
	fill_wqe(av_sq_slot(&s->end, number), r);
	atomic_store(&s->end.qp->sq_tail, number + 1);
	av_sq_progress(&s->end, NULL);
	if (link_now->near && !link_is_reliable() && !s->end.qp->wire &&
	    s->end.qp->sq_next == number + 1)
		link_delivered(f, r);
}

static void post_receive(unsigned int host, unsigned int i)
{
	struct link_side *s = &link_side[host];
	struct link_room room = link_flow[!host].receive[i];
	struct ibv_sge sge[ELEMENTS];
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = sge}, *bad;
	struct av_rq_shared *rq = av_rq_at(s->seg, s->rq);
	bool own = !s->srqn && !link_now->srq;

	link_run_as(host);
	wr.num_sge = (int)elements_of(host, room, s->key, sge);
	MUST_BE(av_rq_post(s->seg, rq, own ? &s->end.qp->state : NULL, &wr, &bad), 0);
	if (own && atomic_load(&rq->waiting))
		av_rnr_posted(&s->end, rq);
}

void link_post_receives(void)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		for (unsigned int i = 0; i < link_flow[!h].receives; i++)
			post_receive(h, i);
}

/* May that request be posted, after those before it? */
static bool has_turn(unsigned int r)
{
	for (unsigned int i = 0; i < r; i++)
		if ((link_now->apart && !link_known[i].complete) ||
		    (link_now->turns && !link_known[i].taken))
			return false;
	return true;
}

void link_post(void)
{
	while (next_post < link_count && has_turn(next_post)) {
		post(next_post++);
		if (link_now->apart || link_now->turns)
			link_poll();
	}
}
