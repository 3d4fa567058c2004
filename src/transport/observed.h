/* SPDX-License-Identifier: MIT */
/*
 * What an observer sees of requests and packets, and what it does to them: captures write them to
 * files, and faults on demand change their outcome.
 */
#ifndef AV_TRANSPORT_OBSERVED_H
#define AV_TRANSPORT_OBSERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "net/net.h"
#include "queue/qp.h"
#include "segment/observers.h"
#include "segment/segment.h"
#include "transport/execution.h"
#include "wire/packet.h"

/* === capture ===================================================================== */

/*
 * Captures: which packets are written to which files. No function here fails for its caller: frames
 * that cannot be written are counted, and a full disk ends the capture.
 */

/*
 * Packets on the wire, as they were sent, and as they arrived: write them to each capture that
 * covers this process and the packets' device. Packets that arrived for none of its queue pairs go
 * to each capture that covers the process. Context: as struct av_net_receiver's @seen; waits for
 * files; preserves errno.
 */
void av_capture_seen(const struct av_net_seen *seen);

/*
 * Captures of requests on this host: write the packets that a request would have sent on a wire.
 * The frames are RoCEv2 on any link layer, as an adapter would send them: the requester's packets,
 * cut by path MTU and numbered by PSN, and the responder's answer. A failed request is written up
 * to its failure. Packets on the wire are written by av_capture_seen() instead.
 *
 * The executor calls av_capture_mark() before a request. It calls av_capture_request() after the
 * request, before the program may reuse the request's buffers. A capture never fails a request, and
 * never changes its outcome.
 */

/* The requester's state before a request was executed. */
struct av_capture_mark {
	bool on;
	uint32_t psn;
	uint32_t wait_reason; /* enum av_wait */
	uint64_t time_ns;     /* CLOCK_REALTIME */
};

/*
 * Record the state before a request of a context that a capture watches (AV_WATCHED_CAPTURE).
 * Context: @req's right @exec is held.
 */
void av_capture_mark(struct av_capture_mark *mark, const struct av_qp_ref *req);

/**
 * av_capture_request() - write a request and its outcome
 * @mark: from av_capture_mark(), with @on set
 * @req: the requester; the request is not completed yet
 * @rsp: as in av_execute(); ignored for datagrams
 *
 * A request that waits is written when its wait begins, and again each time its timer has expired.
 * Context: @req's right @exec is held, no other right or lock. Reads the program's memory; waits
 * for its pages and for the file.
 */
void av_capture_request(const struct av_capture_mark *mark, const struct av_qp_ref *req,
			const struct av_qp_ref *rsp, const struct av_sq_wqe *wqe,
			const struct av_outcome *result);

/*
 * Stop watching a context if no capture covers it any more, and close the files of captures that
 * have ended.
 * Context: any thread, which may hold @exec; takes the mutex of the files.
 */
void av_capture_look(struct av_seg *seg);

/*
 * A context has been opened: begin the capture that ANYVERBS_CAPTURE asks for, if this process has
 * not begun it yet, and watch the context if a capture covers it. Thread-safe; preserves errno.
 */
void av_capture_context_opened(struct av_seg *seg);

/* === inject ====================================================================== */

/* Faults on demand, of requests and of packets; and whether queue pairs use packets. */

/* May queue pairs use packets, or must they? Context of these functions: any thread. */

/* May any queue pair use packets? False with ANYVERBS_TRANSPORT=direct. */
bool av_wire_is_allowed(void);

/* Must every queue pair use packets, if it can (ANYVERBS_TRANSPORT=wire)? */
bool av_wire_is_forced(void);

/*
 * May queue pairs of that context use packets? Only on an Ethernet link, and if
 * av_wire_is_allowed().
 */
bool av_wire_is_possible(const struct av_seg *seg);

/*
 * May a connection of that context to that address use packets? Only if the address has a GID, too.
 */
bool av_wire_may_connect(const struct av_seg *seg, const struct ibv_ah_attr *ah);

/*
 * Faults on demand at packets: a packet that arrives is dropped, damaged, doubled, or overtaken by
 * later ones. From then on it is handled like any other packet.
 */

/*
 * A packet arrived for a queue pair of this own, watched context: apply the fault rules to it.
 * Context: the thread that receives packets; no execution right held.
 * Return: true: this function has handled, dropped or delayed the packet, and has handled delayed
 * packets that are due. false: there is no memory, or the context is being closed; the caller
 * handles the packet
 */
AV_MUST_USE bool av_wire_faults_strike(struct av_seg *seg, const struct av_net_packet *packet);

/*
 * The context is being closed: apply no more fault rules to its packets, and drop the delayed ones.
 * Context: no lock held, not the thread that receives packets; waits for that thread.
 */
void av_wire_faults_end(struct av_seg *seg);

/*
 * Handle delayed packets that no later packet has overtaken in time.
 * Context: the timer thread; no lock or execution right held.
 * Return: when to call again, in ns of av_now_ns(); UINT64_MAX: when woken
 */
uint64_t av_wire_faults_look(struct av_seg *seg);

/*
 * Faults on demand at requests, contexts and verbs. They run the code of real faults: the rules,
 * the retries and the reset of the device. Only watched contexts (segment/observers.h) reach this
 * code.
 */

struct av_injected {
	enum {
		AV_INJECTED_NOT,    /* execute the request */
		AV_INJECTED_HELD,   /* the request waits: the queue pair's wait_reason, deadline and
				       timer are set */
		AV_INJECTED_RESULT, /* the request ends with @result */
		AV_INJECTED_STATUS, /* the request completes with @status, and no responder takes
				       part */
		AV_INJECTED_OVERRUN, /* the completion finds no room */
	} what;
	struct av_outcome result;
	enum ibv_wc_status status;
};

/*
 * Decide which fault strikes the request at the head of an own queue pair. The decision is made at
 * the first call for the request, and holds while the request waits, until the rules change.
 * @peer: its cached destination; looked up here if need be
 * Context: @end's right @exec is held, no other.
 */
struct av_injected av_inject(const struct av_qp_ref *end, struct av_qp_ref *peer,
			     const struct av_sq_wqe *wqe);

/* Do fault rules of an own context strike requests? Context: no lock but execution rights held. */
bool av_inject_is_at_requests(struct av_seg *seg);

/*
 * A context has been opened: load its fault rules, and start its timer if one goes by the clock.
 * The context is being closed: free them.
 */
void av_inject_begin(struct av_seg *seg);
void av_inject_end(struct av_seg *seg);

/*
 * Apply faults that are due by the clock, and those that a request deferred to the timer thread.
 * @fatal: out: set if the device is to fail; the caller then fails it
 * Context: the timer thread; no lock or execution right held.
 * Return: when to call again, in ns of av_now_ns(); UINT64_MAX: when woken
 */
uint64_t av_inject_look(struct av_seg *seg, bool *fatal);

/*
 * Do the fault rules fail this verb? Context: a thread of the owner, no lock held.
 * Return: 0, or the errno value of the first rule that strikes
 */
int av_inject_verb(struct av_seg *seg, enum av_fail verb);

#endif
