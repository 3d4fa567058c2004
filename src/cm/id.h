/* SPDX-License-Identifier: MIT */
/* Ids of the connection manager, and for which kind of queue pair. */
#ifndef AV_CM_ID_H
#define AV_CM_ID_H

#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "cm/channel.h"
#include "cm/cm_address.h"
#include "cm/cm_mad.h"
#include "cm/conn.h"
#include "observe/diagnosis.h"
#include "observe/flight.h"
#include "wire/cm_message.h"

/*
 * The kind of queue pair (enum ibv_qp_type) in messages. Pure functions. Sources: IBTA volume 1,
 * 12.7.11 and annex A14 (XRC); Linux, drivers/infiniband/core/cm.c.
 */

#define AV_CM_ANY_KIND 0 /* of a listener in RDMA_PS_IB that takes all */

/* Say in a REQ that a queue pair of that kind asks. */
void av_cm_kind_put(struct av_cm_message *req, uint8_t qp_type);

/* The kind that has to listen for a REQ or SIDR_REQ. AV_CM_ANY_KIND: there is none */
uint8_t av_cm_kind_wanted(const struct av_cm_message *request);

/* The number of the queue pair that answers, in a REP to one of @asking, or from one of @qp_type.
 */
uint32_t av_cm_kind_qpn(const struct av_cm_message *rep, uint8_t asking);
void av_cm_kind_put_qpn(struct av_cm_message *rep, uint8_t qp_type, uint32_t qpn);

/* Flight records (observe/flight.h) of connections that did not come about. Context: any. */

/*
 * The peer, or its host, refuses a request for @service_id. @reason: of its REJ, or the status of
 * its SIDR_REP; @unknown: that means that nobody listens
 */
AV_COLD void av_cm_report_refused(const struct av_cm_route *route, uint64_t service_id,
				  uint32_t reason, bool unknown);

/* Nobody has answered. @requests: that were sent */
AV_COLD void av_cm_report_silence(const struct av_cm_route *route, uint64_t service_id,
				  unsigned int requests);

/* No device leads to an address: -ENODEV, which the program gets by an event. */
AV_COLD void av_cm_report_unresolved(const struct av_cm_name *dst);

/* A command about that address is about to fail with @err. Return: -@err */
AV_COLD int av_cm_refuse_name(int err, enum av_check check, const struct av_cm_name *name);

/* Identifiers of connection management (struct rdma_cm_id): what the kernel knows of each. */

enum av_cm_id_state {
	AV_CM_ID_IDLE,
	AV_CM_ID_BOUND, /* to an address, or to all */
	AV_CM_ID_RESOLVED,
	AV_CM_ID_ROUTED,
	AV_CM_ID_LISTENS,
	AV_CM_ID_CONNECT,      /* from the request on */
	AV_CM_ID_DISCONNECTED, /* ended, by either side, or never came about */
	AV_CM_ID_REMOVED,      /* its device is gone, and all that it had there */
};

/* A multicast group that an id has joined. */
struct av_cm_group {
	uint32_t number;
	uint64_t uid;
	struct av_cm_id *id;
	uint32_t reported; /* events that were fetched */
	LIST_ENTRY(av_cm_group) entry;
};

struct av_cm_id {
	TAILQ_ENTRY(av_cm_id) entry;
	uint32_t number;
	uint64_t uid; /* what the program's library calls it; 0: not yet, and it hears nothing */
	struct av_cm_channel *channel;
	uint16_t ps;
	uint8_t qp_type;
	enum av_cm_id_state state;
	uint32_t reported; /* events that were fetched */
	bool hidden;	   /* its request was not fetched: the program has no number for it */

	struct av_cm_name src, dst; /* ports in host byte order */
	uint8_t gid[16];	    /* that leads to @dst; zeros: not resolved yet */
	struct av_cm_where where;   /* .dev NULL: it belongs to no device (yet) */
	int port;		    /* of registry/cm_ports.h; -1: none */
	uint32_t backlog;	    /* requests that may wait */

