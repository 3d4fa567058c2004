/* SPDX-License-Identifier: MIT */
/* Sends messages of all kinds and lengths, limited by what the receivers have completed. */
#include <arpa/inet.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/hammer_state.h"

#define BURST 4u

/* Reserve room for some messages in the stream and the queue pair. Return: how many. */
static uint32_t take_room(struct thread *t, struct link *l, struct stream *s)
{
	uint32_t received =
		atomic_load(&hammer.table->received[l->peer][hammer.plan.index][l->kind][t->index]);
	uint32_t sent = atomic_load(&s->sent.low),
		 oldest = (int32_t)(received - sent) < 0 ? received : sent;
	uint32_t n = 1 + hammer_random(t, BURST), room = WINDOW_SIZE - (s->next - oldest);

	if (n > room)
		n = room;
	if (atomic_fetch_add(&l->in_flight, n) + n <= SEND_DEPTH)
		return n;
	atomic_fetch_sub(&l->in_flight, n);
	return 0;
}

static uint32_t some_length(struct thread *t)
{
	static const uint32_t lengths[] = {sizeof(struct head), 64, 65, 200, 3000, BUFFER_BYTES};
	uint32_t which = hammer_random(t, 32); /* most are short */

	return lengths[which < COUNT_OF(lengths) ? which : which % 4];
}

static void prepare(struct thread *t, struct link *l, uint32_t number, struct ibv_send_wr *wr)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND_WITH_IMM, IBV_WR_SEND,
						     IBV_WR_RDMA_WRITE_WITH_IMM};
	enum ibv_wr_opcode opcode = opcodes[hammer_random(t, COUNT_OF(opcodes))];
	uint32_t bytes =
		opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? sizeof(struct head) : some_length(t);
	uint64_t place = hammer_place(l, t->index, number);
	struct head head = {hammer.plan.index, l->kind, t->index, number, bytes};

	memcpy(hammer.heads + place, &head, sizeof(head));
	wr->wr_id = (uint64_t)t->index << 32 | number;
	wr->opcode = opcode;
	wr->imm_data = htonl(t->index << THREAD_SHIFT | (number & ((1u << THREAD_SHIFT) - 1)));
	wr->send_flags = bytes <= INLINE_BYTES && hammer_random(t, 2) ? IBV_SEND_INLINE : 0;
	wr->sg_list[0] =
		(struct ibv_sge){(uintptr_t)(hammer.heads + place), sizeof(head), hammer.mr->lkey};
	wr->sg_list[1] = (struct ibv_sge){(uintptr_t)hammer.filler, bytes - (uint32_t)sizeof(head),
					  hammer.mr->lkey};
	wr->num_sge = bytes > sizeof(head) ? 2 : 1;
	/* At the target, the connection's index is that of this process. */
	place = hammer_place(hammer_link_to(hammer.plan.index, l->kind), t->index, number);
	wr->wr.rdma.remote_addr = l->targets + place;
	wr->wr.rdma.rkey = l->rkey;
}

void hammer_send_some(struct thread *t, struct link *l)
{
	struct stream *s = &l->stream[t->index];
	struct ibv_send_wr wr[BURST], *bad;
	struct ibv_sge sge[BURST][2];
	uint32_t n = take_room(t, l, s);

	for (uint32_t i = 0; i < n; i++) {
		wr[i].sg_list = sge[i];
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		prepare(t, l, s->next + i, &wr[i]);
	}
	s->next += n;
	HAMMER_NEED(n == 0 || !ibv_post_send(l->qp, wr, &bad));
}
