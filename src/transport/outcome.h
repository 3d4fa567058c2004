/* SPDX-License-Identifier: MIT */
/*
 * What decides a request's outcome: the table of faults, the checks of a responder, retry timers
 * and counters; requests as messages of packets; and records of failures.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "memory/translate.h"
#include "observe/check.h"
#include "observe/counters.h"
#include "queue/qp.h"
#include "wire/packet.h"

/* === outcome ===================================================================== */

/*
 * Requests and answers as messages of RoCEv2 packets, for captures and for the wire. The functions
 * change nothing of the requester's queue pair. Context: its @req_lock is held, unless noted.
 */

/* The service of a queue pair type (enum ibv_qp_type). Context: any thread. */
enum av_service av_service_of(uint32_t type);

/* Does the responder acknowledge packets of this service? Context: any thread. */
static inline bool av_service_is_reliable(uint32_t type)
{
	return type != IBV_QPT_UC && type != IBV_QPT_UD;
}

/*
 * A request as a message. @kind: the row of its opcode: av_packet_kind(). @operands: of an opcode
 * with operands, else NULL. @psn: PSN of its first packet
 */
struct av_wire_message av_request_message(const struct av_qp_ref *req, const struct av_sq_wqe *head,
					  const struct av_packet_kind *kind,
					  const struct av_atomic *operands, uint32_t psn);

/*
 * A datagram's qkey: the queue pair's own if the high bit of the request's is set.
 * Source: IBTA volume 1, 10.2.5.
 */
static inline uint32_t av_datagram_qkey(const struct av_qp_ref *req, const struct av_sq_wqe *head)
{
	const uint32_t own = 0x80000000u;

	return head->ud.qkey & own ? req->qp->attr.qkey : head->ud.qkey;
}

/* Fill in what only a datagram has: its own destination, qkey and source number, the port's MTU. */
void av_datagram_message(const struct av_qp_ref *req, const struct av_sq_wqe *head,
			 struct av_wire_message *m);

/*
 * An answer from @rsp to queue pair @qpn, without payload. Context: @rsp's @resp_lock is held.
 * @type, @mtu: of the connection: enum ibv_qp_type, enum ibv_mtu
 */
struct av_wire_message av_answer_message(const struct av_qp_shared *rsp, uint32_t type,
					 uint32_t mtu, uint32_t qpn);

/*
 * The outcomes of a request on a reliable connection, on the host and on the wire. For each fault:
 * the requester's completion status, the responder's answer, and whether its queue pair fails.
 * Source: IBTA volume 1, 9.9, tables "requester/responder side error behaviour".
 */

#define AV_NAK_NONE	       0
#define AV_NAK_SEQUENCE	       0x60
#define AV_NAK_INVALID_REQUEST 0x61
#define AV_NAK_REMOTE_ACCESS   0x62
#define AV_NAK_REMOTE_OP       0x63
#define AV_EVENT_NONE	       (-1)

struct av_fault_effects {
	const char *name;
	enum ibv_wc_status requester; /* of its completion; IBV_WC_SUCCESS: it gets no answer, and
					 retries until its retries are exhausted */
	uint8_t nak;		      /* AETH syndrome; AV_NAK_NONE: the responder sends nothing */
	enum ibv_wc_status receive;   /* status of the receive request in use, if there is one;
					 IBV_WC_SUCCESS: it is flushed */
	bool responder_fails;	      /* its queue pair enters the error state */
	int event;		      /* enum ibv_event_type at the responder, or AV_EVENT_NONE */
	enum av_rsp_event refused;    /* the responder's counter for the fault */
};

/* The outcome of one try to execute a request. */
struct av_outcome {
	enum av_fault fault;	  /* AV_FAULT_NONE: done, unless it waits */
	enum av_wait wait_reason; /* AV_WAIT_NONE: executed, with success or with @fault */
	uint8_t rnr_timer;	  /* with AV_WAIT_RNR: the responder's timer code */
	bool gone;		  /* with AV_WAIT_NO_ANSWER: no answer can ever arrive */
	bool lost;		  /* an unreliable connection dropped the message */
	bool moves;	       /* with AV_WAIT_NO_ANSWER: the connection is to move to the wire */
	bool responder_failed; /* the responder is in the error state now; the caller flushes its
				  send queue */
};

/* What the responder sends for that outcome: an AETH syndrome, or AV_NAK_NONE. */
uint8_t av_nak_syndrome(const struct av_outcome *result);

