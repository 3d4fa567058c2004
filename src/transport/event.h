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

#endif
