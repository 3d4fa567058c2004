/* SPDX-License-Identifier: MIT */
/*
 * The effects of state changes on a queue pair: empty its queues, fail it, repair it after the
 * executor of its work has died. queue/qp.h says which changes are allowed.
 */
#ifndef AV_TRANSPORT_STATE_H
#define AV_TRANSPORT_STATE_H

#include "base/compiler.h"
#include "queue/qp.h"

/*
 * Put the responder into the error state and flush its receive queue.
 * Context: @resp is held.
 */
void av_responder_error(const struct av_qp_ref *end);

/*
 * End the receive queue of a queue pair whose state has been set to ERR. That was an atomic
 * exchange, a full barrier. So a post_recv that is not seen here sees the state, and flushes its
 * own requests.
 * Context: @resp is held.
 */
void av_responder_end_receives(const struct av_qp_ref *end);

/*
 * Finish or undo what a dead holder of @resp was doing, and fail the queue pair.
 * Context: @resp is held, taken over from a dead process.
 */
void av_responder_repair(const struct av_qp_ref *end);

/*
 * Take both execution rights of an own queue pair, or @resp of one that was opened and sends
 * nothing, and repair what a dead holder left; release them. Waits AV_PATIENCE_NS at most for a
 * peer that is stopped, and for threads of this process until they lose theirs.
 * Return: 0, or EBUSY: neither is held
 */
AV_MUST_USE int av_qp_quiesce(const struct av_qp_ref *end);
void av_qp_resume(const struct av_qp_ref *end);

/**
 * av_qp_apply_state() - apply the effects of entering @to
 *
 * RESET empties both queues and removes the queue pair's completions from its CQs. Who posts
 * meanwhile must be kept away by @append, or is the program's mistake. RTR and RTS set
 * the PSNs from the attributes, which must have been stored. ERR flushes the receive queue;
 * av_sq_progress() flushes the send queue.
 * Context: both execution rights are held.
 */
void av_qp_apply_state(const struct av_qp_ref *end, enum ibv_qp_state from, enum ibv_qp_state to);

/*
 * Remove the completions of this queue pair from its CQs, and release what they hold. Needs no
 * execution right.
 */
void av_qp_purge(const struct av_qp_ref *end);

/*
 * The same for the completions of an own XRC shared receive queue, which is retired. Its queue
 * pairs may live on.
 */
void av_srq_purge(struct av_seg *seg, uint32_t index);

#endif
