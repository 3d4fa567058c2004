/* SPDX-License-Identifier: MIT */
/* What the files of cm/ share. Other folders use cm/cm.h. */
#pragma once

#include <rdma/rdma_user_cm.h>

#include "cm/cm_address.h"
#include "net/net.h"
#include "registry/tables.h"
#include "wire/cm_message.h"

/* === cm lock ===================================================================== */

/*
 * The lock of the connection manager, and the alarm of its thread. In this folder's contracts,
 * "locked" means that the caller holds the lock, and "the thread" is "anyverbs-cm" of cm.c. Every
 * *_forked() runs in a forked child, and forgets what is the parent's.
 *
 * One mutex guards channels, ids, groups and connections. No thread holds it while it waits for an
 * event, or while it opens or closes sockets of src/net: that waits for the receiver, which takes
 * the mutex. Its holder may wait for a change of the directory (av_dir_change_begin()).
 * Order: receiver of src/net, this mutex, directory.
 */

void av_cm_lock(void);
void av_cm_unlock(void);

/* Set the alarm: the thread runs av_cm_look() at @due_ns (CLOCK_MONOTONIC) or before. Locked */
void av_cm_wake(uint64_t due_ns);

/* Sleep until the alarm, and clear it. Context: the thread, locked; releases the lock meanwhile */
void av_cm_sleep(void);

/* Reset the alarm. Context: the thread does not run yet; no other thread calls this */
void av_cm_alarm_begin(void);

/* The mutex, for the fork handlers of cm.c. */
extern pthread_mutex_t av_cm_mutex __attribute__((visibility("hidden")));

/* === cm mad ====================================================================== */

/*
 * Messages of the connection manager: management datagrams from queue pair 1 to queue pair 1.
 * Source: IBTA volume 1, 13.4, 13.5.1; annex A17.
 *
 * Processes of one directory in one network namespace send each other the same packets without a
 * network (av_net_pass()). With ANYVERBS_TRANSPORT=wire those go by UDP, too.
 */

struct av_cm_route {
	struct av_net_path path; /* @src: own address */
	uint32_t proc;		 /* the peer's process, if it is of this directory; 0: by UDP */
	const char *device;	 /* borrowed for ever */
	uint8_t named[16];	 /* a requester's: the destination as the program named it, which
				    may be a wildcard */
};

/* The route back to the sender of @m, without a connection. Any thread; asks for host addresses. */
struct av_cm_route av_cm_route_back(const struct av_net_path *path, const struct av_cm_message *m);

/* Receives messages, and says whose they are. */
extern const struct av_net_manager av_cm_manager __attribute__((visibility("hidden")));

/* Handle messages whose delay by a fault is over at @now_ns, and set the next alarm. Not locked */
void av_cm_mads_look(uint64_t now_ns);

/* Free those that wait still. Context: the thread, not locked */
void av_cm_mads_end(void);

void av_cm_mads_forked(void);

/*
 * Send a message. The caller retransmits what is lost. Context: locked; never blocks. @route has a
 * process, or av_cm_attend() has opened its source. Return: 0. -EAGAIN: the peer's process has no
 * room for now; -ENOMEM: also, the source is not open; another -errno: the peer is unreachable
 */
int av_cm_send(const struct av_cm_route *route, const struct av_cm_message *m);

/*
 * Find the listener for a request that has arrived at own address @own, in this thread's network
 * namespace. Context: any; the directory is joined. Return: false: none
 */
bool av_cm_listener(const uint8_t own[16], const struct av_cm_message *request,
		    struct av_cm_port *found);

/*
 * The process to which a request along @route goes without a network: the listener, or, if none
 * listens, this one, which then refuses. Context: any; reads the host's addresses.
 * Return: 0: the destination is not this host's, or ANYVERBS_TRANSPORT=wire
 */
uint32_t av_cm_listener_of(const struct av_cm_route *route, uint64_t service_id);

/*
 * Stale requests: their connections are over, or the peer has withdrawn them. A copy that arrives
 * late is dropped: the listener does not see it. Transactions identify requests, since no sender
 * uses one again. The oldest of 256 is overwritten. @from: the peer's address. @comm: the peer's
 * number of the connection. Source: IBTA volume 1, 12.9.8.3 (timewait). Context: locked
 */
