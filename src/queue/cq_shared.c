/* SPDX-License-Identifier: MIT */
#include "queue/cq_shared.h"

#include "segment/doorbell.h"

static void ring(struct av_seg *seg, uint32_t doorbell, uint32_t event, uint32_t index, uint32_t id)
{
	struct av_doorbell_record record = {
		.event = event, .kind = AV_SLAB_CQ, .index = index, .id = id};

	(void)av_doorbell_ring(seg, doorbell, &record);
}

void av_cq_tell(struct av_seg *seg, uint32_t index)
{
	const struct av_cq_shared *cq = av_cq_at(seg, index);
	uint32_t doorbell = cq->doorbell;

	if (doorbell)
		ring(seg, doorbell, 0, index, atomic_load_explicit(&cq->id, memory_order_relaxed));
}

void av_cq_tell_async(struct av_seg *seg, uint32_t index, uint32_t id, enum ibv_event_type event)
{
	ring(seg, AV_DOORBELL_ASYNC, event, index, id);
}
