/* SPDX-License-Identifier: MIT */
/* How a request is executed: its receive, its copy, its answer. */
#ifndef AV_TRANSPORT_EXECUTION_H
#define AV_TRANSPORT_EXECUTION_H

#include <anyverbs/tunneled_atomic.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "memory/key.h"
#include "memory/translate.h"
#include "observe/wr_opcode.h"
#include "queue/cq.h"
#include "queue/qp.h"
#include "segment/segment.h"
#include "transport/rules.h"

/* === receive ===================================================================== */

/*
 * Receive requests: which one a message takes, how its bytes get there, and what waits for a
 * poll.
 */

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

/* === coop copy =================================================================== */

/*
 * Both sides copy a large message: the sender, and the receiver's threads that poll their CQ in
 * vain.
 *
 * The sender opens its message in the receiver's CQ (struct av_coop_copy, queue/cq.h), one at a
 * time there, and copies pieces from the front on. Threads that poll that CQ claim pieces from the
 * back. Each copies one piece at a time: it holds the right @piece and its own pins of both keys,
 * which it has looked up itself. When no piece is left, the sender takes @piece. Then nobody else
 * writes to the buffer any more.
 *
 * A poller may fail to copy its piece, or die over it. The piece is not repaired: the whole message
 * is sent again in the ordinary way.
 *
 * Nobody has to help. A sender that finds another sender's message in the CQ copies alone.
 */

/*
 * Measured (docs/notes/inside.md). Shorter messages stay in one core's cache and gain little.
 * Smaller pieces cost more claims; larger ones take longer to wait for.
 */
#define AV_COOP_MIN   (256u << 10)
#define AV_COOP_PIECE (64u << 10)

/*
 * The sender copies the end of a message itself, at least this many bytes, and copies it last.
 */
#define AV_COOP_REST 4096u

/* The source of a message that pollers can help to copy: one keyed element, sent whole. */
struct av_coop_source {
	const struct av_qp_ref *req; /* the sender, of this process */
	struct ibv_sge sge;	     /* AV_COOP_MIN bytes at least */
};

enum av_coop_result {
	AV_COOP_COPIED,
	AV_COOP_NOT,   /* some bytes have not been copied; any may have been */
	AV_COOP_STUCK, /* the same, and a poller may still be copying: AV_PATIENCE_NS are over */
};

/**
 * av_coop_copy() - copy a message to its receive buffer, with the help of whoever polls
 * @rsp: the receiving queue pair, in another process
 * @recv: the one element of its receive request
 * @to, @from: the addresses of the bytes in this process
 *
 * The end of the message is copied last.
 * Context: @rsp's right @resp is held, and pins of both keys. Waits for pages, and for a piece that
 * a poller is copying.
 */
AV_MUST_USE enum av_coop_result av_coop_copy(const struct av_coop_source *source,
					     const struct av_qp_ref *rsp,
					     const struct ibv_sge *recv, uint8_t *to,
					     const uint8_t *from);

/*
 * The sender died while it held @rsp's right @resp, which the caller has taken over: close its
 * message. On return nobody helps with it any more.
 * Context: waits for a piece that a poller is copying.
 */
void av_coop_abandon(const struct av_qp_ref *rsp);

/* The slow part of av_coop_polled(). */
void av_coop_help(struct av_seg *seg, struct av_cq_shared *cq);

/*
 * Copy one piece for receiving queue pair @rsp of @cq, if the open message is for it. @req: its
 * peer. Part of av_coop_help(), separate for tests.
 */
void av_coop_help_with(const struct av_qp_ref *rsp, const struct av_qp_ref *req,
		       struct av_cq_shared *cq);

/* Is there a piece that nobody has claimed? */
static inline bool av_coop_wanted(uint32_t left)
{
	return (left & 0xffff) < left >> 16;
}

/*
 * An own CQ was polled in vain: copy a piece of the message that is on its way, if there is one.
 * Context: owner's thread, no lock held; waits for pages.
 */
static inline void av_coop_polled(struct av_seg *seg, struct av_cq_shared *cq)
{
	if (av_unlikely(av_coop_wanted(atomic_load_explicit(&cq->coop.left, memory_order_relaxed))))
		av_coop_help(seg, cq);
}

/* === operations ================================================================== */

/*
 * Requests under execution: the memory of both sides, and what each kind of operation does with
 * it.
 */