void av_cm_stale_add(const uint8_t from[16], uint32_t comm, uint64_t transaction);

AV_MUST_USE bool av_cm_stale_is(const uint8_t from[16], uint32_t comm, uint64_t transaction);

/* === channel ===================================================================== */

/*
 * A program that opens /dev/infiniband/rdma_cm gets an event channel: one end of a pair of sockets,
 * readable while events wait. A socket option marks it, and names its number. When the program has
 * closed all copies of its end, the library's end becomes readable. Each use checks the descriptor
 * first: base/file.h the library's end, the mark the program's.
 */

struct av_cm_id;
struct av_cm_group;

/* An event that the program has not fetched. When it does, @id and @group count the event. */
struct av_cm_event {
	TAILQ_ENTRY(av_cm_event) entry;
	struct av_cm_id *id;
	struct av_cm_group *group; /* NULL: the event is not of a multicast group */
	struct av_cm_id *fresh;	   /* a connection request: the new id; else NULL */
	struct rdma_ucm_event_resp body;
};

struct av_cm_channel {
	uint32_t number;
	pid_t pid;
	unsigned int users; /* commands in progress */
	bool closed;	    /* the program has closed all copies of its end */
	struct av_watch_fd end;
	TAILQ_HEAD(, av_cm_event) events;
	TAILQ_HEAD(, av_cm_id) ids;
	TAILQ_ENTRY(av_cm_channel) entry;
};

/*
 * Make a channel for open(2) with @flags. Context: the connection manager has begun; not locked.
 * Return: a descriptor, which the program owns; or -errno
 */
AV_MUST_USE int av_cm_channel_new(int flags);

/* A channel that the program has closed and no command uses; NULL: none. Context: locked */
struct av_cm_channel *av_cm_channel_closed(void);

/* Free a channel, which has no ids and no events. Context: not locked; waits for the watcher */
void av_cm_channel_end(struct av_cm_channel *c);

/* Find and pin a channel, until av_cm_channel_put(). Locked. NULL: closed, or another process's */
struct av_cm_channel *av_cm_channel_get(uint32_t number);
void av_cm_channel_put(struct av_cm_channel *c);

/* Append an event, which the channel owns from then on. Locked */
void av_cm_channel_append(struct av_cm_channel *c, struct av_cm_event *e);

/*
 * If no event waits, make the program's end @fd unreadable. If @fd is another file by now, copies
 * of that end stay readable until a thread fetches from one. Locked
 */
void av_cm_channel_settle(const struct av_cm_channel *c, int fd);

/* Also closes the copies of the library's ends. */
void av_cm_channels_forked(void);

/* enum rdma_cm_event_type: librdmacm's header does not go together with <rdma/rdma_user_cm.h>. */

enum av_cm_event_type {
	AV_CM_EVENT_ADDR_RESOLVED,
	AV_CM_EVENT_ADDR_ERROR,
	AV_CM_EVENT_ROUTE_RESOLVED,
	AV_CM_EVENT_ROUTE_ERROR,
	AV_CM_EVENT_CONNECT_REQUEST,
	AV_CM_EVENT_CONNECT_RESPONSE,
	AV_CM_EVENT_CONNECT_ERROR,
	AV_CM_EVENT_UNREACHABLE,
	AV_CM_EVENT_REJECTED,
	AV_CM_EVENT_ESTABLISHED,
	AV_CM_EVENT_DISCONNECTED,
	AV_CM_EVENT_DEVICE_REMOVAL,
	AV_CM_EVENT_MULTICAST_JOIN,
	AV_CM_EVENT_MULTICAST_ERROR,
	AV_CM_EVENT_ADDR_CHANGE,
	AV_CM_EVENT_TIMEWAIT_EXIT,
	AV_CM_EVENT_ADDRINFO_RESOLVED,
	AV_CM_EVENT_ADDRINFO_ERROR,
	AV_CM_EVENT_USER,     /* from the program itself: rdma_write_cm_event(3) */
	AV_CM_EVENT_INTERNAL, /* from librdmacm itself */
};

#define AV_CM_UDP_QKEY 0x01234567u /* qkey of datagrams and multicast groups: RDMA_UDP_QKEY */

