/* SPDX-License-Identifier: MIT */
/*
 * Receive requests: which one a message takes, how its bytes get there, and what waits for a
 * poll.
 */
#ifndef AV_TRANSPORT_RECEIVE_H
#define AV_TRANSPORT_RECEIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "memory/key.h"
#include "memory/translate.h"
#include "queue/cq.h"
#include "queue/qp.h"
#include "transport/rules.h"

/*
 * Payload that comes with a completion: in its CQ entry, in the receive request's slot, or in
 * bounce buffers. Whoever takes the completion places the payload.
 */

/* Everything that placing needs, copied out of shared memory. */
struct av_placement {
	struct av_cqe cqe;
	uint32_t pd;
	uint32_t count;
	struct ibv_sge sge[AV_MAX_SGE];
	uint8_t payload[AV_MAX_INLINE_RECV]; /* the payload from the request's slot */
};

/*
 * Copy the entry's payload to @place, which knows no buffers yet.
 * Context: poll_lock is held; the entry has payload.
 */
void av_place_keep(struct av_placement *place, const struct av_cqe *cqe);

/*
 * Free the slot of the completed request. The queue exists, since its completions are purged before
 * it is destroyed.
 * @place: out, the buffers for the payload; NULL: it has none
 * Context: poll_lock is held.
 */
void av_place_free_slot(struct av_seg *seg, const struct av_cqe *cqe, struct av_placement *place);

/**
 * av_place() - place the payload in @place, and release its bounce buffers
 *
 * Context: owner's thread, no lock held; waits for pages.
 * Return:  false: the memory is gone
 */
AV_MUST_USE bool av_place(struct av_seg *seg, struct av_placement *place);

/*
 * The receiving half of a message: its receive request, the way of its bytes, its completion.
 *
 * Context: all functions: the responder's right @resp is held.
 */

struct av_coop_source;

/*
 * SENDs up to this size go through bounce buffers if the receiver's memory is out of reach. The
 * receiver's poll places them: docs/ARCHITECTURE.md.
 */
#define AV_BOUNCE_LIMIT 16384u

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
	uint64_t now_ns; /* coarse clock */
	bool solicited;
	/*
	 * The source of a message of one keyed element that this process has posted. NULL: the
	 * receiver's pollers cannot help to copy it.
	 */
	const struct av_coop_source *only;
	struct av_odp_message *message; /* in pieces: page faults of its buffers so far */
	struct av_cq_bell *later; /* out: the event of its completion, for av_cq_ring(). NULL: it is
				     sent at once */
};

/*
 * Prefetch the cache lines that the next message for @rsp needs. Its owner has written them; this
 * brings them in together instead of one after the other. A hint, which needs no execution right.
 */
void av_receive_prefetch(const struct av_qp_ref *rsp);

/**
 * av_receive_take() - take the receive request that the message will use
 *
 * If a connected receiver has no request, leaves a mark for its next post, and looks again for some
 * microseconds. Afterwards call exactly one of av_receive_message(), av_receive_done(),
 * av_receive_error() and av_receive_cancel(). The first two complete the request, unless their
 * result says otherwise.
 * Return:  the request, or NULL: receiver not ready
 */
const struct av_rq_wqe *av_receive_take(const struct av_receiver *to);

/* Put the request back, after a fault that is not the receiver's. */
void av_receive_cancel(const struct av_receiver *to);

/**
 * av_receive_message() - copy the bytes of a SEND to the receive request, and complete it
 * @from: the bytes
 * @request: from av_receive_take()
 *
 * Return:  AV_FAULT_NONE: completed. AV_FAULT_RECV_CQ: lost with the CQ. With any other, the
 * request is not completed: AV_FAULT_RECV_SHORT, AV_FAULT_RECV_PROT, AV_FAULT_LOC_PROT (a sender's
 * buffer), AV_FAULT_BUSY (a key is being changed), AV_FAULT_FORBIDDEN (this process may not read
 * the memory that holds the bytes, or no bounce buffer is left)
 */
AV_MUST_USE enum av_fault av_receive_message(const struct av_message *msg,
					     const struct av_spans *from,
					     const struct av_rq_wqe *request);

/**
 * av_receive_piece() - the same for a message that comes in several packets
 * @msg: its length is that of the bytes so far, with this piece
 * @from: the bytes of this piece
 * @more: others follow; else the request is completed
 */
AV_MUST_USE enum av_fault av_receive_piece(const struct av_message *msg,
					   const struct av_spans *from,
					   const struct av_rq_wqe *request, bool more);

/* The request that an earlier piece has taken. Return: NULL: there is none */
const struct av_rq_wqe *av_receive_taken(const struct av_receiver *to);

/* Complete the receive request of an RDMA WRITE with immediate data, whose bytes are in place. */
AV_MUST_USE enum av_fault av_receive_done(const struct av_message *msg,
					  const struct av_rq_wqe *request);

/* Complete the taken request with an error; if none is taken, the next one, if there is one. */
void av_receive_error(const struct av_receiver *to, enum ibv_wc_status status);

/*
 * A message that comes in pieces will not be finished: its receive request is flushed. Does nothing
 * if there is none.
 */
void av_receive_abandon(const struct av_qp_ref *rsp);

/*
 * Complete all receive requests as flushed. Those of a shared queue stay for its other queue pairs.
 */
void av_receive_flush(const struct av_qp_ref *rsp);

/* --- XRC: a request names the shared receive queue. IBTA volume 1, annex A14 -------- */

/*
 * A shared receive queue in use. Its pin names the SRQ's number instead of a key, and keeps
 * av_xrc_retire() waiting.
 */
struct av_xrc_use {
	struct av_seg *seg; /* NULL: none in use */
	struct av_pin *pin;
};

/**
 * av_xrc_begin() - find the receive queue that a request names by SRQ number
 * @rsp: the XRC_RECV queue pair; the SRQ must be of the same XRC domain
 * @use: out; give it to av_xrc_end() whatever is returned
 * @to:  out, if found
 *
 * Context: the responder's right @resp is held; does not wait.
 * Return:  AV_FAULT_NONE; AV_FAULT_REM_OP_DENIED: no such number, of another domain, or of a
 * process that is gone; AV_FAULT_BUSY: no pin is free, try again
 */
enum av_fault av_xrc_begin(const struct av_qp_ref *rsp, uint32_t srqn, struct av_xrc_use *use,
			   struct av_receiver *to);
void av_xrc_end(struct av_xrc_use *use);

/**
 * av_xrc_retire() - withdraw an own queue's number; on return nobody uses the queue any more
 *
 * Context: may wait as long as a copy takes; no lock held.
 */
void av_xrc_retire(struct av_seg *seg, struct av_rq_shared *rq);

/*
 * What is left to do for a request once it is completed: the receiver's process is woken, or the
 * datagram leaves.
 *
 * An acknowledgement precedes an answer. Who is woken may take the core of whoever wakes it, answer
 * at once, and have the answer completed. So the requester's completion is appended before.
 * The members of a multicast group are woken at once: there may be any number of them.
 */

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
