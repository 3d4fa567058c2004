/* SPDX-License-Identifier: MIT */
/* How a CQ's owner is told of it: by its completion channel, or by an asynchronous event. */
#ifndef AV_QUEUE_CQ_DOORBELL_H
#define AV_QUEUE_CQ_DOORBELL_H

#include <infiniband/verbs.h>

#include "queue/cq_shared.h"

/*
 * Ring the completion channel, if the CQ has one.
 * Context: any process; no lock is held. May make a system call.
 */
void av_cq_tell(struct av_seg *seg, uint32_t index);

/* An asynchronous event about the CQ called @id. Context: any process; no lock is held */
void av_cq_tell_async(struct av_seg *seg, uint32_t index, uint32_t id, enum ibv_event_type event);

#endif
