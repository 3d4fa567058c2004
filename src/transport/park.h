/* SPDX-License-Identifier: MIT */
/* Preparing a request for being resumed by another process. */
#ifndef AV_TRANSPORT_PARK_H
#define AV_TRANSPORT_PARK_H

#include "queue/qp.h"

/**
 * av_park_payload() - take a small payload of a request that waits into the request itself
 * @wqe: at the head of the queue of @end, in its ring
 *
 * Whoever resumes the request, often the receiver's process, needs no way into the requester's
 * memory then, which costs more than the message. The program may not change the buffer before the
 * completion, so nobody can tell (ibv_post_send(3)). Where it is not possible the request stays as
 * it is. Context: the requester's execution right is held; does nothing in another process than the
 * requester's.
 */
void av_park_payload(const struct av_qp_end *end, struct av_sq_wqe *wqe);

#endif
