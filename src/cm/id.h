/* SPDX-License-Identifier: MIT */
/* Ids of the connection manager, and for which kind of queue pair. */
#ifndef AV_CM_ID_H
#define AV_CM_ID_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <rdma/rdma_user_cm.h>

#include "base/compiler.h"
#include "base/watcher.h"
#include "cm/cm_address.h"
#include "net/net.h"
#include "observe/check.h"
#include "observe/flight.h"
#include "registry/tables.h"
#include "wire/cm_message.h"

/* === cm lock ===================================================================== */

/*
 * The lock of the connection manager, and its alarm.
 *
 * One mutex guards everything in this folder. It is held for moments, never over a wait, and never
 * while sockets of src/net are opened or closed, since those wait for the receiver, which takes it.
 * Order: receiver of src/net, this mutex, directory.
 */

void av_cm_lock(void);
void av_cm_unlock(void);

/* At exit. Return: false: not to be had (base/lock.h) */
AV_MUST_USE bool av_cm_exit_lock(void);

/* Have the thread look at what is due at that time, or before. Context: locked */
void av_cm_wake(uint64_t due_ns);

/* Sleep until something is due. Context: the thread, locked; sleeps unlocked */
void av_cm_sleep(void);

/* The thread is about to begin. Context: it is the only one */
void av_cm_alarm_begin(void);

/* For the handlers of fork(), which are those of cm.c. */
extern pthread_mutex_t av_cm_mutex __attribute__((visibility("hidden")));

/* === cm mad ====================================================================== */

/*
 * Messages of the connection manager on their way: management datagrams from queue pair 1 to queue
 * pair 1. Source: IBTA volume 1, 13.4, 13.5.1; annex A17.
 *
 * Processes of one directory in one network namespace give them to each other (av_net_pass()), as
 * the same packets. ANYVERBS_TRANSPORT=wire sends those by UDP, too.
 */

/* From whom to whom. */
struct av_cm_route {
	struct av_net_path path; /* @src: own address */
	uint32_t proc;		 /* the peer's process, if it is of this directory; 0: by UDP */
	const char *device;	 /* borrowed for ever */
	uint8_t named[16];	 /* a requester's name for its destination: @path's, or any */
};

/* What becomes of a message; @path leads back. Context: not locked, within the receiver */
typedef void av_cm_receive(const struct av_net_path *path, const struct av_cm_message *m);

/*
 * The route back to the sender of @m, which belongs to no connection yet: a connection has its own
 * route. Context: any; asks for the host's addresses
 */
struct av_cm_route av_cm_route_back(const struct av_net_path *path, const struct av_cm_message *m);

/* Have the messages of other processes come to this one, always by the same function. */
void av_cm_mads_begin(av_cm_receive *receive);

/*
 * Send a message. What is lost is the sender's to repeat. Return: 0; -EAGAIN: the peer's process
 * takes no more for now; -errno: it cannot be reached. Context: locked; @route's source is
 * attended, or it has a process
 */
int av_cm_send(const struct av_cm_route *route, const struct av_cm_message *m);

/*
 * Numbers of connections say whose they are: the process is in the high bits.
 * @index: below AV_CM_COMM_MAX
 */
#define AV_CM_COMM_MAX 65536u
uint32_t av_cm_comm(uint32_t index);
uint32_t av_cm_comm_index(uint32_t comm);

/*
 * Who listens for a request that has come to that own address, in this thread's network namespace.
 * Context: any. Return: false: nobody
 */
bool av_cm_listener(const uint8_t own[16], const struct av_cm_message *request,
		    struct av_cm_port *found);

/*
 * Whom a request for @route's destination is for, if it is to be had without a network: who listens
 * there, or, if nobody does, this process, which then refuses it. Context: any. Return: 0: it is
 * not
 */
uint32_t av_cm_listener_of(const struct av_cm_route *route, uint64_t service_id);

