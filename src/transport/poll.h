/* SPDX-License-Identifier: MIT */
/* Taking completions: what ibv_poll_cq() does. */
#ifndef AV_TRANSPORT_POLL_H
#define AV_TRANSPORT_POLL_H

#include <infiniband/verbs.h>

#include "segment/segment.h"
#include "queue/qp.h"

/**
 * av_poll() - take up to @count completions of an own CQ, oldest first
 * @stamp_ns: out, the time at which each was appended, if the CQ records it; NULL: not wanted
 *
 * Frees the slots of the completed requests, and places staged payload. A call that finds nothing
 * may copy a piece of a message that is on its way (transport/assist.h). After about a hundred
 * calls in a row that found nothing, yields the core.
 * Context: any thread of the owner; holds no lock while it places payload.
 * Return:  number of completions, or -EIO: the CQ has overrun and is empty
 * Source: ibv_poll_cq(3).
 */
int av_poll(struct av_seg *seg, struct av_cq_shared *cq, int count, struct ibv_wc *wc,
	    uint64_t *stamp_ns);

#endif
