/* SPDX-License-Identifier: MIT */
/*
 * What observers see of requests and packets, and do to them: captures write them to files, faults
 * on demand change their outcome, and buffers of requests that wait are checked for changes.
 */
#pragma once

#include "base/table.h"
#include "net/net.h"
#include "segment/observers.h"
#include "transport/execution.h"

struct av_device;

/* === observers =================================================================== */

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

/* A request at the head of a queue pair of an observed context, which is about to be executed. */
struct av_observed {
	uint32_t observers; /* enum av_observer_bit */
	const struct av_qp_ref *end;
	struct av_qp_ref *peer; /* its cached destination */
	const struct av_sq_wqe *wqe;
	/* For captures: the requester before the request. */
	uint32_t psn, wait_reason;
	uint64_t time_ns; /* CLOCK_REALTIME */
	/* For faults: */
	bool singly; /* on the wire, requests are started one by one */
	struct av_injected injected;
};

/* Context of all that have a request: its @req_lock is held, no other lock. */
struct av_observer {
	uint32_t bit; /* of the contexts that it observes */
	/* The request is to be executed. Return: false: instead, @o->injected happens */
	bool (*may_begin)(struct av_observed *o);
	/*
	 * It has been executed, and is not completed yet. Not for requests in packets. May read the
	 * program's memory, and wait for its pages and for files. NULL: does nothing, as below
	 */
	void (*done)(const struct av_observed *o, const struct av_outcome *result);
	/* It begins to wait, or goes on waiting after a try. */
	void (*waits)(const struct av_qp_ref *end, const struct av_sq_wqe *wqe);
	/*
	 * A packet arrived for a queue pair of an own context. Context: the thread that receives;
	 * no queue pair lock held. Return: true: it has been handled, dropped or delayed
	 */
	bool (*packet)(struct av_seg *seg, const struct av_net_packet *packet);
};

/* Queue pairs of a segment, by index: what an observer keeps of each is in an array. */
#define AV_OBSERVED_QPS (AV_SLAB_CHUNKS * AV_OBJ_CHUNK)

extern const struct av_observer av_capture_observer, av_inject_observer, av_strict_observer;

/*
 * Call the observers of a context, if it has any, in the order of their table. @o: out, for
 * av_observed_done(). @observers: not 0
 */
bool av_observed_may_begin(struct av_observed *o, uint32_t observers, const struct av_qp_ref *end,
			   struct av_qp_ref *peer, const struct av_sq_wqe *wqe);
void av_observed_done(const struct av_observed *o, const struct av_outcome *result);
void av_observed_waits(const struct av_qp_ref *end, const struct av_sq_wqe *wqe);
bool av_observed_packet(struct av_seg *seg, const struct av_net_packet *packet);

/*
 * How many requests of an own queue pair had their buffers changed while they waited: of contexts
 * observed for misuse (AV_OBSERVER_MISUSE), in the first AV_SEND_SUM_BYTES of a message.
 */
uint64_t av_send_sum_changes(const struct av_qp_ref *end);
#define AV_SEND_SUM_BYTES 65536u

/*
 * The sum of the request's buffers, up to AV_SEND_SUM_BYTES. Context: as struct av_observer; may
 * wait for pages. Return: false: it reads no buffers, or they cannot be reached
 */
bool av_send_sum(const struct av_qp_ref *end, const struct av_sq_wqe *wqe, uint64_t *sum);

/* === capture ===================================================================== */

/*
 * Captures write packets to files. No function here fails for its caller: frames that cannot be
 * written are counted, and a full disk ends the capture.
 *
 * A request on this host is written as the packets that an adapter would have sent: RoCEv2 on any
 * link layer. First the requester's, cut by path MTU and numbered by PSN, then the responder's
 * answer. A failed request is written up to its failure. A request that waits is written when its
 * wait begins, and again each time its timer has expired.
 */

/*
 * Packets were sent on the wire, or arrived: write them to each capture that covers this process
 * and the packets' device; those that arrived for none of its queue pairs, to each capture that
 * covers the process. Context: as struct av_net_receiver's @seen; waits for files; preserves errno.
 */
void av_capture_seen(const struct av_net_seen *seen);

/*
 * A context has been opened: begin the capture of ANYVERBS_CAPTURE, unless this process has begun
 * it, and observe the context if a capture covers it. Thread-safe; preserves errno.
 */
void av_capture_context_opened(struct av_seg *seg);

/* === strict ====================================================================== */

/* A context has been opened: use the freedoms of a strict device. */
void av_strict_begin(struct av_seg *seg);

/*
 * A receive request is to complete with an error: a strict device leaves garbage in its buffer.
 * Context: any process; the responder's @resp_lock is held, no other lock. Keeps the pending record
 */
AV_COLD void av_strict_failed_receive(const struct av_receiver *to,
				      const struct av_rq_wqe *request);

/* === inject ====================================================================== */

/*
 * Faults on demand at requests, packets, contexts and verbs. They run the code of real faults: the
 * table of outcomes, the retries and the reset of the device. A packet that arrives is dropped,
 * damaged, doubled, or overtaken by later ones; from then on it is handled like any other. The
 * first try of a request decides which fault strikes it, until the fault rules change.
 */

/*
 * A context has been opened: load its fault rules, and start its timer if one goes by the clock.
 * The context is being closed: free them.
 */
void av_inject_begin(struct av_seg *seg);
void av_inject_end(struct av_seg *seg);

/*
 * The context is being closed: apply no more fault rules to its packets, and drop the delayed ones.
 * Context: no lock held, not the thread that receives packets; waits for that thread.
 */
void av_wire_faults_end(struct av_seg *seg);

/*
 * Do the fault rules fail this verb? @qpn, @key: what it is about; 0: none. Context: a thread of
 * the owner, no short lock held. Return: 0, or the errno value of the first rule that strikes
 */
int av_inject_verb(struct av_seg *seg, enum av_verb verb, uint32_t qpn, uint32_t key);

/* The same for a verb without a context: opening a device, or a command of rdma_cm. Reads files. */
int av_inject_device_verb(const struct av_device *dev, enum av_verb verb);
