/* SPDX-License-Identifier: MIT */
/* Prepare a waiting request to be resumed by another process. */
#ifndef AV_TRANSPORT_PARK_H
#define AV_TRANSPORT_PARK_H

#include "queue/qp.h"

/**
 * av_park_payload() - copy a small payload of a waiting request into the request itself
 * @wqe: at the head of the queue of @end, in its ring
 *
 * Often the receiver's process resumes the request. It then needs no access to the requester's
 * memory, which would cost more than the message. Nobody can tell the difference: the program may
 * not change the buffer before the completion (ibv_post_send(3)). A request whose payload cannot be
 * copied stays as it is.
 * Context: the requester's right @exec is held. Does nothing outside the requester's process.
 */
void av_park_payload(const struct av_qp_end *end, struct av_sq_wqe *wqe);

#endif