/* The row of a fault; @fault < AV_FAULT_N. */
const struct av_fault_effects *av_fault_effects(enum av_fault fault);

/*
 * Is it a fault of the receiver's own memory or CQ? On unreliable services, its queue pair fails
 * then, too, and the sender gets no report. Any other fault only drops the message there.
 * Source: IBTA volume 1, 9.9.3 (class A, class G).
 */
static inline bool av_fault_is_receivers(enum av_fault fault)
{
	return fault == AV_FAULT_RECV_PROT || fault == AV_FAULT_RECV_CQ;
}

static inline void av_count_req(struct av_qp_shared *qp, enum av_req_event which)
{
	qp->counters.req.event[which]++;
}

static inline void av_count_rsp(struct av_qp_shared *qp, enum av_rsp_event which)
{
	qp->counters.rsp.event[which]++;
}

/*
 * The responder of a connected queue pair: find it by address vector and destination number, check
 * that it expects this requester, find where it receives, count what it received.
 */

/*
 * Make @peer the destination of @end, if it is not already. peer->qp is NULL if this host has no
 * such queue pair at the address of @end's attributes. Context: @end's @req_lock is held.
 * @peer: a cached destination, under @req_lock; holds a use of its segment until av_disconnect()
 */
void av_connect(const struct av_qp_ref *end, struct av_qp_ref *peer);

/* Is @ah an address of that context's port? Context: any thread. */
bool av_at_address(const struct ibv_ah_attr *ah, const struct av_seg *seg);

/* Drop a cached destination, and its use of the segment. */
void av_disconnect(struct av_qp_ref *peer);

/* Does a queue pair in this state answer requests? RTR, RTS, SQD and SQE do. */
#define AV_RESPONDER_ANSWERS(state) ((state) >= IBV_QPS_RTR && (state) <= IBV_QPS_SQE)

/* The type of the queue pair that one of this type is connected to. */
#define AV_RESPONDER_TYPE(type) ((type) == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : (type))

/*
 * Would @req's next packet reach @rsp, and is it the one that @rsp expects? An unreliable
 * connection does not compare PSNs. Context: both queue pair locks are held.
 * Return: AV_CHECK_NONE, or why @rsp does not answer
 */
enum av_check av_responder_expects(const struct av_qp_shared *rsp, const struct av_qp_shared *req);

/* Where a message for the responder finds its receive request. The responder's lock is held. */
struct av_receiver {
	const struct av_qp_ref *rsp; /* the queue pair that the message addresses */
	struct av_seg *seg;	     /* of the receive queue, its CQ and its buffers */
	uint32_t rq, cq;
	uint32_t qpn; /* of @rsp */
};

/* The receive queue of the queue pair itself, or the SRQ that it was created with. */
struct av_receiver av_receiver_of(const struct av_qp_ref *rsp);

/*
 * Count an executed message of @kind (enum av_traffic_kind). That side's queue pair lock is held.
 */
void av_traffic_count(struct av_traffic *t, uint32_t kind, uint64_t bytes, uint32_t packets);

/* === retry ======================================================================= */

/*
 * Retry timers and counters of requests without an acceptable answer. Context: the queue pair's
 * @req_lock is held, if one is given. Source: IBTA volume 1, 9.7.5.2.8 and 9.7.6.1.
 */

/*
 * Make the request at the head of an own send queue wait for @why, or continue to. The timer thread
 * tries it again at @deadline_ns (av_now_ns()), or after a kick. Sets the deadline before the
 * reason: that thread reads the deadline of each request that it finds waiting. Arms the timer
 * last: that thread may already have passed this queue pair. May create a thread.
 */
void av_sq_wait_until(const struct av_qp_ref *end, enum av_wait why, uint64_t deadline_ns);

#define AV_TRY 2u /* a try counts as this many parts */

/*
 * Count a failed try: an RNR NAK arrived (AV_WAIT_RNR), or no answer in time (AV_WAIT_NO_ANSWER).
 * Adds @parts, at most AV_TRY, to those spent on the reason since the wait began or since progress.
 * Return: AV_FAULT_NONE: try again; AV_FAULT_RNR_EXHAUSTED, AV_FAULT_RETRY_EXHAUSTED: the last try
 */
AV_MUST_USE enum av_fault av_retry_count(const struct av_qp_ref *end, enum av_wait why,
					 uint32_t parts);

/* Is the current try for an answer the last one? Without a timeout, no try is. */
bool av_retry_is_last(const struct av_qp_shared *qp);

