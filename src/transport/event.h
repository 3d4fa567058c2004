/* SPDX-License-Identifier: MIT */
/* Asynchronous events about queue pairs, raised in the owner's context by whoever causes them. */
#ifndef AV_TRANSPORT_EVENT_H
#define AV_TRANSPORT_EVENT_H

#include <infiniband/verbs.h>

#include "segment/doorbell.h"
#include "queue/qp.h"

/* Context: no execution right or lock held; makes system calls. */
static inline void av_event_raise(const struct av_qp_end *end, uint32_t qpn,
				  enum ibv_event_type event)
{
	struct av_doorbell_record record = {
		.event = event,
		.kind = AV_SLAB_QP,
		.index = end->qp->index,
		.id = qpn,
	};

	(void)av_doorbell_ring(end->seg, AV_DOORBELL_ASYNC, &record);
}

/* Raise LAST_WQE_REACHED, if the queue pair's receives on a shared queue have ended. Context: @resp
 * is not held; makes system calls. */
static inline void av_event_last_wqe(const struct av_qp_end *end)
{
	if (atomic_exchange(&end->qp->last_wqe, 0))
		av_event_raise(end, atomic_load(&end->qp->qpn), IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* Events that an executor raises when it holds no right any more. */
struct av_events {
	int at[2]; /* enum ibv_event_type */
	unsigned int count;
};

/* Raise them at queue pair @qpn. Context: no right held. */
static inline void av_events_raise(const struct av_qp_end *end, uint32_t qpn,
				   const struct av_events *events)
{
	for (unsigned int i = 0; i < events->count; i++)
		av_event_raise(end, qpn, (enum ibv_event_type)events->at[i]);
}

#endif
