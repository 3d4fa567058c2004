/* SPDX-License-Identifier: MIT */
/* Taking completions: what ibv_poll_cq() does. */
#ifndef AV_TRANSPORT_POLL_H
#define AV_TRANSPORT_POLL_H

#include <infiniband/verbs.h>

#include "segment/segment.h"
#include "queue/qp.h"

/**
 * av_poll() - take up to @count completions of an own CQ, oldest first
 *
 * Frees the slots of the requests they complete, and places payload that was staged. After about a
 * hundred calls in a row that found nothing, yields the core; one that found nothing may copy a
 * piece of a message that is on its way (transport/assist.h). Context: any thread of the owner; no
 * lock held while payload is placed. Return:  number of completions, or -EIO: the CQ has overrun
 * and is empty. ibv_poll_cq(3).
 */
int av_poll(struct av_seg *seg, struct av_cq_shared *cq, int count, struct ibv_wc *wc);

/* The same, with the time at which each was appended in @stamp_ns, if the CQ records it. */
int av_poll_stamped(struct av_seg *seg, struct av_cq_shared *cq, int count, struct ibv_wc *wc,
		    uint64_t *stamp_ns);

#endif