/* Does the request wait for @why until a later time than @now_ns? A check so early is no try. */
bool av_retry_is_early(const struct av_qp_shared *qp, enum av_wait why, uint64_t now_ns);

/*
 * The request at the head was tried on this host, and @result says why it must wait: begin or
 * continue the wait. A try before the deadline does not count. If no answer can ever arrive and no
 * timeout is set, the request fails at once. May create a thread.
 * Return: AV_FAULT_NONE: it waits; AV_FAULT_RNR_EXHAUSTED, AV_FAULT_RETRY_EXHAUSTED: it failed
 */
AV_MUST_USE enum av_fault av_retry(const struct av_qp_ref *end, const struct av_outcome *result);

/* How long a requester waits for an acceptable answer, and how often it tries. */
struct av_retry_limits {
	uint64_t interval_ns;
	uint32_t tries; /* including the first; 0: no limit */
};

/*
 * @why: AV_WAIT_RNR, whose interval the responder's timer code replaces if @tries is not 0;
 * AV_WAIT_NO_ANSWER; AV_WAIT_FULL
 */
struct av_retry_limits av_retry_limits_of(const struct ibv_qp_attr *attr, enum av_wait why);

/* Nanoseconds of an RNR timer code (0..31): IBTA volume 1, table "RNR NAK timer field encoding". */
uint64_t av_rnr_timer_ns(unsigned int code);

/* === report ====================================================================== */

/*
 * Flight records (observe/flight.h) of failures in the transport. If no check has noted the cause,
 * these functions derive it afterwards. Context: any thread of the transport; they take no lock.
 */

struct av_failed {
	const struct av_qp_ref *req, *rsp; /* @rsp: .qp is NULL if there is no responder */
	const struct av_sq_wqe *wqe;
	enum av_fault fault;
	bool silent;		   /* @rsp is alive, but did not answer; its @resp_lock is held */
	enum ibv_wc_status status; /* in the place of the fault's, if not 0 */
};

/* A request completes with an error. @req_lock is held; @rsp's @resp_lock only if @silent. */
AV_COLD void av_report_request(const struct av_failed *failed);

/* The responder of that request fails, too: call this before av_report_request(), @resp_lock held.
 */
AV_COLD void av_report_responder(const struct av_failed *failed);

/* @at dropped a message of an unreliable service, for the reason that has been noted. */
struct av_dropped {
	const struct av_qp_ref *at;
	enum av_fault fault; /* its own, by which it fails: its @resp_lock is held. AV_FAULT_NONE */
	bool at_sender;	     /* nobody can receive it; else the sender is: */
	uint32_t src_qpn;    /* its number */
	int32_t src_pid;     /* its process; 0: on another host */
	uint32_t opcode;
};
AV_COLD void av_report_dropped(const struct av_dropped *dropped);

/*
 * A strict device used a freedom at a request. @wanted, @limit: of the check's sentence.
 * Context: @end's @req_lock is held. Return: as av_report()
 */
uint64_t av_report_freedom(const struct av_qp_ref *end, const struct av_sq_wqe *wqe,
			   enum av_check check, uint64_t wanted, uint64_t limit);

/*
 * An unreliable connection lost a message at its responder, whose @resp_lock is held; with
 * AV_FAULT_RETRY_EXHAUSTED at its requester: no responder answers. Context: as av_report_request().
 */
AV_COLD void av_report_lost(const struct av_failed *failed);

/*
 * @count requests of a queue were flushed. Records nothing if @count is 0, or if the program itself
 * moved the queue pair to the error state, since connections normally end so.
 * @receives: it is the receive queue
 */
AV_COLD void av_report_flush(const struct av_qp_ref *end, uint32_t count, bool receives);

/*
 * Queue pair @end had event @event, or AV_EVENT_NONE, without a request that failed.
 * Return: as av_report()
 */
AV_COLD uint64_t av_report_event(const struct av_qp_ref *end, enum av_check check, int event,
				 uint64_t limit);

/* A queue pair fails because its send CQ had no room for the completion of a successful request. */
AV_COLD void av_report_send_cq(const struct av_qp_ref *end);

/* The payload of a message could not be copied to its buffer when its completion was polled. */
AV_COLD void av_report_placement(const struct av_seg *seg, const struct ibv_wc *wc);

/* The device of a context has failed. */
AV_COLD void av_report_fatal(const struct av_seg *seg);
