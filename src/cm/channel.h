/* SPDX-License-Identifier: MIT */
/*
 * Event channels: what a program gets that opens /dev/infiniband/rdma_cm. It is one end of a pair
 * of sockets, which is readable while events wait. The kernel keeps its mark and its copies; that
 * the program has closed the last one is seen at the library's end.
 *
 * The program may give either number to another file at any moment. Each use first sees what is
 * there, as base/file.h does for the library's end; for the program's the mark says it.
 */
#ifndef AV_CM_CHANNEL_H
#define AV_CM_CHANNEL_H

#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/compiler.h"
#include "base/watcher.h"

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

#endif
