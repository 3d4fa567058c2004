/* SPDX-License-Identifier: MIT */
/* The loop that executes a send queue: how its requests wait, end, and are executed again. */
#ifndef AV_TRANSPORT_PROGRESS_H
#define AV_TRANSPORT_PROGRESS_H

#include <stdint.h>

#include "queue/qp.h"
#include "transport/rules.h"

/*
 * Detect that a program changed the buffers of a send request that waited before it was executed.
 * For contexts that are watched for misuse (AV_WATCHED_MISUSE).
 *
 * Only the first AV_SEND_SUM_BYTES of a message are checked.
 */

#define AV_SEND_SUM_BYTES 65536u

/* How many requests of the own queue pair had their buffers changed. */
uint64_t av_send_sum_changes(const struct av_qp_ref *end);

/*
 * The segment ends.
 * Context: nothing is executed any more.
 */
void av_send_sum_end(struct av_seg *seg);

/* The loop that executes a send queue, and how its requests end. */

/*
 * The end of a queue pair's receives while a stopped peer holds its right @resp: nobody waits for
 * that peer. The state changes at once, and the receives are flushed when the right is free.
 */

/* When to look again for a right that a stopped peer holds. */
#define AV_FLUSH_DUE_NS 50000000u

/* Flush the receives of an own queue pair in the error state. Context: the same. */
void av_deferred_flush(const struct av_qp_ref *end);

/*
 * The end of requests: their completions, in order, and what their failure does to the queue pair.
 * One way for all transports.
 *
 * Context: all functions: the requester's right @exec is held, no @resp.
 */

/* The request at the head, @wqe, is done. Without room in the CQ, the queue pair fails. */
void av_finish_done(const struct av_qp_ref *end, const struct av_sq_wqe *wqe);

/*
 * The request at the head has failed with @fault: complete it, and enter the error state. @peer:
 * its responder; .qp is NULL if there is none on this host
 */
AV_COLD void av_finish_fail(const struct av_qp_ref *end, const struct av_qp_ref *peer,
			    const struct av_sq_wqe *wqe, enum av_fault fault);

/* Enter the error state. The caller sees to it that the queue is flushed. */
AV_COLD void av_finish_error(const struct av_qp_ref *end);

/*
 * Driving send queues: execute posted requests in order, and hold back those that cannot be
 * executed yet.
 *
 * A queue pair's own process executes its requests: the poster, a poller, the timer. One of them at
 * a time, the holder of @exec, does the work. A peer that may have removed an obstacle, by a
 * receive request or because it is ready now, sets @kick and wakes the timer.
 */

/**
 * av_sq_progress() - execute what can be executed of a send queue
 * @end:  an own queue pair; one of another process is left to that one, which is told
 * @peer: its cached destination, guarded by @end's right @exec; NULL: look it up for this call
 *
 * Returns at once if another thread holds the right: that one looks again before it leaves.
 * Context: no execution right or lock held. Moves data, waits for pages.
 */
void av_sq_progress(const struct av_qp_ref *end, struct av_qp_ref *peer);

/*
 * Take an own queue pair's @exec, however long the thread takes that has it.
 * av_sq_progress_entered() gives it back. Context: no execution right held
 */
void av_sq_progress_enter(const struct av_qp_ref *end);

/* av_sq_progress() for a poster of an own queue pair. @with_exec: the caller has taken @exec
 * already */
void av_sq_progress_entered(const struct av_qp_ref *end, struct av_qp_ref *peer, bool with_exec);

/**
 * av_sq_progress_peer() - an obstacle is gone: make progress with the requester that is connected
 * to own queue pair @end
 *
 * Context: as av_sq_progress().
 */
void av_sq_progress_peer(const struct av_qp_ref *end);

/* The same, by a caller who has found it: av_connect(). @requester->qp: NULL: there is none */
void av_sq_progress_requester(const struct av_qp_ref *requester);

/*
 * Put an own queue pair into the error state, and flush both queues.
 * Context: no execution right held.
 */
void av_fail(const struct av_qp_ref *end);

#endif
