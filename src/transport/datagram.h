/* SPDX-License-Identifier: MIT */
/*
 * The unreliable datagram service. Each request names its destination: one queue pair or a
 * multicast group.
 */
#ifndef AV_TRANSPORT_DATAGRAM_H
#define AV_TRANSPORT_DATAGRAM_H

#include "transport/execute.h"

/**
 * av_datagram_execute() - execute one request of a UD queue pair
 * @peer: where the last datagram went, guarded by @req's @exec right; holds a use of its segment
 *
 * As av_execute(), except that the request names the destination, and that it never waits for a
 * receiver: a message that cannot be received is lost. It waits (AV_PARK_FULL) while the interface
 * has no room.
 */
struct av_outcome av_datagram_execute(const struct av_qp_end *req, struct av_qp_end *peer,
				      const struct av_sq_wqe *wqe, struct av_after *after);

/* Does a request leave this host? A group's may have members on others, too. Context: any */
bool av_datagram_leaves(const struct av_qp_end *req, const struct av_sq_wqe *head);

struct av_net_packet;

/*
 * A datagram has come as a packet, for a queue pair of this process or a group. @struck: rules of
 * faults have been asked about it. Context: within the receiver; no right held
 */
void av_datagram_arrived(const struct av_net_packet *packet, bool struck);

#endif
