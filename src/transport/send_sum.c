/* SPDX-License-Identifier: MIT */
/* Sums over the buffers of requests that wait. */
#include "transport/send_sum.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"
#include "memory/translate.h"
#include "memory/xfer.h"

#define PLACES (AV_SLAB_CHUNKS * AV_OBJ_CHUNK)
#define PIECE  1024u

/* The sum of the request at the head of a queue pair. Guarded by its right @exec. */
struct entry {
	uint32_t qpn, number; /* which request; 0: none */
	uint64_t sum;
	uint64_t changes; /* of the queue pair so far */
};

struct av_send_sums {
	struct entry at[PLACES];
};

/* FNV-1a, by words. It is quick, and misses a change with probability 2^-64. */
static uint64_t hash_send_bytes(uint64_t sum, const uint8_t *data, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		sum = (sum ^ data[i]) * 0x100000001b3ull;
	return sum;
}

static bool sum_spans(struct av_spans left, uint64_t bytes, uint64_t *sum)
{
	uint8_t piece[PIECE];

	*sum = 0xcbf29ce484222325ull;
	for (uint64_t n; bytes > 0; bytes -= n) {
		struct av_spans to, from = left;

		n = bytes < PIECE ? bytes : PIECE;
		av_spans_local(&to, NULL, piece, n);
		from.bytes = n;
		if (av_xfer_copy(&to, &from, av_now_coarse_ns()) != AV_FAULT_NONE)
			return false;
		*sum = hash_send_bytes(*sum, piece, n);
		av_spans_skip(&left, n);
	}
	return true;
}

/* Return:  false: there is nothing to sum, or it cannot be reached */
static bool sum_send_buffers(const struct av_qp_ref *end, const struct av_sq_wqe *wqe,
			     uint64_t *sum)
{
	uint64_t bytes = wqe->bytes < AV_SEND_SUM_BYTES ? wqe->bytes : AV_SEND_SUM_BYTES;
	struct av_spans spans;
	bool ok;

	if (!av_wr_opcode(wqe->opcode)->source || (wqe->flags & IBV_SEND_INLINE) || !bytes ||
	    wqe->count > AV_MAX_SGE ||
	    av_mem_get_list(end->seg, end->qp->pd, 0, wqe->sge, wqe->count, bytes, &spans) !=
		    AV_CHECK_NONE)
		return false;
	ok = sum_spans(spans, bytes, sum);
	av_mem_put_list(&spans);
	return ok;
}

static struct entry *get_send_sum_entry(const struct av_qp_ref *end, bool make)
{
	struct av_send_sums *sums = atomic_load(&end->seg->sums), *none = NULL;

	if (!sums && make) {
		sums = calloc(1, sizeof(*sums));
		if (sums && !atomic_compare_exchange_strong(&end->seg->sums, &none, sums)) {
			free(sums);
			sums = none;
		}
	}
	return sums && end->qp->index < PLACES ? &sums->at[end->qp->index] : NULL;
}

void av_send_sum_look(const struct av_qp_ref *end, const struct av_sq_wqe *wqe)
{
	AV_UNCANCELLED;
	struct entry *e = get_send_sum_entry(end, true);
	uint32_t qpn = atomic_load(&end->qp->qpn);
	uint64_t sum;

	if (!e || !sum_send_buffers(end, wqe, &sum))
		return;
	if (e->qpn != qpn)
		*e = (struct entry){.qpn = qpn};
	if (e->number == end->qp->sq_next + 1)
		e->changes += e->sum != sum;
	e->number = end->qp->sq_next + 1;
	e->sum = sum;
}

uint64_t av_send_sum_changes(const struct av_qp_ref *end)
{
	const struct entry *e = get_send_sum_entry(end, false);

	return e && e->qpn == atomic_load(&end->qp->qpn) ? e->changes : 0;
}

void av_send_sum_end(struct av_seg *seg)
{
	free(atomic_exchange(&seg->sums, NULL));
}
