/* SPDX-License-Identifier: MIT */
#include "queue/srq_limit.h"

#include "base/patience.h"
#include "segment/doorbell.h"

/* The word: the limit, and above it since when somebody raises the event; 0: nobody does. */
static uint64_t with_since(uint32_t since, uint32_t limit)
{
	return (uint64_t)since << 32 | limit;
}

static uint32_t since_of(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* In milliseconds; never 0. */
static uint32_t now(void)
{
	return (uint32_t)(av_now_coarse_ns() / 1000000) | 1;
}

static void raise_event(struct av_seg *seg, const struct av_rq_shared *rq)
{
	struct av_doorbell_record record = {
		.event = IBV_EVENT_SRQ_LIMIT_REACHED,
		.kind = AV_SLAB_RQ,
		.index = rq->index,
		.id = atomic_load(&rq->id),
	};

	(void)av_doorbell_ring(seg, AV_DOORBELL_ASYNC, &record);
}

void av_srq_limit_check(struct av_seg *seg, struct av_rq_shared *rq)
{
	uint64_t word = atomic_load(&rq->limit), mine;
	uint32_t limit = (uint32_t)word, since = since_of(word);

	if (atomic_load(&rq->tail) - av_rq_taken(rq) >= limit)
		return;
	if (since && now() - since <= AV_STUCK_NS / 1000000)
		return;
	mine = with_since(now(), limit);
	if (!atomic_compare_exchange_strong(&rq->limit, &word, mine))
		return;
	raise_event(seg, rq);
	atomic_compare_exchange_strong(&rq->limit, &mine, 0);
}

void av_srq_limit_set(struct av_seg *seg, struct av_rq_shared *rq, uint32_t limit)
{
	atomic_store(&rq->limit, with_since(0, limit));
	av_srq_limit_look(seg, rq);
}
