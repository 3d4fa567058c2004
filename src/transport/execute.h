/* SPDX-License-Identifier: MIT */
/* Execute one send request against a queue pair of the same host. */
#ifndef AV_TRANSPORT_EXECUTE_H
#define AV_TRANSPORT_EXECUTE_H

#include "base/compiler.h"
#include "queue/qp.h"
#include "transport/operations.h"
#include "transport/receive.h"
#include "transport/rules.h"

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

#endif
