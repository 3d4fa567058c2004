/* SPDX-License-Identifier: MIT */
/*
 * The watcher of the host's addresses. Its socket is its only descriptor. To end it, a message to
 * itself wakes it: the kernel acknowledges a message that means nothing.
 */
#include "device/port_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/own_fd.h"
#include "base/thread.h"
#include "device/port.h"

static struct {
	pthread_mutex_t mutex; /* guards all but @stop; the thread never locks it */
	unsigned int users;
	bool running;
	pthread_t thread;
	struct av_own_fd socket; /* constant while the thread runs */
	_Atomic bool stop;
} watch = {.mutex = PTHREAD_MUTEX_INITIALIZER, .socket.fd = -1};

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

/* Discard what has come: it only matters that something has. ENOBUFS means that as well. */
static void drain(int fd)
{
	char bytes[1024];

	while (recv(fd, bytes, sizeof(bytes), 0) >= 0 || errno == ENOBUFS || errno == EINTR)
		;
}

/* @arg: a copy of the socket, which it frees: a detached thread may outlive that one */
static void *watch_main(void *arg)
{
	struct av_own_fd s = *(struct av_own_fd *)arg;
	struct pollfd p = {.fd = s.fd, .events = POLLIN};

	free(arg);
	while (!atomic_load(&watch.stop)) {
		if (poll(&p, 1, -1) < 0)
			continue;
		if ((p.revents & POLLNVAL) || av_own_fd(&s) < 0)
			break;
		drain(s.fd);
		if (!atomic_load(&watch.stop))
			av_port_follow();
	}
	return NULL;
}

/* The child has no such thread, and the socket is the parent's. */
static void after_fork_in_child(void)
{
	pthread_mutex_init(&watch.mutex, NULL);
	av_own_fd_close(&watch.socket);
	watch.users = 0;
	watch.running = false;
}

static const struct av_fork_handlers fork_handlers = {.child = after_fork_in_child};

static void start(void)
{
	struct av_own_fd *copy = malloc(sizeof(*copy));

	(void)av_fork_register(AV_FORK_PORT_WATCH, &fork_handlers);
	if (!copy || !open_socket(&watch.socket)) {
		free(copy);
		return;
	}
	atomic_store(&watch.stop, false);
	*copy = watch.socket;
	watch.running = av_thread_start(&watch.thread, "anyverbs-ports", watch_main, copy) == 0;
	if (!watch.running) {
		av_own_fd_close(&watch.socket);
		free(copy);
	}
}

static void wake(void)
{
	struct nlmsghdr nothing = {
		.nlmsg_len = sizeof(nothing),
		.nlmsg_type = NLMSG_NOOP,
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
	};

	(void)send(watch.socket.fd, &nothing, sizeof(nothing), 0);
}

static void stop(void)
{
	atomic_store(&watch.stop, true);
	if (av_own_fd(&watch.socket) >= 0) {
		wake();
		pthread_join(watch.thread, NULL);
	} else {
		pthread_detach(watch.thread); /* nothing wakes it, and it touches nothing of ours */
	}
	av_own_fd_close(&watch.socket);
	watch.running = false;
}

void av_port_watch(void)
{
	int saved = errno;

	pthread_mutex_lock(&watch.mutex);
	if (watch.users++ == 0)
		start();
	pthread_mutex_unlock(&watch.mutex);
	errno = saved;
}

void av_port_unwatch(void)
{
	pthread_mutex_lock(&watch.mutex);
	if (watch.users && --watch.users == 0 && watch.running)
		stop();
	pthread_mutex_unlock(&watch.mutex);
}