/*
 * Requests whose connections are over, or that were taken back. One of them that comes once more
 * was late on its way: who listens is not asked again. Source: IBTA volume 1, 12.9.8.3 (timewait).
 *
 * They are told apart by their transactions, which are not used again. Context of all: locked
 */

/* Remember one, and forget an old one for it. @from: whose it is, and @comm its number there */
void av_cm_stale_add(const uint8_t from[16], uint32_t comm, uint64_t transaction);

AV_MUST_USE bool av_cm_stale_is(const uint8_t from[16], uint32_t comm, uint64_t transaction);

/* === channel ===================================================================== */

/*
 * Event channels: what a program gets that opens /dev/infiniband/rdma_cm. It is one end of a pair
 * of sockets, which is readable while events wait. The kernel keeps its mark and its copies; that
 * the program has closed the last one is seen at the library's end.
 *
 * The program may give either number to another file at any moment. Each use first sees what is
 * there, as base/file.h does for the library's end; for the program's the mark says it.
 */

struct av_cm_id;
struct av_cm_group;

/* An event that waits. @id counts it when it is fetched, and so does @group. */
struct av_cm_event {
	TAILQ_ENTRY(av_cm_event) entry;
	struct av_cm_id *id;
	struct av_cm_group *group; /* NULL: it is of no multicast group */
	struct av_cm_id *fresh;	   /* of a connection request; else NULL */
	struct rdma_ucm_event_resp body;
};

struct av_cm_channel {
	uint32_t number;
	pid_t pid;
	unsigned int users; /* commands that are being carried out, and the program's end */
	bool closed;	    /* the program has no copy of its end any more */
	struct av_watched_fd end;
	TAILQ_HEAD(, av_cm_event) events;
	TAILQ_HEAD(, av_cm_id) ids;
	TAILQ_ENTRY(av_cm_channel) entry;
};

/*
 * A new channel for a program that opens the device with @flags. Context: cm_begin(), not locked
 * Return: the program's descriptor, or -errno
 */
AV_MUST_USE int av_cm_channel_new(int flags);

/* One that the program has closed, and no command uses; NULL: none. Context: locked */
struct av_cm_channel *av_cm_channel_closed(void);

/* It ends, without events and ids. Context: not locked */
void av_cm_channel_end(struct av_cm_channel *c);

/* Does that descriptor have a channel's mark? Keeps errno. */
bool av_cm_channel_is(int fd, uint32_t *number);

/*
 * The channel of a number that a descriptor's mark has, for one command; av_cm_channel_put() gives
 * it back. NULL: it is not this process's. Context: locked
 */
struct av_cm_channel *av_cm_channel_get(uint32_t number);
void av_cm_channel_put(struct av_cm_channel *c);

/* Append an event, which is the channel's from now on. Context: locked */
void av_cm_channel_append(struct av_cm_channel *c, struct av_cm_event *e);

/*
 * Wait at the program's descriptor until an event may be there. @cancel: the thread's state of
 * cancellation meanwhile; if it is cancelled, the channel is given back.
 * Context: not locked, uncancelled. Return: 0, -EAGAIN (O_NONBLOCK), -EINTR (a signal whose handler
 * does not restart calls), -EBADF (it is another file by now), ...
 */
AV_MUST_USE int av_cm_channel_wait(struct av_cm_channel *c, int fd, int cancel);

/* The first event has been fetched: it ends. @fd: the program's descriptor. Context: locked */
void av_cm_channel_fetched(struct av_cm_channel *c, int fd);

/*
 * @fd, the program's descriptor, is not readable if no event waits. If it is another file by now,
 * copies of it stay readable until somebody looks for an event there. Context: locked
 */
void av_cm_channel_settle(const struct av_cm_channel *c, int fd);

/* The first event of @id, or of @group if that is NULL, that was not fetched. Context: locked */
struct av_cm_event *av_cm_channel_find(const struct av_cm_channel *c, const struct av_cm_id *id,
				       const struct av_cm_group *group);

/* Take it out. It is the caller's from now on. Context: locked */
void av_cm_channel_remove(struct av_cm_channel *c, struct av_cm_event *e);

