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
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/thread.h"
#include "device/port.h"

/* Whose file is it? Programs close descriptors they do not know, and numbers are reused. */
struct watched {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino;
};

static struct {
	pthread_mutex_t mutex; /* guards all but @stop; the thread never locks it */
	unsigned int users;
	bool running;
	pthread_t thread;
	struct watched socket; /* constant while the thread runs */
	_Atomic bool stop;
} watch = {.mutex = PTHREAD_MUTEX_INITIALIZER, .socket.fd = -1};

static bool is_ours(const struct watched *s)
{
	struct stat st;

	return s->fd >= 0 && fstat(s->fd, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino;
}

static void close_socket(struct watched *s)
{
	if (is_ours(s))
		close(s->fd);
	s->fd = -1;
}

static bool open_socket(struct watched *s)
{
	struct sockaddr_nl addr = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_LINK,
	};
	struct stat st;

	s->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (s->fd < 0)
		return false;
	if (bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)) || fstat(s->fd, &st)) {
		close(s->fd);
		s->fd = -1;
		return false;
	}
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return true;
}

/* Discard what has come: it only matters that something has. ENOBUFS means that as well. */
static void drain(int fd)
{
	char bytes[1024];

	while (recv(fd, bytes, sizeof(bytes), 0) >= 0 || errno == ENOBUFS || errno == EINTR)
		;
}

static void *watch_main(void *arg)
{
	struct watched s = watch.socket;
	struct pollfd p = {.fd = s.fd, .events = POLLIN};

	while (!atomic_load(&watch.stop)) {
		if (poll(&p, 1, -1) < 0)
			continue;
		if ((p.revents & POLLNVAL) || !is_ours(&s))
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
	close_socket(&watch.socket);
	watch.users = 0;
	watch.running = false;
}

static const struct av_fork_handlers fork_handlers = {.child = after_fork_in_child};

static void start(void)
{
	(void)av_fork_register(AV_FORK_PORT_WATCH, &fork_handlers);
	if (!open_socket(&watch.socket))
		return;
	atomic_store(&watch.stop, false);
	watch.running = av_thread_start(&watch.thread, "anyverbs-ports", watch_main, NULL) == 0;
	if (!watch.running)
		close_socket(&watch.socket);
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
	if (is_ours(&watch.socket)) {
		wake();
		pthread_join(watch.thread, NULL);
	} else {
		pthread_detach(watch.thread); /* nothing wakes it, and it touches nothing of ours */
	}
	close_socket(&watch.socket);
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
