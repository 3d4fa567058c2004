/* SPDX-License-Identifier: MIT */
/* Find the destination of a connected queue pair, by its address vector and destination number. */
#ifndef AV_TRANSPORT_CONNECT_H
#define AV_TRANSPORT_CONNECT_H

#include "queue/qp.h"

/* The slow part of av_connect(). */
void av_connect_anew(const struct av_qp_end *end, struct av_qp_end *peer);

/**
 * av_connect() - make @peer the destination of @end, if it is not already
 * @peer: a cached destination, guarded by @end's right @exec; holds a use of its segment
 *
 * Afterwards peer->qp is NULL if this host has no such queue pair, or not at that address.
 * Context: @end's right @exec is held.
 */
static inline void av_connect(const struct av_qp_end *end, struct av_qp_end *peer)
{
	if (av_unlikely(!peer->qp || atomic_load_explicit(&peer->qp->qpn, memory_order_relaxed) !=
					     end->qp->attr.dest_qp_num))
		av_connect_anew(end, peer);
}

/* Does the address vector lead to the port of that context? Context: any thread. */
bool av_at_address(const struct ibv_ah_attr *ah, const struct av_seg *seg);

/* Drop a cached destination. */
void av_disconnect(struct av_qp_end *peer);

#endif
