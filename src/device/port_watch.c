/* SPDX-License-Identifier: MIT */
#include "device/port_watch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/fork.h"
#include "base/watcher.h"
#include "device/port.h"

/* Discard what has come: it only matters that something has. ENOBUFS means that as well. */
static void follow(struct av_watched_fd *w)
{
	char bytes[1024];

	while (recv(w->socket.fd, bytes, sizeof(bytes), 0) >= 0 || errno == ENOBUFS ||
	       errno == EINTR)
		;
	av_port_follow();
}

static struct {
	pthread_mutex_t mutex; /* guards both */
	unsigned int users;
	struct av_watched_fd netlink;
} watch = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.netlink = {.socket.fd = -1, .ready = follow},
};

static bool open_socket(struct av_own_fd *s)
{
	struct sockaddr_nl addr = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_LINK,
	};

	if (!av_own_fd_keep(
		    s, socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)))
		return false;
	if (bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return true;
	av_own_fd_close(s);
	return false;
}

/* The socket is the parent's. */
static void after_fork_in_child(void)
{
	pthread_mutex_init(&watch.mutex, NULL);
	av_own_fd_close(&watch.netlink.socket);
	watch.users = 0;
}

static const struct av_fork_handlers fork_handlers = {.child = after_fork_in_child};

void av_port_watch(void)
{
	int saved = errno;

	(void)av_fork_register(AV_FORK_PORT_WATCH, &fork_handlers);
	pthread_mutex_lock(&watch.mutex);
	if (watch.users++ == 0 && open_socket(&watch.netlink.socket))
		av_watch_begin(&watch.netlink);
	pthread_mutex_unlock(&watch.mutex);
	errno = saved;
}

void av_port_unwatch(void)
{
	pthread_mutex_lock(&watch.mutex);
	if (watch.users && --watch.users == 0) {
		av_watch_end(&watch.netlink);
		av_own_fd_close(&watch.netlink.socket);
	}
	pthread_mutex_unlock(&watch.mutex);
}
