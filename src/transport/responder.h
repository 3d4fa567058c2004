/* SPDX-License-Identifier: MIT */
/*
 * The responder of a connected queue pair: find it by address vector and destination number, see
 * whether it expects this requester, know where it receives, count what it got.
 */
#ifndef AV_TRANSPORT_RESPONDER_H
#define AV_TRANSPORT_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/packet.h"
#include "observe/check.h"
#include "observe/counters.h"
#include "queue/qp.h"
#include "wire/message.h"

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

/* Does a queue pair in this state answer requests? RTR, RTS, SQD and SQE do. */
#define AV_RESPONDER_ANSWERS(state) ((state) >= IBV_QPS_RTR && (state) <= IBV_QPS_SQE)

/* The type of queue pair that one of this type is connected to. */
#define AV_RESPONDER_TYPE(type) ((type) == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : (type))

/*
 * Would @req's packets reach @rsp, and be the ones that it expects next?
 * Context: both execution rights are held.
 * Return:  AV_CHECK_NONE, or why @rsp does not answer
 */
static inline enum av_check av_responder_expects(const struct av_qp_shared *rsp,
						 const struct av_qp_shared *req)
{
	uint32_t state = atomic_load_explicit(&rsp->state, memory_order_relaxed);

	if (atomic_load_explicit(&rsp->qpn, memory_order_relaxed) != req->attr.dest_qp_num)
		return AV_CHECK_PEER_GONE;
	if (!AV_RESPONDER_ANSWERS(state))
		return AV_CHECK_PEER_STATE;
	if (rsp->type != AV_RESPONDER_TYPE(req->type))
		return AV_CHECK_PEER_TYPE;
	if (rsp->attr.dest_qp_num != atomic_load_explicit(&req->qpn, memory_order_relaxed))
		return AV_CHECK_PEER_OTHER;
	return req->type == IBV_QPT_UC || rsp->expected_psn == req->next_psn ? AV_CHECK_NONE
									     : AV_CHECK_PEER_PSN;
}

/*
 * Where a message for the responder finds its receive request.
 * Context: the queue pair's right @resp is held.
 */
struct av_receiver {
	const struct av_qp_end *rsp; /* the queue pair that it came to */
	struct av_seg *seg;	     /* of the receive queue, of its CQ and of its buffers */
	uint32_t rq, cq;
};

/* The receive queue of the queue pair itself, or the SRQ it was created with. */
static inline struct av_receiver av_receiver_of(const struct av_qp_end *rsp)
{
	return (struct av_receiver){rsp, rsp->seg, rsp->qp->rq, rsp->qp->recv_cq};
}

/* Packets of a message of @bytes: at least one. */
static inline uint32_t av_packets(const struct av_qp_shared *qp, uint64_t bytes)
{
	uint32_t mtu = av_mtu_bytes(qp->attr.path_mtu);

	return av_likely(bytes <= mtu) ? 1 : av_wire_packets(bytes, mtu);
}

/*
 * Count an executed message of @packets.
 * Context: the execution right of that side is held.
 */
static inline void av_traffic_count(struct av_traffic *t, uint32_t kind, uint64_t bytes,
				    uint32_t packets)
{
	t->messages[kind]++;
	t->bytes[kind] += bytes;
	if (av_unlikely(packets > 1) && kind < AV_TRAFFIC_LONG)
		t->more_packets[kind] += packets - 1;
}

#endif
