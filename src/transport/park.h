/* SPDX-License-Identifier: MIT */
/* Prepare a waiting request to be resumed by another process. */
#ifndef AV_TRANSPORT_PARK_H
#define AV_TRANSPORT_PARK_H

#include "queue/qp.h"

/*
 * Copy a small payload of a waiting request, at the head of @end's queue, into the request. Often
 * the receiver's process resumes it, which then needs no access to the requester's memory: that
 * would cost more. Nobody can tell: the program may not change the buffer before the completion.
 * What cannot be copied stays as it is. Context: the requester's right @exec is held. Does nothing
 * outside the requester's process.
 */
void av_park_payload(const struct av_qp_end *end, struct av_sq_wqe *wqe);

#endif
