/* SPDX-License-Identifier: MIT */
/* Checks each completion. */
#include <arpa/inet.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/hammer_state.h"

static struct link *link_of(const struct ibv_wc *wc)
{
	for (uint32_t i = 0; i < hammer.links; i++)
		if (hammer.link[i].qp->qp_num == wc->qp_num)
			return &hammer.link[i];
	hammer_fault("completion of an unknown queue pair 0x%x", wc->qp_num);
}

/* Record a number of a stream that this thread has polled. */
static void note(const struct link *l, struct window *w, int64_t *last, uint32_t thread,
		 uint32_t number, bool gapless)
{
	if (gapless && number != atomic_load(&w->low))
		hammer_stream_fault(l, thread, number, "not the next");
	if (*last >= 0 && (int32_t)(number - (uint32_t)*last) <= 0)
		hammer_stream_fault(l, thread, number, "out of order");
	*last = number;
	switch (window_note(w, number)) {
	case WINDOW_FINE:
		break;
	case WINDOW_AGAIN:
		hammer_stream_fault(l, thread, number, "came twice");
		break;
	case WINDOW_UNKNOWN:
		hammer_stream_fault(l, thread, number, "has not been sent");
		break;
	}
}

static uint64_t chain(uint64_t order, uint32_t thread, uint32_t number)
{
	return (order ^ ((uint64_t)thread << 32 | number)) * 0x9e3779b97f4a7c15u + 1;
}

static void complete_send(struct thread *t, struct link *l, const struct ibv_wc *wc)
{
	uint32_t thread = (uint32_t)(wc->wr_id >> 32), number = (uint32_t)wc->wr_id;
	bool locked = hammer_kinds[l->kind].send_cq == CQ_LOCKED;

	if (thread >= hammer.senders)
		hammer_fault("wr_id 0x%lx of a send", wc->wr_id);
	note(l, &l->stream[thread].sent, &t->last_sent[l - hammer.link][thread], thread, number,
	     locked);
	if (locked)
		l->send_order = chain(l->send_order, thread, number);
	atomic_fetch_sub(&l->in_flight, 1);
}

/* The completion must agree with the message's head. */
static void check_head(const struct link *l, const struct ibv_wc *wc, const struct head *head)
{
	uint32_t imm = head->thread << THREAD_SHIFT | (head->number & ((1u << THREAD_SHIFT) - 1));

	if (head->from != l->peer || head->kind != l->kind || head->thread >= hammer.senders)
		hammer_fault("a message of process %u, kind %u, thread %u came on the connection "
			     "of kind %u "
			     "with %u",
			     head->from, head->kind, head->thread, l->kind, l->peer);
	if (wc->byte_len != head->bytes)
		hammer_stream_fault(l, head->thread, head->number, "length");
	if (wc->wc_flags & IBV_WC_WITH_IMM && ntohl(wc->imm_data) != imm)
		hammer_stream_fault(l, head->thread, head->number,
				    "immediate data of another message");
}

/* Reconstruct a message number from the bits in the immediate data, given a number near it. */
static uint32_t whole_number(uint32_t imm, uint32_t near)
{
	uint32_t span = 1u << THREAD_SHIFT, number = (near & ~(span - 1)) | (imm & (span - 1));

	if ((int32_t)(number - near) > (int32_t)span / 2)
		return number - span;
	return (int32_t)(near - number) > (int32_t)span / 2 ? number + span : number;
}

/* The head of a message that was written into this process's memory. */
static struct head head_of_write(const struct link *l, const struct ibv_wc *wc)
{
	uint32_t imm = ntohl(wc->imm_data), thread = imm >> THREAD_SHIFT, number;
	struct head head;

	if (thread >= hammer.senders)
		hammer_fault("immediate data 0x%x", imm);
	number = whole_number(imm, atomic_load(&l->stream[thread].received.low));
	memcpy(&head, hammer.targets + hammer_place(l, thread, number), sizeof(head));
	return head;
}

/*
 * Tell the sender how far its stream has come. Two threads may store in either order, so the larger
 * number wins.
 */
static void tell_received(const struct link *l, uint32_t thread)
{
	_Atomic uint32_t *word =
		&hammer.table->received[hammer.plan.index][l->peer][l->kind][thread];
	uint32_t low = atomic_load(&l->stream[thread].received.low), told = atomic_load(word);

	while ((int32_t)(low - told) > 0 && !atomic_compare_exchange_weak(word, &told, low))
		;
}

static void complete_receive(struct thread *t, struct link *l, const struct ibv_wc *wc)
{
	bool locked = hammer_kinds[l->kind].recv_cq == CQ_LOCKED;
	uint32_t b = (uint32_t)wc->wr_id;
	const uint8_t *at = hammer.buffers + (size_t)b * BUFFER_BYTES;
	struct head head;

	if (wc->wr_id >= hammer.buffer_count || !atomic_exchange(&hammer.buffer[b].posted, false))
		hammer_fault("receive request %lu is not posted", wc->wr_id);
	if (hammer.buffer[b].link ? hammer.buffer[b].link != l : hammer.buffer[b].srq != l->qp->srq)
		hammer_fault("receive request %lu is of another queue", wc->wr_id);
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		head = head_of_write(l, wc);
	else
		memcpy(&head, at, sizeof(head));
	check_head(l, wc, &head);
	if (wc->opcode == IBV_WC_RECV &&
	    memcmp(at + sizeof(head), hammer.filler, head.bytes - sizeof(head)))
		hammer_stream_fault(l, head.thread, head.number, "bytes");
	hammer_post_receive(b);
	note(l, &l->stream[head.thread].received, &t->last_received[l - hammer.link][head.thread],
	     head.thread, head.number, locked);
	if (locked)
		l->recv_order = chain(l->recv_order, head.thread, head.number);
	tell_received(l, head.thread);
}

static void complete(struct thread *t, const struct ibv_wc *wc)
{
	struct link *l = link_of(wc);

	if (wc->status != IBV_WC_SUCCESS)
		hammer_fault(
			"'%s' (vendor error 0x%x) on the connection of kind %u with process %u",
			ibv_wc_status_str(wc->status), wc->vendor_err, l->kind, l->peer);
	if (wc->opcode & IBV_WC_RECV)
		complete_receive(t, l, wc);
	else
		complete_send(t, l, wc);
}

int hammer_poll(struct thread *t, enum cq_kind kind)
{
	struct ibv_wc wc[8];
	int n;

	if (kind == CQ_LOCKED && pthread_mutex_trylock(&hammer.lock))
		return 0;
	n = ibv_poll_cq(hammer.cq[kind], 1 + (int)hammer_random(t, COUNT_OF(wc)), wc);
	if (n < 0)
		hammer_fault("ibv_poll_cq: %d", n);
	for (int i = 0; i < n; i++)
		complete(t, &wc[i]);
	if (kind == CQ_LOCKED)
		pthread_mutex_unlock(&hammer.lock);
	return n;
}
