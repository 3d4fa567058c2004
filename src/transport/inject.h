/* SPDX-License-Identifier: MIT */
/*
 * Faults on demand, where requests, contexts and verbs meet them. What a fault does is done by the
 * code that does it when it is real: the retry timers and counters (transport/retry.h), the table
 * of outcomes (transport/rules.h), a device's failing (transport/fatal.h).
 *
 * Only contexts that are watched (segment/fault_rules.h) come here, and only their own process
 * executes their requests.
 */
#ifndef AV_TRANSPORT_INJECT_H
#define AV_TRANSPORT_INJECT_H

#include "base/compiler.h"
#include "segment/fault_rules.h"
#include "queue/qp.h"
#include "transport/execute.h"

struct av_injected {
	enum {
		AV_INJECTED_NOT,  /* the request is to be executed */
		AV_INJECTED_HELD, /* it waits: park, deadline and timer of the queue pair are set */
		AV_INJECTED_RESULT,  /* this is what came of it */
		AV_INJECTED_STATUS,  /* it completes so, and nobody else heard of it */
		AV_INJECTED_OVERRUN, /* its completion finds no room */
	} what;
	struct av_outcome result;
	enum ibv_wc_status status;
};

/**
 * av_inject() - what befalls the request at the head of an own queue pair
 * @peer: its destination, looked up here if it has not been
 *
 * Decides when the request is first looked at; asked again about one that waits, goes on with that.
 * Context: @end's @exec execution right is held, no other.
 */
struct av_injected av_inject(const struct av_qp_end *end, struct av_qp_end *peer,
			     const struct av_sq_wqe *wqe);

/*
 * The context has been opened: its timer runs if it has rules that go by the clock. And it is
 * closed: the timer has ended.
 */
void av_inject_begin(struct av_seg *seg);
void av_inject_end(struct av_seg *seg);

/*
 * The timer's look: what is due by the clock, and what a request left to it. @fatal: out, the
 * device is to fail, which is the caller's business. Return: when to look again. Context: the timer
 * thread, which holds nothing.
 */
uint64_t av_inject_look(struct av_seg *seg, bool *fatal);

/* Does that verb fail? Return: 0 or errno value. Context: owner's thread, no lock held. */
int av_inject_verb(struct av_seg *seg, enum av_fail verb);

#endif
