/* SPDX-License-Identifier: MIT */
#include "queue/srq_limit.h"

#include "segment/doorbell.h"

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
	uint32_t left = atomic_load(&rq->tail) - av_rq_taken(rq);
	uint64_t claim = left < av_srq_limit(rq) ? av_raise_begin(&rq->limit) : 0;

	if (claim) {
		raise_event(seg, rq);
		av_raise_end(&rq->limit, claim);
	}
}

void av_srq_limit_set(struct av_seg *seg, struct av_rq_shared *rq, uint32_t limit)
{
	av_raise_arm(&rq->limit, limit);
	av_srq_limit_look(seg, rq);
}
