/* SPDX-License-Identifier: MIT */
/*
 * Requests under execution: the memory of both sides, and what each kind of operation does with
 * it.
 */
#ifndef AV_TRANSPORT_OPERATIONS_H
#define AV_TRANSPORT_OPERATIONS_H

#include <anyverbs/tunneled_atomic.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "memory/translate.h"
#include "memory/xfer.h"
#include "observe/wr_opcode.h"
#include "queue/qp.h"
#include "segment/doorbell.h"
#include "transport/receive.h"
#include "transport/rules.h"

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
 * and wait if there is none. transport/receive.h brings their bytes and completion there.
 */

/* SEND, with immediate data or a key to invalidate if the opcode says so. */
av_operation av_op_send;

/*
 * Checks the rkey before it takes a receive request, and moves the bytes afterwards: a fault leaves
 * the receive request queued.
 */
av_operation av_op_write_imm;

#endif