/* In a forked child: the parent's are not the child's. */
void av_cm_channels_forked(void);

/*
 * Events of connection management, as librdmacm numbers them: enum rdma_cm_event_type of
 * rdma_get_cm_event(3). Its header and the kernel's <rdma/rdma_user_cm.h> exclude each other.
 */

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
	AV_CM_EVENT_USER,     /* the program's own */
	AV_CM_EVENT_INTERNAL, /* librdmacm's own */
};

#define AV_CM_UDP_QKEY 0x01234567u /* of datagrams, and of multicast groups: RDMA_UDP_QKEY */

/* === conn ======================================================================== */

/*
 * Connections as the communication manager has them: which message is due, what an answer means,
 * and when to say it again. Source: IBTA volume 1, chapter 12 (12.9: state tables).
 *
 * A connection outlives its id: whoever disconnects and destroys the id leaves it to the thread to
 * have the peer hear of it.
 */

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

/* === id ========================================================================== */

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
	int port;		    /* of registry/tables.h; -1: none */
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

/* === command ===================================================================== */

/* Commands of librdmacm: what one says, and who carries it out. */

/* Commands, by value, that Linux 6.1's <rdma/rdma_user_cm.h> lacks, and librdmacm 60 gives. */

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

/* Behind the argument, the program's structure has room for what the device's own events bring. */
struct av_cm_write_event {
	uint32_t id, reserved;
	uint32_t event; /* enum av_cm_event_type */
	uint32_t status;
	uint64_t arg;
};

/* Commands of <rdma/rdma_user_cm.h>, which write(2) brings: one function each. */

#define AV_CM_COMMAND_BYTES 512 /* of the longest, and more */

/* A command that is being carried out. */
struct av_cm_call {
	struct av_cm_channel *channel;
	int fd;					       /* by which it came */
	int cancel;				       /* the thread's state of cancellation */
	uint16_t in_bytes, out_bytes;		       /* as its header says */
	_Alignas(8) uint8_t body[AV_CM_COMMAND_BYTES]; /* zeroes behind what was written */
};

/* The command's structure. */
#define AV_CM_BODY(call, type) ((const type *)(const void *)(call)->body)

/*
 * Write the answer where the program wants it. @least: bytes that it must have room for; more are
 * written as far as there is room. Return: 0, -ENOSPC, -EFAULT
 */
AV_MUST_USE int av_cm_respond(const struct av_cm_call *call, uint64_t to, const void *answer,
			      size_t least, size_t bytes);

/* Context: locked, except where said. Return: 0 or -errno */
typedef int av_cm_command(struct av_cm_call *call);

/* command.c */
av_cm_command av_cm_create_id, av_cm_destroy_id, av_cm_set_option, av_cm_notify;
av_cm_command av_cm_write_event;
av_cm_command av_cm_migrate_id; /* not locked */

/* command_connect.c: addresses */
av_cm_command av_cm_bind_ip, av_cm_bind, av_cm_resolve_ip, av_cm_resolve_addr;
av_cm_command av_cm_resolve_route, av_cm_resolve_ib_service;

/* command_query.c */
av_cm_command av_cm_query_route, av_cm_query, av_cm_init_qp_attr;

/* The same: connections. The first two open sockets: not locked */
av_cm_command av_cm_connect, av_cm_listen;
av_cm_command av_cm_accept, av_cm_reject, av_cm_disconnect;

/* command.c: groups */
av_cm_command av_cm_join_ip_mcast, av_cm_join_mcast, av_cm_leave_mcast;

/* An id that is not bound yet gets any port. */
AV_MUST_USE int av_cm_id_bind(struct av_cm_id *id, const struct av_cm_name *name);

/* Its route is there. Return: 0, -EINVAL, -ENOMEM */
AV_MUST_USE int av_cm_id_route(struct av_cm_id *id);

/* The MTU that the path from an id's address has. */
enum ibv_mtu av_cm_id_mtu(const struct av_cm_id *id);

#endif
