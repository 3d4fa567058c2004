/* SPDX-License-Identifier: MIT */
#include "device/port.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "base/real_calls.h"
#include "base/thread.h"

static void ready(struct av_watch_fd *w);

static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER; /* guards: */
static unsigned int users;

static struct {
	pthread_mutex_t mutex; /* held while ports are updated; guards the rest */
	struct av_watch_fd netlink;
	uint64_t netns; /* of the socket */
	bool stale;	/* ports may not agree with what the socket has said */
} watch = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.netlink = {.socket.fd = -1, .ready = ready},
};

/* Discard what has come: any message, and ENOBUFS, means a change. */
bool av_port_watch_heard(int fd)
{
	bool ret = false;
	char bytes[1024];

	while (av_raw_recv(fd, bytes, sizeof(bytes), 0) >= 0 || errno == ENOBUFS || errno == EINTR)
		ret = true;
	return ret;
}

/* Return: false: they still may not agree */
static bool sync_port(int fd)
{
	watch.stale |= av_port_watch_heard(fd);
	if (watch.stale)
		watch.stale = !av_port_follow(watch.netns);
	return !watch.stale;
}

static void ready(struct av_watch_fd *w)
{
	AV_LOCKED(&watch.mutex);
	(void)sync_port(w->socket.fd);
}

/* Does not wait: a thread that updates the ports already may be waiting for others. */
bool av_port_watch_look(uint64_t netns)
{
	AV_UNCANCELLED;
	bool current = false;
	int fd;

	if (pthread_mutex_trylock(&watch.mutex))
		return false;
	fd = av_own_fd(&watch.netlink.socket);
	if (fd >= 0 && watch.netns == netns)
		current = sync_port(fd);
	pthread_mutex_unlock(&watch.mutex);
	return current;
}

/* --- begin and end --------------------------------------------------------------------- */

bool av_port_watch_open(struct av_own_fd *s)
{
	struct sockaddr_nl addr = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_LINK,
	};

	if (!av_own_fd_keep(s, av_raw_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
					     NETLINK_ROUTE)))
		return false;
	if (av_raw_bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return true;
	av_own_fd_close(s);
	return false;
}

/* The socket is the parent's. */
static void reset_port_watch_in_child(void)
{
	pthread_mutex_init(&life, NULL);
	pthread_mutex_init(&watch.mutex, NULL);
	av_own_fd_close(&watch.netlink.socket);
	users = 0;
}

static const struct av_fork_handlers fork_handlers = {.child = reset_port_watch_in_child};

/* A port may have been made of addresses that changed before the socket was there. */
static bool start_port_watch(bool first)
{
	bool ret = false;

	AV_LOCKED(&watch.mutex);
	watch.stale = true;
	if (first) {
		watch.netns = av_netns_of_thread();
		ret = av_port_watch_open(&watch.netlink.socket);
	}
	return ret;
}

static void stop_port_watch(void)
{
	av_watch_end(&watch.netlink);
	AV_LOCKED(&watch.mutex);
	av_own_fd_close(&watch.netlink.socket);
}

void av_port_watch_begin(void)
{
	AV_ERRNO_KEPT;

	(void)av_fork_register(AV_FORK_PORT_WATCH, &fork_handlers);
	AV_LOCKED(&life);
	if (start_port_watch(users++ == 0))
		av_watch_begin(&watch.netlink);
}

void av_port_watch_end(void)
{
	AV_LOCKED(&life);
	if (users && --users == 0)
		stop_port_watch();
}
