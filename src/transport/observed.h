/* SPDX-License-Identifier: MIT */
/* What an observer sees of requests and packets, and does to them. */
#ifndef AV_TRANSPORT_OBSERVED_H
#define AV_TRANSPORT_OBSERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "net/net.h"
#include "observe/pcapng.h"
#include "queue/qp.h"
#include "segment/observers.h"
#include "segment/segment.h"
#include "transport/execution.h"
#include "wire/packet.h"

/* === capture ===================================================================== */

/* Captures: what is captured, as which packets, and the files that they are written to. */

/*
 * The files of captures that this process has open. Frames are collected in batches, and a batch is
 * appended at once. Nothing here fails for the caller: what cannot be written is counted, and a
 * full disk ends the capture.
 *
 * Thread-safety: any number of batches at a time; one mutex is held while a batch is being written.
 */

struct av_capture_batch {
	unsigned int number; /* of the capture: registry/tables.h */
	uint32_t stamp, snaplen;
	uint8_t *blocks; /* NULL: nothing can be written */
	size_t used;
	uint64_t frames;
};

/* Captures of packets on the wire: as they were sent, and as they came. */

/*
 * Write them to the captures that cover this process and the device; packets for none of its queue
 * pairs to all that cover the process. Context: as struct av_net_receiver's @seen; waits for files;
 * keeps errno
 */
void av_capture_seen(const struct av_net_seen *seen);

/*
 * Capture: write down the packets that a request would have been on a wire, as it is executed on
 * this host; those on the wire are written as they are (capture.h). The frames are RoCEv2 on
 * any link layer, as an adapter would send them. They are the requester's packets, cut by path MTU
 * and numbered by PSN, and the responder's answer. A request that fails is written as far as it
 * gets.
 *
 * The executor calls av_capture_mark() before a request and av_capture_request() after it, before
 * the program may reuse the request's buffers. A capture never fails a request and never changes
 * its outcome.
 */

/* The state before a request was executed. */
struct av_capture_mark {
	bool on;
	uint32_t psn;
	uint32_t wait_reason; /* enum av_wait */
	uint64_t time_ns;     /* CLOCK_REALTIME */
};

/*
 * Note the state before a request of a context that a capture watches (AV_WATCHED_CAPTURE).
 * Context: @req's right @exec is held.
 */
void av_capture_mark(struct av_capture_mark *mark, const struct av_qp_ref *req);

/**
 * av_capture_request() - write down the outcome of a request
 * @mark: from av_capture_mark(), .on
 * @req: the requester; the request is not completed yet
 * @rsp: as of av_execute(); ignored for datagrams
 *
 * A request that waits is written when it begins to wait, and again when its timer has gone off.
 * Context: @req's right @exec is held, no other right or lock. Reads the program's memory; waits
 * for its pages and for the file.
 */
void av_capture_request(const struct av_capture_mark *mark, const struct av_qp_ref *req,
			const struct av_qp_ref *rsp, const struct av_sq_wqe *wqe,
			const struct av_outcome *result);

/* End looking at requests of a watched context if no capture covers it any more. */
void av_capture_look(struct av_seg *seg);

/*
 * A context has been opened: begin the capture that ANYVERBS_CAPTURE asks for. Thread-safe; keeps
 * errno.
 */
void av_capture_context_opened(struct av_seg *seg);

/* === inject ====================================================================== */

/* Faults on demand: of requests, and of packets. */

/* Whether anything travels in packets, and faults on demand at those. */

/* May queue pairs use packets, or have they to? Context: any */

/* May anything go by packets? No with ANYVERBS_TRANSPORT=direct. */
bool av_wire_is_allowed(void);

/* Does everything go by packets (ANYVERBS_TRANSPORT=wire)? */
bool av_wire_is_forced(void);

/* May queue pairs of that context? An InfiniBand link has no packets. */
bool av_wire_is_possible(const struct av_seg *seg);

/* May a connection of that context with that address vector? */
bool av_wire_may_connect(const struct av_seg *seg, const struct ibv_ah_attr *ah);

/*
 * Faults on demand at packets: one that arrives is dropped, damaged, doubled, or overtaken by
 * others. What becomes of it then is what becomes of any.
 */

/*
 * A packet has come to a queue pair of this own, watched context.
 * Return: true: it has been seen to, and so have those that it has overtaken. False: no fault
 * strikes it. Context: within the receiver; no right held
 */
AV_MUST_USE bool av_wire_faults_strike(struct av_seg *seg, const struct av_net_packet *packet);

/* No packet strikes this context any more: it is being closed. Context: no lock held */
void av_wire_faults_end(struct av_seg *seg);

/*
 * The timer's look: packets that waited for later ones, and none came. Context: the timer thread,
 * which holds nothing. Return: when to look again
 */
uint64_t av_wire_faults_look(struct av_seg *seg);

/*
 * Faults on demand, at requests, contexts and verbs. They run the code of real ones: retry.h,
 * rules.h, reset.h. Only watched contexts (segment/observers.h) come here; their own process
 * alone executes their requests.
 */

struct av_injected {
	enum {
		AV_INJECTED_NOT,  /* the request is to be executed */
		AV_INJECTED_HELD, /* it waits: the queue pair's wait_reason, deadline and timer are
				     set */
		AV_INJECTED_RESULT,  /* it ends with this outcome */
		AV_INJECTED_STATUS,  /* it completes with this status, and no responder heard of it
				      */
		AV_INJECTED_OVERRUN, /* its completion finds no room */
	} what;
	struct av_outcome result;
	enum ibv_wc_status status;
};

/*
 * Which fault befalls the request at the head of an own queue pair? Decides when the request first
 * comes here, and keeps to that while it waits. @peer: its destination; looked up here if it has
 * not been.
 * Context: @end's right @exec is held, no other.
 */
struct av_injected av_inject(const struct av_qp_ref *end, struct av_qp_ref *peer,
			     const struct av_sq_wqe *wqe);

/* Do rules of an own context strike at requests? Context: no lock but execution rights is held */
bool av_inject_is_at_requests(struct av_seg *seg);

/* A context has been opened: start its timer if it has rules that go by the clock. It is closed. */
void av_inject_begin(struct av_seg *seg);
void av_inject_end(struct av_seg *seg);

/*
 * The timer's look: apply faults that are due by the clock, and those that a request left to the
 * timer.
 * @fatal: out: the device is to fail, which the caller sees to
 * Context: the timer thread, which holds nothing. Return: when to look again
 */
uint64_t av_inject_look(struct av_seg *seg, bool *fatal);

/* Does this verb fail? Context: owner's thread, no lock held. Return: 0 or errno value */
int av_inject_verb(struct av_seg *seg, enum av_fail verb);

#endif
