/* SPDX-License-Identifier: MIT */
/*
 * Retry timers and counters of a request that gets no acceptable answer.
 * Source: IBTA volume 1, 9.7.5.2.8 and 9.7.6.1.
 */
#ifndef AV_TRANSPORT_RETRY_H
#define AV_TRANSPORT_RETRY_H

#include <stdint.h>

#include "base/compiler.h"
#include "transport/execute.h"

/*
 * Count a failed try of the request at the head of @end's send queue: begin or continue its wait
 * (park, retries and deadline_ns of the queue pair). A try before the deadline is not counted.
 * Context: @end's right @exec is held.
 * Return:  AV_FAULT_NONE: wait until deadline_ns; RNR_EXHAUSTED, RETRY_EXHAUSTED: it has failed
 */
AV_MUST_USE enum av_fault av_retry(const struct av_qp_end *end, const struct av_outcome *result,
				   uint64_t now_ns);

/* How long a requester waits for an acceptable answer, and how often. */
struct av_patience {
	uint64_t interval_ns;
	uint32_t retries; /* without an answer: with the first transmission, which may be lost, too
			   */
	bool endless;
};

/* @why: AV_PARK_RNR, whose interval is the responder's to say; AV_PARK_NO_ANSWER; AV_PARK_FULL */
struct av_patience av_patience_of(const struct ibv_qp_attr *attr, enum av_park why);

/* Nanoseconds of an RNR timer code (0..31). */
uint64_t av_rnr_timer_ns(unsigned int code);

#endif
