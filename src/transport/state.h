/* SPDX-License-Identifier: MIT */
/*
 * What changes of state do to a queue pair: emptying its queues, failing it, repairing it after the
 * death of whoever was executing work for it. Which changes are allowed is queue/qp_state.h.
 */
#ifndef AV_TRANSPORT_STATE_H
#define AV_TRANSPORT_STATE_H

#include "base/compiler.h"
#include "queue/qp.h"

/* Put the responder into the error state and flush its receive queue. @resp held. */
void av_responder_error(const struct av_qp_end *end);

/* After taking @resp over from a dead process: finish or undo what it was doing, and fail. @resp
 * held. */
void av_responder_repair(const struct av_qp_end *end);

/* Take @resp, repairing what a dead holder left. Released by av_lock_release(). */
static inline void av_responder_acquire(const struct av_qp_end *end)
{
	if (av_unlikely(av_lock_acquire(&end->qp->resp, AV_RANK_RESP) == AV_LOCK_REPAIR))
		av_responder_repair(end);
}

/* Take both execution rights of an own queue pair, or one that was opened, repairing what a dead
 * holder left; and release them. */
void av_qp_quiesce(const struct av_qp_end *end);
void av_qp_resume(const struct av_qp_end *end);

/**
 * av_qp_apply_state() - the effects of entering @to, both execution rights held
 *
 * RESET empties both queues and removes the completions of this queue pair from its CQs; RTR and
 * RTS set the PSNs from the attributes, which have been stored before; ERR flushes the receive
 * queue (av_drive() flushes the other).
 */
void av_qp_apply_state(const struct av_qp_end *end, enum ibv_qp_state from, enum ibv_qp_state to);

/* Remove the completions of this queue pair from its CQs, and what they hold. No execution right
 * needed. */
void av_qp_purge(const struct av_qp_end *end);

/* Likewise the completions of an own XRC shared receive queue, which is retired; its QPs may live
 * on. */
void av_srq_purge(struct av_seg *seg, uint32_t index);

#endif
