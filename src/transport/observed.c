/* SPDX-License-Identifier: MIT */
/* Who observes requests and packets of observed contexts; and one observer, of changed buffers. */
#include "transport/observed.h"

#include "base/random.h"
#include "base/thread.h"
#include "transport/transport.h"

#define PIECE 1024u

/* The sum of the request at the head of a queue pair. Guarded by its @req_lock. */
struct entry {
	uint32_t qpn, number; /* which request; 0: none */
	uint64_t sum;
	uint64_t changes; /* of the queue pair so far */
};

struct av_send_sums {
	struct entry at[AV_OBSERVED_QPS];
};

/* It misses a change with probability 2^-64. */
static bool sum_spans(struct av_spans left, uint64_t bytes, uint64_t *sum)
{
	uint8_t piece[PIECE];

	*sum = AV_FNV1A;
	for (uint64_t n; bytes > 0; bytes -= n) {
		struct av_spans to, from = left;

		n = bytes < PIECE ? bytes : PIECE;
		av_spans_local(&to, NULL, piece, n);
		from.bytes = n;
		if (av_xfer_copy(&to, &from, av_now_coarse_ns()) != AV_FAULT_NONE)
			return false;
		*sum = av_fnv1a(*sum, piece, n);
		av_spans_skip(&left, n);
	}
	return true;
}

bool av_send_sum(const struct av_qp_ref *end, const struct av_sq_wqe *wqe, uint64_t *sum)
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
	struct av_send_sums *sums =
		make ? AV_MADE_ONCE(&end->seg->sums, 1) : atomic_load(&end->seg->sums);

	return sums && end->qp->index < AV_OBSERVED_QPS ? &sums->at[end->qp->index] : NULL;
}

/* The request at the head of an own queue begins to wait, or is tried again. @req_lock is held. */
static void sum_waits(const struct av_qp_ref *end, const struct av_sq_wqe *wqe)
{
	AV_UNCANCELLED;
	struct entry *e = get_send_sum_entry(end, true);
	uint32_t qpn = atomic_load(&end->qp->qpn);
	uint64_t sum;

	if (!e || !av_send_sum(end, wqe, &sum))
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

static bool sum_may_begin(struct av_observed *o)
{
	if (atomic_load(&o->end->qp->wait_reason) != AV_WAIT_NONE)
		sum_waits(o->end, o->wqe);
	return true;
}

/* --- all observers ---------------------------------------------------------------- */

static const struct av_observer sums_observer = {
	.bit = AV_OBSERVER_MISUSE,
	.may_begin = sum_may_begin,
	.waits = sum_waits,
};

/* In this order: captures note the time of a request before it is held, or a fault strikes it. */
static const struct av_observer *const observers[] = {&sums_observer, &av_capture_observer,
						      &av_strict_observer, &av_inject_observer};

bool av_observed_may_begin(struct av_observed *o, uint32_t bits, const struct av_qp_ref *end,
			   struct av_qp_ref *peer, const struct av_sq_wqe *wqe)
{
	bool may = true;

	*o = (struct av_observed){.observers = bits, .end = end, .peer = peer, .wqe = wqe};
	for (size_t i = 0; may && i < AV_ARRAY_SIZE(observers); i++)
		if (bits & observers[i]->bit)
			may = observers[i]->may_begin(o);
	return may;
}

void av_observed_done(const struct av_observed *o, const struct av_outcome *result)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(observers); i++)
		if (o->observers & observers[i]->bit && observers[i]->done)
			observers[i]->done(o, result);
}

void av_observed_waits(const struct av_qp_ref *end, const struct av_sq_wqe *wqe)
{
	uint32_t bits = atomic_load(&end->seg->head->observers);

	for (size_t i = 0; i < AV_ARRAY_SIZE(observers); i++)
		if (bits & observers[i]->bit && observers[i]->waits)
			observers[i]->waits(end, wqe);
}

bool av_observed_packet(struct av_seg *seg, const struct av_net_packet *packet)
{
	uint32_t bits = atomic_load(&seg->head->observers);

	for (size_t i = 0; i < AV_ARRAY_SIZE(observers); i++)
		if (bits & observers[i]->bit && observers[i]->packet &&
		    observers[i]->packet(seg, packet))
			return true;
	return false;
}
