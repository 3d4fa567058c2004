/* SPDX-License-Identifier: MIT */
/*
 * The receiving half of a message: the receive request it consumes, how its bytes get there, its
 * completion. All functions: the responder's execution right is held.
 */
#ifndef AV_TRANSPORT_DELIVER_H
#define AV_TRANSPORT_DELIVER_H

#include "base/compiler.h"
#include "memory/translate.h"
#include "queue/qp.h"
#include "transport/rules.h"

/* SENDs up to this size into another process are staged and placed by the receiver's poll; see
 * docs/ARCHITECTURE.md. */
#define AV_STAGE_LIMIT 16384u

/* Who receives: the queue pair the message came to, whose execution right is held, and where its
 * receive requests are.
 */
struct av_receiver {
	const struct av_qp_end *rsp;
	struct av_seg *seg; /* of the receive queue, its CQ and its buffers */
	uint32_t rq, cq;
};

/* The receive queue of the queue pair itself, or the SRQ it was created with. */
static inline struct av_receiver av_receiver_of(const struct av_qp_end *rsp)
{
	return (struct av_receiver){rsp, rsp->seg, rsp->qp->rq, rsp->qp->recv_cq};
}

struct av_message {
	const struct av_receiver *to;
	uint32_t src_qpn;
	uint16_t slid;
	uint8_t sl;
	uint32_t opcode;   /* enum ibv_wc_opcode */
	uint32_t wc_flags; /* enum ibv_wc_flags */
	uint32_t imm;
	uint32_t invalidate; /* rkey that the message invalidates before it completes, 0: none */
	uint64_t bytes;
	bool solicited;
};

/*
 * A message for that queue pair is about to be executed: have the cache lines that it will need,
 * which its owner has written, brought in together instead of one after the other. A hint; no
 * execution right is needed.
 */
void av_deliver_prefetch(const struct av_qp_end *rsp);

/**
 * av_deliver_request() - take the receive request that the message will use
 *
 * If there is none for a message of a connection, leaves a mark for the receiver's next post and
 * looks again for some microseconds. Afterwards exactly one of av_deliver_send() and
 * av_deliver_completion() (which complete it, unless they say otherwise), av_deliver_error() and
 * av_deliver_cancel() is called. Return: the request, or NULL: receiver not ready
 */
const struct av_rq_wqe *av_deliver_request(const struct av_receiver *to);

/* Put the request back: the fault is not the receiver's. */
void av_deliver_cancel(const struct av_receiver *to);

/**
 * av_deliver_send() - bring the bytes of a SEND to the receive request, and complete it
 * @from: the bytes; @request: from av_deliver_request()
 * Return: AV_FAULT_NONE: completed. Not completed: AV_FAULT_RECV_SHORT, AV_FAULT_RECV_PROT;
 * AV_FAULT_LOC_PROT (a sender's buffer); AV_FAULT_FORBIDDEN (the bytes are in a process whose
 * memory this one may not read, or there is no staging buffer left); AV_FAULT_BUSY (a key is being
 * changed). AV_FAULT_RECV_CQ: lost with the CQ.
 */
AV_MUST_USE enum av_fault av_deliver_send(const struct av_message *msg, const struct av_spans *from,
					  const struct av_rq_wqe *request);

/* Complete the receive request of a message whose bytes are in place (RDMA WRITE with immediate).
 */
AV_MUST_USE enum av_fault av_deliver_completion(const struct av_message *msg,
						const struct av_rq_wqe *request);

/* Complete the taken request, or if none is taken the next one if there is one, with an error. */
void av_deliver_error(const struct av_receiver *to, enum ibv_wc_status status);

/* Complete all receive requests as flushed; those of a shared queue stay for the others. */
void av_deliver_flush(const struct av_qp_end *rsp);

#endif
