/* SPDX-License-Identifier: MIT */
/* Posting and completing. */
#include "crash/flow.h"

#include "lib/expect.h"
#include "lib/pattern.h"

enum id { ID_RECV = 1, ID_SEND, ID_RDMA };

/* --- numbers --------------------------------------------------------------------- */

uint64_t mix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* The same on both sides of a connection. */
static uint32_t message_bytes(uint64_t seed, uint64_t n)
{
	static const uint32_t sizes[] = {8, 8, 64, 65, 1000, 16384, 16385, 100000};
	uint64_t state = (seed & ~1ull) * 31 + n;

	return sizes[mix(&state) % COUNT_OF(sizes)];
}

/* --- posting --------------------------------------------------------------------- */

struct hello hello_of(const struct flow *f)
{
	return (struct hello){.gid = f->end->gid,
			      .addr = (uintptr_t)f->buffer,
			      .rkey = f->end->mr->rkey,
			      .qpn = f->qp->qp_num};
}

void post_receives(struct flow *f)
{
	while (f->receives - f->received < WINDOW) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)f->buffer + RECV_AT + f->receives % WINDOW * SLOT,
			.length = SLOT,
			.lkey = f->end->mr->lkey,
		};
		struct ibv_recv_wr wr = {.wr_id = (uint64_t)ID_RECV << 56 | f->receives,
					 .sg_list = &sge,
					 .num_sge = 1},
				   *bad;

		if (!EXPECT(ibv_post_recv(f->qp, &wr, &bad) == 0, "ibv_post_recv"))
			return;
		f->receives++;
	}
}

void post_send(struct flow *f)
{
	uint32_t bytes = message_bytes(f->seed, f->sent);
	uint8_t *at = f->buffer + SEND_AT + f->sent % WINDOW * SLOT;
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = bytes, .lkey = f->end->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)ID_SEND << 56 | f->sent,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND},
			   *bad;

	pattern_fill(at, bytes, f->seed, f->sent * SLOT);
	if (EXPECT(ibv_post_send(f->qp, &wr, &bad) == 0, "ibv_post_send"))
		f->sent++;
}

static enum ibv_wr_opcode rdma_opcode(const struct flow *f, uint64_t n)
{
	static const struct {
		enum kind kind;
		enum ibv_wr_opcode opcode;
	} of[] = {{KIND_WRITE, IBV_WR_RDMA_WRITE},
		  {KIND_READ, IBV_WR_RDMA_READ},
		  {KIND_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD}};

	while (!(f->kinds & of[n % 3].kind))
		n++;
	return of[n % 3].opcode;
}

static void post_rdma(struct flow *f)
{
	enum ibv_wr_opcode op = rdma_opcode(f, f->rdma);
	struct ibv_sge sge = {
		.addr = (uintptr_t)f->buffer + LANDING_AT + f->rdma % WINDOW * SLOT,
		.length = op == IBV_WR_ATOMIC_FETCH_AND_ADD
				  ? 8
				  : message_bytes(f->seed, f->rdma + 1000),
		.lkey = f->end->mr->lkey,
	};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)ID_RDMA << 56 | f->rdma,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op},
			   *bad;

	wr.wr.rdma.remote_addr = f->peer.addr + (op == IBV_WR_RDMA_READ ? STATIC_AT : TARGET_AT);
	wr.wr.rdma.rkey = f->peer.rkey;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = f->peer.addr + TARGET_AT;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = f->peer.rkey;
	}
	if (EXPECT(ibv_post_send(f->qp, &wr, &bad) == 0, "ibv_post_send"))
		f->rdma++;
}

void flow_post(struct flow *f)
{
	if (f->failed || f->stop)
		return;
	post_receives(f);
	if ((f->kinds & KIND_SEND) && f->sent - f->sends_done < WINDOW)
		post_send(f);
	if ((f->kinds & ~(unsigned int)KIND_SEND) && f->rdma - f->rdma_done < WINDOW)
		post_rdma(f);
}

/* --- completing ------------------------------------------------------------------ */

static uint64_t number_of(const struct ibv_wc *wc)
{
	return wc->wr_id & ((1ull << 56) - 1);
}

/* A message that arrives with success is whole, and the next one of its sender. */
static void received(struct flow *f, const struct ibv_wc *wc)
{
	uint64_t n = f->received++;
	uint32_t bytes = message_bytes(f->seed, n);
	int64_t at;

	EXPECT(number_of(wc) == n, "receive %lu completes as %lu", n, number_of(wc));
	if (wc->status != IBV_WC_SUCCESS)
		return;
	f->messages++;
	EXPECT(wc->byte_len == bytes, "message %lu has %u bytes instead of %u", n, wc->byte_len,
	       bytes);
	at = pattern_check(f->buffer + RECV_AT + n % WINDOW * SLOT, bytes, f->seed ^ 1, n * SLOT);
	EXPECT(at < 0, "message %lu of %u bytes is not what was sent from byte %ld on", n, bytes,
	       (long)at);
}

static void rdma_done(struct flow *f, const struct ibv_wc *wc)
{
	uint64_t n = f->rdma_done++;

	EXPECT(number_of(wc) == n, "request %lu completes as %lu", n, number_of(wc));
	if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RDMA_READ)
		EXPECT(pattern_check(f->buffer + LANDING_AT + n % WINDOW * SLOT, wc->byte_len,
				     STATIC_SEED, 0) == -1,
		       "READ %lu brought something else", n);
}

static void completed(struct flow *f, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS && !f->failed) {
		f->failed = true;
		f->first_error = wc->status;
	}
	switch (wc->wr_id >> 56) {
	case ID_RECV:
		received(f, wc);
		break;
	case ID_SEND:
		EXPECT(number_of(wc) == f->sends_done, "send %lu completes as %lu", f->sends_done,
		       number_of(wc));
		f->sends_done++;
		break;
	default:
		rdma_done(f, wc);
	}
}

int flows_poll(struct ibv_cq *cq, struct flow **flows, int count)
{
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(cq, 8, wc);

	EXPECT(n >= 0, "ibv_poll_cq: %d", n);
	for (int i = 0; i < n; i++) {
		struct flow *f = NULL;

		for (int k = 0; k < count; k++)
			if (flows[k] && flows[k]->qp && flows[k]->qp->qp_num == wc[i].qp_num)
				f = flows[k];
		if (EXPECT(f, "a completion of unknown QP 0x%x", wc[i].qp_num))
			completed(f, &wc[i]);
	}
	return n;
}

bool flow_idle(const struct flow *f)
{
	return f->sent == f->sends_done && f->rdma == f->rdma_done;
}