/* === conn ======================================================================== */

/*
 * Connections: the messages that each state sends and accepts, and their retransmission.
 * Source: IBTA volume 1, chapter 12 (12.9: state tables).
 *
 * A connection outlives its id. When the program has destroyed the id, the thread retransmits until
 * the peer has confirmed the end, or the retries are exhausted.
 * Context of those below, unless stated: locked
 */

/* Reasons of a REJ; IBTA volume 1, 12.6.7.2. */
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
	AV_CM_SIDR_ANSWERED, /* until the id is destroyed: repeats the answer to a repeated request
			      */
	AV_CM_ENDED,	     /* over; waits for its id to be destroyed */
};

struct av_cm_conn {
	TAILQ_ENTRY(av_cm_conn) entry;
	LIST_ENTRY(av_cm_conn) alike; /* hash chain by @remote_comm, once that is known */
	uint32_t comm, remote_comm;   /* SIDR: both ends use the requester's number */
	uint32_t nonce;		      /* in the transactions that this end begins */
	uint64_t request;	      /* transaction of the peer's REQ or SIDR_REQ; 0: none */
	uint64_t goodbye;	      /* transaction of the peer's DREQ */
	enum av_cm_conn_state state;
	struct av_cm_id *id; /* NULL: the id was destroyed */
	struct av_cm_route route;

	struct av_cm_message sent; /* the last message, for retransmission */
	bool unsent;		   /* the peer's process had no room for @sent */
	unsigned int refusals;	   /* of the request, since no process listened */
	unsigned int tries;	   /* timeouts until this end gives up; 0: no retransmission */
	uint64_t interval_ns, due_ns;

	uint32_t qpn, remote_qpn; /* as REQ and REP have them */
	uint32_t psn, remote_psn; /* of the first packet received, and sent */
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count, ack_timeout, path_mtu;
};

/*
 * Numbers of connections, which messages carry. High bits name the owning process, to which others
 * forward; low ones an index below AV_CM_COMM_MAX; those between are random.
 */
#define AV_CM_COMM_MAX	65536u
#define AV_CM_COMM_BITS 20 /* below those of the process */

/*
 * Make a connection of @id, with a number. The list of connections owns it. @request: the peer's
 * REQ or SIDR_REQ; NULL: this end requests. Return: NULL: no memory, or too many
 */
struct av_cm_conn *av_cm_conn_new(struct av_cm_id *id, enum av_cm_conn_state state,
				  const struct av_cm_route *route,
				  const struct av_cm_message *request);

/* The id is being destroyed: reject or disconnect. The thread frees the connection when it ends. */
void av_cm_conn_abandon(struct av_cm_conn *c);

/* The functions below execute commands. Return: 0. -EINVAL: the state does not allow it */

/*
 * Send @m, filled in but for its numbers, and enter the state that follows: a REQ or SIDR_REQ of a
 * new connection, a REP or SIDR_REP, an RTU. Retransmits what wants an answer.
 */
AV_MUST_USE int av_cm_conn_send(struct av_cm_conn *c, const struct av_cm_message *m);

/* Send REJ, or a SIDR_REP that refuses, with @bytes of private data. The connection is over. */
AV_MUST_USE int av_cm_conn_reject(struct av_cm_conn *c, uint16_t reason, const void *data,
				  size_t bytes);

/* Send and retransmit DREQ, or DREP if the peer has disconnected; else nothing, as the kernel. */
void av_cm_conn_disconnect(struct av_cm_conn *c);

/* A packet has come before the RTU, which may be lost. Return: also -EISCONN: it is established */
AV_MUST_USE int av_cm_conn_established(struct av_cm_conn *c);

/*
 * Handle a message that this process received along @path: change its connection's state, or refuse
 * it. Context: not locked; within the receiver of src/net, or the thread if a fault delayed it
 */
void av_cm_arrived(const struct av_net_path *path, const struct av_cm_message *m);

/*
 * Handle a REQ or SIDR_REQ: make a new id with its connection, and append its event.
 * Return: 0, or the reason to refuse the request: enum av_cm_reason
 */
uint16_t av_cm_id_requested(const struct av_cm_route *route, const struct av_cm_message *m);

/*
 * Retransmit messages that are due, detect peers' processes that have died, free connections that
 * are over, and set the next alarm. Context: the thread, locked
 */
