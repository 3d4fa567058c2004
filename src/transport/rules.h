/* SPDX-License-Identifier: MIT */
/*
 * The outcomes of a request on a reliable connection. For each fault: what the requester's
 * completion says, what the responder answers, and whether the responder fails. One table for every
 * way of moving data.
 *
 * Source: IBTA volume 1, 9.9 (error detection and handling), tables "requester/responder side error
 * behaviour".
 */
#ifndef AV_TRANSPORT_RULES_H
#define AV_TRANSPORT_RULES_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "memory/xfer.h"
#include "observe/counters.h"
#include "queue/qp.h"

#define AV_NAK_NONE	       0
#define AV_NAK_SEQUENCE	       0x60
#define AV_NAK_INVALID_REQUEST 0x61
#define AV_NAK_REMOTE_ACCESS   0x62
#define AV_NAK_REMOTE_OP       0x63
#define AV_EVENT_NONE	       (-1)

struct av_rule {
	const char *name;
	enum ibv_wc_status requester; /* IBV_WC_SUCCESS: no answer, retries until it fails */
	uint8_t nak;		      /* AETH syndrome, AV_NAK_NONE if nothing is sent */
	enum ibv_wc_status receive;   /* of the receive request in use, if there is one;
					 IBV_WC_SUCCESS: flushed */
	bool responder_fails;	      /* the responder's queue pair goes to the error state */
	int event;		      /* enum ibv_event_type at the responder, or AV_EVENT_NONE */
	enum av_rsp_event refused;    /* how a responder counts it */
};

/* The outcome of one try to execute a request. */
struct av_outcome {
	enum av_fault fault;   /* AV_FAULT_NONE: done, unless parked */
	enum av_park park;     /* AV_PARK_NOT: executed, successfully or with @fault */
	uint8_t rnr_timer;     /* with AV_PARK_RNR: the responder's timer code */
	bool gone;	       /* with AV_PARK_NO_ANSWER: there will never be an answer */
	bool lost;	       /* a message of an unreliable connection was dropped */
	bool moves;	       /* with AV_PARK_NO_ANSWER: the connection is to move to the wire */
	bool responder_failed; /* the responder is now in the error state, and its send queue has to
				  be flushed */
};

/* The fault that a responder on another host has found, by its NAK; AV_FAULT_NONE: no such NAK. */
enum av_fault av_fault_of_nak(uint8_t nak);

/* The row of a fault; @fault < AV_FAULT_N. */
const struct av_rule *av_rule(enum av_fault fault);

/*
 * Is it the receiver's own? Then its queue pair fails on unreliable services, too, and the sender
 * hears nothing. All else loses the message there. Source: IBTA volume 1, 9.9.3 (class A, class G).
 */
static inline bool av_fault_is_receivers(enum av_fault fault)
{
	return fault == AV_FAULT_RECV_PROT || fault == AV_FAULT_RECV_CQ;
}

#endif