/* Asynchronous events about queue pairs, raised in the owner's context by whoever causes them. */

/* Context: no execution right or lock held; makes system calls. */
static inline void av_event_raise(const struct av_qp_ref *end, uint32_t qpn,
				  enum ibv_event_type event)
{
	struct av_doorbell_record record = {
		.event = event,
		.kind = AV_SLAB_QP,
		.index = end->qp->index,
		.id = qpn,
	};

	(void)av_doorbell_ring(end->seg, AV_DOORBELL_ASYNC, &record);
}

/* Raise LAST_WQE_REACHED, if the queue pair's receives on a shared queue have ended. Context: @resp
 * is not held; makes system calls. */
static inline void av_event_last_wqe(const struct av_qp_ref *end)
{
	if (atomic_exchange(&end->qp->last_wqe, 0))
		av_event_raise(end, atomic_load(&end->qp->qpn), IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* Events that an executor raises when it holds no right any more. */
struct av_events {
	int at[2]; /* enum ibv_event_type */
	unsigned int count;
};

/* Raise them at queue pair @qpn. Context: no right held. */
static inline void av_events_raise(const struct av_qp_ref *end, uint32_t qpn,
				   const struct av_events *events)
{
	for (unsigned int i = 0; i < events->count; i++)
		av_event_raise(end, qpn, (enum ibv_event_type)events->at[i]);
}

/* A request under execution: its two sides, the memory of each, and its outcome so far. */

struct av_work;

/*
 * The operation of an opcode.
 *
 * Context: the requester's right @exec is held, and the responder's right @resp unless the opcode
 * is local. No lock and no pin is held. May wait for pages of either program.
 * Return:  AV_FAULT_NONE: done; or it has to wait, and @w->result.wait_reason is set.
 * - AV_FAULT_BUSY: a key that it needs is being changed. No pin and no receive request is held; the
 * caller starts it again from the beginning.
 * - Else the fault; the caller applies its effects on either side. A receive request that was taken
 * stays taken if the fault is the receiver's.
 */
typedef enum av_fault av_operation(struct av_work *w);

/*
 * What a packet brings of a message. A message of several packets is executed piece by piece; its
 * operation, rkey and length are those of the message.
 */
struct av_piece {
	/* The payload; or where the answer goes. Its length is the request's. */
	const struct av_spans *bytes;
	uint64_t before;		/* bytes of the message in earlier packets */
	uint64_t whole;			/* first piece: length that it announces for all; else 0 */
	struct av_odp_message *message; /* page faults of the responder's memory so far */
	bool more;			/* others follow */
	bool again;			/* a request that was executed before is repeated */
};

struct av_work {
	const struct av_qp_ref *req, *rsp;
	const struct av_piece *piece;	   /* it came in packets, and so do its bytes; else NULL */
	const struct av_sq_wqe *wqe;	   /* in the own ring, or as a packet brought it */
	const struct av_wr_opcode *opcode; /* its row */
	uint32_t qpn;			   /* the responder's number */
	struct av_receiver to;		   /* its own segment, or that of an XRC request's SRQ */
	uint32_t pd;			   /* domain that its keys are checked against */
	struct av_xrc_use srq;		   /* held for an XRC request */
	struct av_spans local;		   /* the requester's buffers */
	struct av_after *after;		   /* as of av_execute(); NULL: nobody does it later */
	bool in_vain;			   /* the responder's answer cannot be stored */
	struct av_outcome result;
	struct av_events events; /* to raise when the responder's right is released */
	uint64_t now_ns;	 /* coarse clock, read once */
};

/*
 * The request has to wait.
 * Return:  false
 */
static inline bool av_work_wait(struct av_work *w, enum av_wait why)
{
	w->result.wait_reason = why;
	return false;
}

/* Raise @event (enum ibv_event_type, or AV_EVENT_NONE) at the responder in the end. At most two. */
static inline void av_work_event(struct av_work *w, int event)
{
	if (event != AV_EVENT_NONE)
		w->events.at[w->events.count++] = event;
}

/**
 * av_work_local() - translate the requester's buffers into @w->local
 * @access: 0 for sources, IBV_ACCESS_LOCAL_WRITE for destinations
 *
 * Context: as av_mem_get_list().
 * Return:  AV_FAULT_NONE: held until av_mem_put_list(). AV_FAULT_BUSY, AV_FAULT_LOC_PROT,
 * AV_FAULT_LOC_LEN (more inline data than a slot has): nothing is held
 */
AV_MUST_USE enum av_fault av_work_local(struct av_work *w, uint32_t access);

/*
 * The same of a request that no responder waits for: waits while a key is being changed.
 */
AV_MUST_USE enum av_fault av_request_buffers(const struct av_qp_ref *req,
					     const struct av_sq_wqe *wqe, uint32_t access,
					     struct av_spans *to);

/*
 * Can the first packet of the message be read? The rest of it is missed when it is moved.
 * @from: all of the message, translated. Context: as av_xfer_copy()
 */
AV_COLD AV_MUST_USE enum av_fault av_work_read_first(const struct av_work *w,
						     const struct av_spans *from);

/*
 * The responder died during the request.
 * Return:  AV_FAULT_NONE, as an operation that has to wait
 */
enum av_fault av_work_gone(struct av_work *w);

/*
 * Operations on the requester's own keys, without a responder.
 * Context: only the requester's right @exec is held.
 */

av_operation av_op_bind;
av_operation av_op_local_inv;
av_operation av_op_nop;

/* User-mode registration: the list is in the request, or elsewhere in the requester's segment. */
av_operation av_op_umr_fill;
av_operation av_op_umr_invalidate;

/* RDMA WRITE, RDMA READ and FLUSH: operations on the memory that the rkey names. */

av_operation av_op_write;
av_operation av_op_read;

/*
 * FLUSH. Earlier requests of the queue pair have already written to the responder's memory, and
 * processor caches are coherent. So global visibility only needs this request to be ordered behind
 * them. Persistence is never granted: a FLUSH that asks for it is refused for want of the access
 * right.
 * Source: IBTA volume 1, release 1.5.
 */
av_operation av_op_flush;

/*
 * Atomic operations on the responder's memory: requested as such, or tunneled. Tunneled operations
 * are commands in the payload of an RDMA WRITE to a region of tunneled atomics.
 * include/anyverbs/tunneled_atomic.h has their encoding and what it promises.
 */

av_operation av_op_fetch_add;
av_operation av_op_cmp_swap;

/*
 * Operations whose operands lie behind the request in the ring. They are copied before they are
 * checked, since a peer may change its ring meanwhile.
 */
av_operation av_op_with_operands;

/*
 * ATOMIC WRITE. Its operand is copied from the requester's memory first, as with a WRITE.
 * Source: IBTA volume 1, release 1.5.
 */
av_operation av_op_atomic_write;

/*
 * May a payload have this length?
 * Return:  the number of commands in it, or 0
 */
unsigned int av_tunnel_count(uint64_t bytes);

/*
 * Decode a command.
 * Return:  false if it is not valid
 */
AV_MUST_USE bool av_tunnel_decode(const struct anyverbs_tunneled_atomic *command,
				  struct av_atomic *atomic);

/*
 * SEND, and RDMA WRITE with immediate data: they consume one of the responder's receive requests,
 * and wait if there is none. transport/execution.h brings their bytes and completion there.
 */

/* SEND, with immediate data or a key to invalidate if the opcode says so. */
av_operation av_op_send;

/*
 * Checks the rkey before it takes a receive request, and moves the bytes afterwards: a fault leaves
 * the receive request queued.
 */
av_operation av_op_write_imm;

/* === execute ===================================================================== */

/* Execute one send request against a queue pair of the same host. */

/*
 * Take @resp of a queue pair, and repair what a dead holder left. av_lock_release() releases it.
 * Return: false: a peer's was not had in time, and is not held. Own ones are waited for
 */
bool av_responder_acquire(const struct av_qp_ref *end);

/* The same for one who can do without: waits AV_STUCK_NS at most, for own ones, too. */
bool av_responder_acquire_soon(const struct av_qp_ref *end);

/**
 * av_execute() - execute one request
 * @req: the requester, in a state that executes
 * @rsp: the responder; .qp is NULL if there is none
 * @wqe: the request, in the requester's ring
 * @after: all zero; out: for av_after_do(), when the caller has completed the request; NULL: what
 * is left to do is done at once
 *
 * Advances the PSNs of both on success. On return the responder has its receive completion, error
 * state and events; the caller completes the request.
 * Context: @req's right @exec is held. Takes the responder's right @resp meanwhile. Waits for pages
 * of either program, with no other lock held.
 */
struct av_outcome av_execute(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
			     const struct av_sq_wqe *wqe, struct av_after *after);

/*
 * The same, with a responder that finds @fault, whatever the request is. No bytes are moved; the
 * fault has its effects on either side. For reliable connections only.
 */
struct av_outcome av_execute_refuse(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
				    const struct av_sq_wqe *wqe, enum av_fault fault);

struct av_piece;

/**
 * av_execute_piece() - execute a request, or a part of one, that came in a packet
 * @req: stands for the requester on another host: its number, type, attributes and @next_psn
 * @head: the request, as it would be in the requester's ring; @bytes: of this piece
 * @events: out, for av_events_raise()
 *
 * As av_execute(), with two differences: @rsp's right @resp is held before and afterwards, and the
 * requester's buffers are those of @piece.
 */
struct av_outcome av_execute_piece(const struct av_qp_ref *req, const struct av_qp_ref *rsp,
				   const struct av_sq_wqe *head, const struct av_piece *piece,
				   struct av_events *events);

/*
 * The checks of a request of any service that the requester makes alone. Return: AV_FAULT_NONE; or
 * AV_FAULT_LOC_QP_OP, AV_FAULT_LOC_LEN, and why is noted
 */
enum av_fault av_execute_check(const struct av_qp_ref *req, const struct av_sq_wqe *head);

/* === datagram ==================================================================== */

/* Datagrams: where they go, and what stands before their payload. */

/*
 * The 40 bytes in front of a datagram's payload in the receive buffer. They hold the global route
 * header or, with RoCEv2 over IPv4, 20 undefined bytes and the IPv4 header. Pure functions.
 * Source: IBTA volume 1, 8.3, and annex A17.
 */

#define AV_GRH_BYTES 40

/*
 * The kind of header in front of the payload, as the completion says it. The 40 bytes cannot say it
 * themselves: 20 of the IPv4 form are undefined (annex A17.4.5.1). Verbs have no field for it, so
 * adapters use the service level, which Ethernet frames do not have. In mlx5, bits 0 to 2 say the
 * layer 3 header, and bit 3 says that UDP follows.
 */
enum av_packet_type { AV_PACKET_V1 = 0, AV_PACKET_V2_IPV6 = 9, AV_PACKET_V2_IPV4 = 10 };

struct av_grh_fields {
	union ibv_gid sgid, dgid;
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	uint32_t payload; /* bytes of the message */
	bool immediate;	  /* it carries immediate data */
	bool iba;	  /* next header "IBA" instead of UDP: InfiniBand, RoCE v1 */
};

/* The form av_grh_write() gives the 40 bytes on Ethernet. */
enum av_packet_type av_grh_packet_type(const struct av_grh_fields *fields);

/* Write the 40 bytes. */
void av_grh_write(uint8_t to[AV_GRH_BYTES], const struct av_grh_fields *fields);

/*
 * Read them back, without payload and immediate.
 * Return:  false if they have neither form
 */
AV_MUST_USE bool av_grh_read(const uint8_t from[AV_GRH_BYTES], struct av_grh_fields *fields);

/*
 * The unreliable datagram service. Each request names its destination: one queue pair or a
 * multicast group.
 */

/**
 * av_datagram_execute() - execute one request of a UD queue pair
 * @peer: where the last datagram went, guarded by @req's @exec right; holds a use of its segment
 *
 * As av_execute(), except that the request names the destination, and that it never waits for a
 * receiver: a message that cannot be received is lost. It waits (AV_WAIT_FULL) while the interface
 * has no room.
 */
struct av_outcome av_datagram_execute(const struct av_qp_ref *req, struct av_qp_ref *peer,
				      const struct av_sq_wqe *wqe, struct av_after *after);

/* Does a request leave this host? A group's may have members on others, too. Context: any */
bool av_datagram_leaves(const struct av_qp_ref *req, const struct av_sq_wqe *head);

struct av_net_packet;

/*
 * A datagram has come as a packet, for a queue pair of this process or a group. @struck: rules of
 * faults have been asked about it. Context: within the receiver; no right held
 */
void av_datagram_arrived(const struct av_net_packet *packet, bool struck);

#endif