void av_cm_conns_look(uint64_t now_ns);

/* Send each peer the end of its connection, once. Context: locked, at the process's exit */
void av_cm_conns_exit(void);

bool av_cm_conns_there(void);

void av_cm_conns_forked(void);

/* === id ========================================================================== */

/*
 * Flight records of connections that failed. Context: any; they make system calls. @reason: of the
 * REJ, or the status of the SIDR_REP; @unknown: it means that no process listens.
 */
AV_COLD void av_cm_report_refused(const struct av_cm_route *route, uint64_t service_id,
				  uint32_t reason, bool unknown);

/* The peer has not answered. @requests: how many were sent */
AV_COLD void av_cm_report_silence(const struct av_cm_route *route, uint64_t service_id,
				  unsigned int requests);

/* Ids: the kernel's half of each struct rdma_cm_id. */

enum av_cm_id_state {
	AV_CM_ID_IDLE,
	AV_CM_ID_BOUND, /* to an address, or to a wildcard */
	AV_CM_ID_RESOLVED,
	AV_CM_ID_ROUTED,
	AV_CM_ID_LISTENS,
	AV_CM_ID_CONNECT,      /* a request was sent or received */
	AV_CM_ID_DISCONNECTED, /* the connection is over, or has failed */
	AV_CM_ID_REMOVED,      /* the device has failed: the id can only be destroyed */
};

/* A multicast group that an id has joined. */
struct av_cm_group {
	uint32_t number;
	uint64_t uid;
	struct av_cm_id *id;
	uint32_t reported; /* events that the program has fetched */
	LIST_ENTRY(av_cm_group) entry;
};

struct av_cm_id {
	TAILQ_ENTRY(av_cm_id) entry;
	uint32_t number;
	uint64_t uid; /* librdmacm's name of the id; 0: none yet, and so the id gets no events */
	struct av_cm_channel *channel;
	uint16_t ps;
	uint8_t qp_type;
	enum av_cm_id_state state;
	uint32_t reported; /* events that the program has fetched */
	bool hidden; /* the program has not fetched the id's request, so has no number of it */

	struct av_cm_name src, dst;
	uint8_t gid[16];	  /* the peer's GID; zeros: not resolved yet */
	struct av_cm_where where; /* .dev NULL: the id has no device */
	int port;		  /* handle of av_cm_port_bind(); -1: none */
	uint32_t backlog;	  /* further requests that may wait to be fetched */

	uint8_t tos, ack_timeout; /* as set by options */
	bool ack_timeout_set, reuse, afonly, afonly_set;

	struct av_cm_conn *conn; /* NULL: none */
	uint64_t service_id;	 /* of the connection */
	LIST_HEAD(, av_cm_group) groups;
};

/* Context of all functions of ids and groups: locked. */

/* Free an id, with its groups and events. Abandons its connection, and releases its port number. */
void av_cm_id_destroy(struct av_cm_id *id);

/*
 * Find the id of a number in a channel. Return: 0. -ENOENT: there is none; -EINVAL: the id is
 * another channel's; -ENXIO: the id was removed. Notes the last two (av_refuse()).
 */
AV_MUST_USE int av_cm_id_find(const struct av_cm_channel *c, uint32_t number, struct av_cm_id **id);

/*
 * Note that a command fails with EINVAL because of the id's state. @needed: the states that allow
 * it: AV_CM_IN() of observe/flight.h. Return: -EINVAL
 */
AV_COLD int av_cm_id_refuse(const struct av_cm_id *id, uint32_t needed);

/* Call @visit for each id: av_table_each(). @visit destroys no id. */
void av_cm_ids_each(void (*visit)(uint32_t number, void *id, void *arg), void *arg);

/*
 * Append an event to the id's channel. An event that ends the connection also sets
 * AV_CM_ID_DISCONNECTED, and is appended only once. An id without a uid gets no event.
 * @m: the message that caused it, or NULL. Return: 0. -ENOMEM: it is lost, and a command fails
 */
int av_cm_id_heard(struct av_cm_id *id, enum av_cm_event_type event, int status,
		   const struct av_cm_message *m);

