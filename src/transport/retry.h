/* SPDX-License-Identifier: MIT */
/*
 * Retry timers and counters of a request that gets no acceptable answer, on this host and on the
 * wire. Source: IBTA volume 1, 9.7.5.2.8 and 9.7.6.1.
 */
#ifndef AV_TRANSPORT_RETRY_H
#define AV_TRANSPORT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "queue/qp.h"
#include "transport/rules.h"

/*
 * Make the request at the head of an own send queue wait, for @why, or wait on: the timer, or a
 * kick, tries it again. Sets the deadline before the reason, since the timer reads the deadline of
 * each request that it finds waiting; arms the timer last, since that may have passed here before.
 * Context: @end's right @exec is held; may create a thread.
 */
void av_sq_wait_until(const struct av_qp_ref *end, enum av_wait why, uint64_t deadline_ns);

#define AV_TRY 2u /* parts that a try is counted in */

/*
 * A try has failed: an RNR NAK has come (AV_WAIT_RNR), or no answer in time (AV_WAIT_NO_ANSWER).
 * Adds @parts, AV_TRY at most, to what is spent of either since the wait began, or since progress.
 * Context: @end's right @exec is held.
 * Return:  AV_FAULT_NONE: try again; RNR_EXHAUSTED, RETRY_EXHAUSTED: it was the last try
 */
AV_MUST_USE enum av_fault av_retry_count(const struct av_qp_ref *end, enum av_wait why,
					 uint32_t parts);

/* Is this the last try to get an answer? Never without a timeout. Context: @exec is held */
bool av_retry_is_last(const struct av_qp_shared *qp);

/* Does the request wait for that reason, and still for its timer? A look before that is no try. */
bool av_retry_is_early(const struct av_qp_shared *qp, enum av_wait why, uint64_t now_ns);

/*
 * The request at the head of @end's send queue was tried on this host, and @result says why it must
 * wait: begin or continue its wait. A try before the deadline is not counted.
 * Context: as av_sq_wait_until().
 * Return:  AV_FAULT_NONE: it waits; RNR_EXHAUSTED, RETRY_EXHAUSTED: it has failed
 */
AV_MUST_USE enum av_fault av_retry(const struct av_qp_ref *end, const struct av_outcome *result);

/* How long a requester waits for an acceptable answer, and how often. */
struct av_retry_limits {
	uint64_t interval_ns;
	uint32_t tries; /* with the first one; 0: no end */
};

/* @why: AV_WAIT_RNR, whose interval is the responder's to say; AV_WAIT_NO_ANSWER; AV_WAIT_FULL */
struct av_retry_limits av_retry_limits_of(const struct ibv_qp_attr *attr, enum av_wait why);

/* Nanoseconds of an RNR timer code (0..31). */
uint64_t av_rnr_timer_ns(unsigned int code);

#endif
