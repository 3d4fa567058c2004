/* SPDX-License-Identifier: MIT */
/* Asynchronous events about queue pairs, raised in the owner's context by whoever causes them. */
#ifndef AV_TRANSPORT_EVENT_H
#define AV_TRANSPORT_EVENT_H

#include <infiniband/verbs.h>

#include "hca/bell.h"
#include "queue/qp.h"

/* Context: no token or lock held (rings a bell, which makes system calls). */
static inline void av_event_raise(const struct av_qp_end *end, uint32_t qpn, enum ibv_event_type event)
{
	struct av_bell_record record = {
		.event = event,
		.kind = AV_SLAB_QP,
		.index = end->qp->index,
		.id = qpn,
	};

	(void)av_bell_ring(end->seg, AV_BELL_ASYNC, &record);
}

#endif