/* Is the id for datagrams (IBV_QPT_UD)? */
static inline bool av_cm_id_is_ud(const struct av_cm_id *id)
{
	return id->qp_type == IBV_QPT_UD;
}

/* Bytes before the program's private data in a request: the IP addresses; none for AF_IB. */
static inline size_t av_cm_id_header(const struct av_cm_id *id)
{
	return id->dst.ib ? 0 : AV_CM_IP_BYTES;
}

/* Fill in the address handle of an id's peer. The id has a connection. */
void av_cm_id_ah(const struct av_cm_id *id, struct ib_uverbs_ah_attr *ah);

void av_cm_ids_forked(void);

/* === command ===================================================================== */

/* Commands that librdmacm 60 writes, but <rdma/rdma_user_cm.h> of Linux 6.1 lacks. */

enum {
	AV_CM_CMD_RESOLVE_IB_SERVICE = 23,
	AV_CM_CMD_WRITE_EVENT = 24,
};

struct av_cm_resolve_ib_service {
	uint32_t id;
	uint64_t service_id;
	uint8_t name[64];
	uint32_t flags, reserved;
};

/* The program's structure is longer: after @arg it has room for the parameters of other events. */
struct av_cm_write_event {
	uint32_t id, reserved;
	uint32_t event; /* enum av_cm_event_type */
	uint32_t status;
	uint64_t arg;
};

#define AV_CM_COMMAND_BYTES 512 /* more than the longest command */

struct av_cm_call {
	struct av_cm_channel *channel;
	struct av_cm_id *id;			       /* which its row has had found */
	int fd;					       /* the descriptor of the write(2) */
	int cancel;				       /* the thread's cancellation state */
	uint16_t out_bytes;			       /* the program's room for the answer */
	_Alignas(8) uint8_t body[AV_CM_COMMAND_BYTES]; /* the command, then zeros */
};

/* The command's body as the kernel's structure @type */
#define AV_CM_BODY(call, type) ((const type *)(const void *)(call)->body)

/* Copy @answer to the program's @to, as far as it has room. Return: 0. -EFAULT: invalid memory */
AV_MUST_USE int av_cm_respond(const struct av_cm_call *call, uint64_t to, const void *answer,
			      size_t bytes);

/* A command: what is checked before it, and what executes it. */
struct av_cm_row {
	uint32_t number;
	enum av_verb verb;
	uint16_t least; /* bytes that the command must have; else -EINVAL */
	uint16_t room;	/* bytes that its answer needs; else -ENOSPC */
	uint16_t id_at; /* where it names its id; AV_CM_NO_ID: it finds ids by itself, later */
	/* Context: locked; may unlock meanwhile. Return: 0 or -errno */
	int (*run)(struct av_cm_call *call);
};

#define AV_CM_NO_ID	  UINT16_MAX
#define AV_CM_ID_OF(type) offsetof(struct rdma_ucm_##type, id)
#define AV_CM_ROW(command, verb, type, room, id_at, run)                                       \
	{                                                                                      \
		RDMA_USER_CM_CMD_##command, AV_VERB_CM_##verb, sizeof(struct rdma_ucm_##type), \
			room, id_at, run                                                       \
	}

/* The commands of each file. Behind the last one is a row of zeros. */
extern const struct av_cm_row av_cm_id_rows[] __attribute__((visibility("hidden")));
extern const struct av_cm_row av_cm_address_rows[] __attribute__((visibility("hidden")));
extern const struct av_cm_row av_cm_connection_rows[] __attribute__((visibility("hidden")));
extern const struct av_cm_row av_cm_query_rows[] __attribute__((visibility("hidden")));

/*
 * Bind an idle id to an address, and to a port: that of @name, or a free one if it is 0.
 * Context: the directory is joined; reads the host's addresses. Locked, as the next two.
 * Return: 0. -EINVAL: the id is not idle, or a link-local address has no interface; -EADDRNOTAVAIL,
 * -ENODEV: no interface, or no device, has the address; else as av_cm_port_bind() or av_cm_source()
 */
AV_MUST_USE int av_cm_id_bind(struct av_cm_id *id, const struct av_cm_name *name);

/* The active MTU of the port of an id's device. Makes system calls */
enum ibv_mtu av_cm_id_mtu(const struct av_cm_id *id);
