/* SPDX-License-Identifier: MIT */
/* A request under execution: its two sides, the memory of each, and its outcome so far. */
#ifndef AV_TRANSPORT_WORK_H
#define AV_TRANSPORT_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "memory/xfer.h"
#include "memory/translate.h"
#include "observe/wr_opcode.h"
#include "transport/after.h"
#include "transport/event.h"
#include "transport/receive.h"
#include "transport/rules.h"

struct av_work;

/*
 * The operation of an opcode.
 *
 * Context: the requester's right @exec is held, and the responder's right @resp unless the opcode
 * is local. No lock and no pin is held. May wait for pages of either program.
 * Return:  AV_FAULT_NONE: done; or it has to wait, and @w->result.park is set.
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
	const struct av_qp_end *req, *rsp;
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
static inline bool av_work_park(struct av_work *w, enum av_park why)
{
	w->result.park = why;
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
AV_MUST_USE enum av_fault av_request_buffers(const struct av_qp_end *req,
					     const struct av_sq_wqe *wqe, uint32_t access,
					     struct av_spans *to);

/*
 * Can the first packet of the message be read? The rest of it is missed when it is moved.
 * @from: all of the message, translated. Context: as av_xfer_copy()
 */
AV_COLD AV_MUST_USE enum av_fault av_work_read_first(const struct av_work *w,
						     const struct av_spans *from);

/*
 * The responder's memory that the request names by rkey, address and length. @access: enum
 * ibv_access_flags
 */
struct av_mem_request av_work_request(const struct av_work *w, uint32_t access);

/**
 * av_work_remote() - translate such a range
 * @remote: out, one span; on AV_FAULT_NONE give its pin to av_pin_end(), else nothing is held
 *
 * Context: as av_mem_get().
 * Return:  AV_FAULT_NONE, AV_FAULT_BUSY, AV_FAULT_REM_ACCESS, or AV_FAULT_TUNNELED: the payload is
 * commands, not data
 */
AV_MUST_USE enum av_fault av_work_remote(const struct av_work *w, const struct av_mem_request *req,
					 struct av_spans *remote);

/*
 * The same for a piece of a message. Of the first one, the responder must permit all that it
 * announces: a message in several packets is refused before its first byte is moved.
 * @req: the piece's range. Context: the request came in packets.
 */
AV_MUST_USE enum av_fault av_work_piece(const struct av_work *w, const struct av_mem_request *req,
					struct av_spans *remote);

/**
 * av_work_moved() - the fault that a request has when a copy for it @copied so
 * @src, @dst: the faults for missing memory on that side
 *
 * If memory is gone because its process is gone, the request has no answer at all.
 * Return:  the fault, as an operation's
 */
AV_MUST_USE enum av_fault av_work_moved(struct av_work *w, enum av_fault copied, enum av_fault src,
					enum av_fault dst);

/*
 * Does the responder's queue pair permit the request, which needs these rights of it? Requests that
 * are answered take a resource of it, too.
 * Return:  AV_FAULT_NONE, AV_FAULT_REM_NO_RD_ATOMIC, AV_FAULT_REM_OP_DENIED
 */
AV_MUST_USE static inline enum av_fault av_work_permitted(const struct av_work *w, uint32_t rights)
{
	const struct ibv_qp_attr *attr = &w->rsp->qp->attr;

	if (w->opcode->answered && attr->max_dest_rd_atomic == 0)
		return AV_FAULT_REM_NO_RD_ATOMIC;
	return (attr->qp_access_flags & rights) == rights ? AV_FAULT_NONE : AV_FAULT_REM_OP_DENIED;
}

/**
 * av_work_answer() - copy an answer to the request's buffers
 * @from: the answer, in the responder's memory or in the executor's own
 *
 * Context and return as an operation's; the fault of @from is AV_FAULT_REM_ACCESS, and comes first:
 * a responder that cannot read its memory gives no answer to be placed.
 */
AV_MUST_USE enum av_fault av_work_answer(struct av_work *w, const struct av_spans *from);

/*
 * The responder died during the request.
 * Return:  AV_FAULT_NONE, as an operation that has to wait
 */
enum av_fault av_work_gone(struct av_work *w);

#endif
