/* SPDX-License-Identifier: MIT */
/*
 * Connections as the communication manager has them: which message is due, what an answer means,
 * and when to say it again. Source: IBTA volume 1, chapter 12 (12.9: state tables).
 *
 * A connection outlives its id: whoever disconnects and destroys the id leaves it to the thread to
 * have the peer hear of it.
 */
#ifndef AV_CM_CONN_H
#define AV_CM_CONN_H

#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/compiler.h"
#include "cm/cm_mad.h"

struct av_cm_id;

/* Why a request is refused; IBTA volume 1, 12.6.7.2. */
enum av_cm_reason {
	AV_CM_NO_RESOURCES = 3,
	AV_CM_TIMEOUT = 4,
	AV_CM_INVALID_COMM_ID = 6,
	AV_CM_INVALID_SERVICE_ID = 8,
	AV_CM_INVALID_TRANSPORT = 9,
	AV_CM_CONSUMER = 28,
	AV_CM_NO_VENDOR_OPTION = 35,
};

/* The status of a SIDR_REP; 12.11.2.2. */
enum av_cm_sidr_status { AV_CM_SIDR_OK, AV_CM_SIDR_UNSUPPORTED, AV_CM_SIDR_REJECTED };

enum av_cm_conn_state {
	AV_CM_REQ_SENT,
	AV_CM_REQ_RECEIVED,
	AV_CM_REP_SENT,
	AV_CM_REP_RECEIVED,
	AV_CM_ESTABLISHED,
	AV_CM_DREQ_SENT,
	AV_CM_DREQ_RECEIVED,
	AV_CM_TIMEWAIT,
	AV_CM_SIDR_SENT,
	AV_CM_SIDR_RECEIVED,
	AV_CM_SIDR_ANSWERED, /* as long as its id lives, for requests that come again */
	AV_CM_ENDED,	     /* nothing more is said */
};

struct av_cm_conn {
	TAILQ_ENTRY(av_cm_conn) entry;
	LIST_ENTRY(av_cm_conn) alike; /* by @remote_comm, once it is known */
	uint32_t comm, remote_comm;   /* SIDR: the requester's number, at both ends */
	uint32_t nonce;		      /* of the transactions that this end begins */
	uint64_t request;	      /* by which the peer has asked; 0: it has not */
	uint64_t goodbye;	      /* by which it has disconnected */
	enum av_cm_conn_state state;
	struct av_cm_id *id; /* NULL: it was destroyed */
	struct av_cm_route route;

	struct av_cm_message sent; /* the last one that wants an answer or may be wanted again */
	bool unsent;		   /* the peer had no room for it */
	unsigned int refusals;	   /* of a request for which nobody listened */
	unsigned int tries;	   /* left; 0: it is not repeated */
	uint64_t interval_ns, due_ns;

	uint32_t qpn, remote_qpn; /* as each end has told the other */
	uint32_t psn, remote_psn; /* of the first packet received, and sent */
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count, ack_timeout, path_mtu;
};

/* A new one of @id, with a number. Context: locked. NULL: no memory */
struct av_cm_conn *av_cm_conn_new(struct av_cm_id *id, enum av_cm_conn_state state,
				  const struct av_cm_route *route);

/* Its id ends: say so to the peer if that has heard of it. Context: locked */
void av_cm_conn_abandon(struct av_cm_conn *c);

/*
 * The commands. Context: locked. Return: 0 or -EINVAL (the state does not allow it), -ENOMEM
 *
 * av_cm_conn_request(): send REQ or SIDR_REQ, already filled in but for its numbers, until there is
 * an answer. av_cm_conn_reply(): REP or SIDR_REP. av_cm_conn_ready(): RTU. av_cm_conn_reject():
 * REJ. av_cm_conn_disconnect(): DREQ, or DREP if the peer was first; else nothing, as the kernel.
 * av_cm_conn_established(): the peer's RTU was lost, but its first packet has come. -EISCONN: it
 * was not
 */
void av_cm_conn_request(struct av_cm_conn *c, const struct av_cm_message *m);
AV_MUST_USE int av_cm_conn_reply(struct av_cm_conn *c, const struct av_cm_message *m);
AV_MUST_USE int av_cm_conn_ready(struct av_cm_conn *c);
AV_MUST_USE int av_cm_conn_reject(struct av_cm_conn *c, uint8_t reason, const void *data,
				  size_t bytes);
void av_cm_conn_disconnect(struct av_cm_conn *c);
AV_MUST_USE int av_cm_conn_established(struct av_cm_conn *c);

/* The peer calls it by that number. Context: locked */
void av_cm_conn_called(struct av_cm_conn *c, uint32_t remote_comm);

/* The answer has come: do not repeat the message. Context: locked */
void av_cm_conn_stop_timer(struct av_cm_conn *c);

/* A message has come; @path leads back. Context: not locked, within the receiver */
av_cm_receive av_cm_arrived;

/* Repeat what is due, and end what is over. Context: locked. Return: when to look again */
uint64_t av_cm_conns_look(uint64_t now_ns);

/* Say to all peers that this end is gone. Context: locked, at the exit of the process */
void av_cm_conns_exit(void);

bool av_cm_conns_there(void);
void av_cm_conns_forked(void);

#endif