	uint8_t tos, ack_timeout; /* as set by options */
	bool ack_timeout_set, reuse, afonly, afonly_set;

	struct av_cm_conn *conn; /* NULL: none */
	uint64_t service_id;	 /* of the connection */
	LIST_HEAD(, av_cm_group) groups;
};

/* A new id of a channel. Context: locked, as everything here. NULL: no memory, or too many */
struct av_cm_id *av_cm_id_new(struct av_cm_channel *c, uint64_t uid, uint16_t ps, uint8_t qp_type);

/*
 * It goes to another channel, with its events that were not fetched, and the ids that they bring.
 * av_cm_channel_settle() of the channel of before comes next.
 */
void av_cm_id_migrate(struct av_cm_id *id, struct av_cm_channel *to);

/* With its events, its connection, its port number and its groups. */
void av_cm_id_destroy(struct av_cm_id *id);

/*
 * Its device is gone: its connection, its port number and its place there end, and it hears
 * RDMA_CM_EVENT_DEVICE_REMOVAL. From then on it can only be destroyed.
 */
void av_cm_id_remove(struct av_cm_id *id);

/*
 * The id of that number in a channel. av_cm_id_find(): for a command other than to destroy it.
 * Return: 0; -ENOENT: there is none; -EINVAL: in another one; -ENXIO: its device is gone
 */
AV_MUST_USE int av_cm_id_find(const struct av_cm_channel *c, uint32_t number, struct av_cm_id **id);
AV_MUST_USE int av_cm_id_find_any(const struct av_cm_channel *c, uint32_t number,
				  struct av_cm_id **id);

/*
 * A command is about to fail with EINVAL, for the state that the id is in. @needed: those in which
 * it would not: AV_CM_IN() of observe/flight.h. Return: -EINVAL
 */
AV_COLD int av_cm_id_refuse(const struct av_cm_id *id, uint32_t needed);

/* Call @visit for each id that has a device. It destroys none. */
void av_cm_ids_each(void (*visit)(struct av_cm_id *id, void *arg), void *arg);

/* Groups have numbers of the same kind. NULL: no memory, or too many */
struct av_cm_group *av_cm_group_new(struct av_cm_id *id, uint64_t uid);
AV_MUST_USE int av_cm_group_find(const struct av_cm_channel *c, uint32_t number,
				 struct av_cm_group **group);
void av_cm_group_destroy(struct av_cm_group *group);

/*
 * Something has happened to it. @m: the message that says so, for the event, or NULL.
 * Return: 0, or -ENOMEM: there is no event; a command fails then
 */
int av_cm_id_heard(struct av_cm_id *id, enum av_cm_event_type event, int status,
		   const struct av_cm_message *m);
int av_cm_group_heard(struct av_cm_group *group, enum av_cm_event_type event, int status,
		      const struct rdma_ucm_ud_param *ud);

/* The program says that this has happened, with an argument of its own. Return: 0, -ENOMEM */
AV_MUST_USE int av_cm_id_told(struct av_cm_id *id, enum av_cm_event_type event, uint32_t status,
			      uint64_t arg);

/*
 * A request for a connection has come: who listens gets a new id. Return: 0, or why it is refused:
 * enum av_cm_reason
 */
uint16_t av_cm_id_requested(const struct av_cm_route *route, const struct av_cm_message *m);

/* Is it an id for datagrams? */
bool av_cm_id_is_ud(const struct av_cm_id *id);

/* Bytes in front of the program's private data in a request: the addresses of IP, or nothing. */
static inline size_t av_cm_id_header(const struct av_cm_id *id)
{
	return id->dst.ib ? 0 : AV_CM_IP_BYTES;
}

/* The address handle that leads to an id's peer. */
void av_cm_id_ah(const struct av_cm_id *id, struct ib_uverbs_ah_attr *ah);

void av_cm_ids_forked(void);

#endif
