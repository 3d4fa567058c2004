/* SPDX-License-Identifier: MIT */
/*
 * A responder on connected services: does it expect this requester, and how do both advance after a
 * request?
 */
#ifndef AV_TRANSPORT_RESPONDER_H
#define AV_TRANSPORT_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "observe/counters.h"
#include "queue/qp.h"

/* Packets of a message of @bytes: at least one. */
static inline uint32_t av_packets(const struct av_qp_shared *qp, uint64_t bytes)
{
	unsigned int shift = 7 + qp->attr.path_mtu; /* IBV_MTU_256 is 1 */

	if (av_likely(bytes <= 1ull << shift))
		return 1;
	return (uint32_t)((bytes + (1ull << shift) - 1) >> shift);
}

/* Does a queue pair in this state answer requests? */
static inline bool av_responder_answers(uint32_t state)
{
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
	       state == IBV_QPS_SQE;
}

/*
 * Would @req's packets reach @rsp, and be the ones that it expects next?
 * Context: both execution rights are held.
 */
static inline bool av_responder_expects(const struct av_qp_shared *rsp,
					const struct av_qp_shared *req)
{
	uint32_t opposite = req->type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : req->type;

	if (!av_responder_answers(atomic_load_explicit(&rsp->state, memory_order_relaxed)))
		return false;
	if (rsp->type != opposite ||
	    rsp->attr.dest_qp_num != atomic_load_explicit(&req->qpn, memory_order_relaxed))
		return false;
	return req->type == IBV_QPT_UC || rsp->expected_psn == req->next_psn;
}

/* The kind of message that a request of this opcode makes, for opcodes that go to a peer. */
extern const uint8_t av_traffic_kind[] __attribute__((visibility("hidden")));

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

/*
 * Advance both sides after a message of a reliable connection that was executed and acknowledged.
 * Context: both execution rights are held.
 */
static inline void av_responder_advance(struct av_qp_shared *rsp, struct av_qp_shared *req,
					uint32_t opcode, uint64_t bytes)
{
	uint32_t n = av_packets(req, bytes), kind = av_traffic_kind[opcode];

	av_traffic_count(&req->counters.req.traffic, kind, bytes, n);
	av_traffic_count(&rsp->counters.rsp.traffic, kind, bytes, n);
	req->next_psn = (req->next_psn + n) & 0xffffff;
	rsp->expected_psn = (rsp->expected_psn + n) & 0xffffff;
	rsp->msn++;
}

#endif
