/* SPDX-License-Identifier: MIT */
/*
 * What is left to do for a request once it is completed: the receiver's process is woken, or the
 * datagram leaves.
 *
 * An acknowledgement precedes an answer. Who is woken may take the core of whoever wakes it, answer
 * at once, and have the answer completed. So the requester's completion is appended before.
 * The members of a multicast group are woken at once: there may be any number of them.
 */
#ifndef AV_TRANSPORT_AFTER_H
#define AV_TRANSPORT_AFTER_H

#include "queue/cq.h"
#include "transport/receive.h"

struct av_net_burst;

/* All zero: nothing. */
struct av_after {
	struct av_seg *seg; /* of the CQ whose event this is */
	struct av_cq_bell bell;
	struct av_xrc_use srq;	    /* holds @seg; if not, the requester's peer does */
	struct av_net_burst *burst; /* NULL: nothing leaves in a packet */
};

/* Do it. Context: the requester's right @exec is held, and the peer's segment, if it is @seg. */
void av_after_do(struct av_after *after);

#endif
