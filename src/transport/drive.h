/* SPDX-License-Identifier: MIT */
/*
 * Driving send queues: executing what is posted, in order, and what happens when it cannot be
 * executed yet.
 *
 * Whoever has a reason to think that a send queue can go on drives it: the poster, a peer that
 * removed an obstacle (posted a receive, became ready), the timer. One of them at a time, the
 * holder of @exec, does the work.
 */
#ifndef AV_TRANSPORT_DRIVE_H
#define AV_TRANSPORT_DRIVE_H

#include "queue/qp.h"

/**
 * av_drive() - execute what can be executed of a send queue
 * @end:  the queue pair, own or a peer's
 * @peer: its cached destination (guarded by its @exec execution right), or NULL to look it up for
 * this call
 *
 * If another thread or process holds the execution right, returns at once: that one will look again
 * before it leaves. Context: no execution right or lock held. Moves data, waits for pages.
 */
void av_drive(const struct av_qp_end *end, struct av_qp_end *peer);

/**
 * av_sq_enter() - keep other threads from posting to an own queue pair, and execute if nobody does
 *
 * The caller writes its requests, releases @append, and calls av_drive_entered().
 * Return: has @exec been taken, too?
 */
static inline bool av_sq_enter(struct av_qp_shared *qp)
{
	if (av_likely(av_lock_try_both(&qp->exec, AV_RANK_EXEC, AV_RANK_APPEND)))
		return true;
	av_lock_acquire_plain(&qp->append, AV_RANK_APPEND);
	return false;
}

/* av_drive() for who has posted; @with_exec: as av_sq_enter() returned. */
void av_drive_entered(const struct av_qp_end *end, struct av_qp_end *peer, bool with_exec);

/**
 * av_drive_peer() - let the requester that is connected to own queue pair @end go on: an obstacle
 * is gone
 *
 * Context: as av_drive().
 */
void av_drive_peer(const struct av_qp_end *end);

/* Put an own queue pair into the error state from outside any execution, flushing both queues. No
 * execution right held.
 */
void av_fail(const struct av_qp_end *end);

#endif
