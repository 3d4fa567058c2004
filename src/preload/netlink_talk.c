/* SPDX-License-Identifier: MIT */
/*
 * The request goes to a socket of ours that lives as long as the call. So the kernel looks at the
 * program's memory, binds the program's socket and says which port it has. The answers go back to
 * that port, and wait in the program's socket like those of the kernel.
 *
 * The kernel makes a long dump as the program reads it. We know of no reading: what the program's
 * socket has no room for is left to a thread, which waits for room.
 */
#include "preload/netlink_talk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>
#include <linux/netlink.h>

#include "base/nlmsg.h"
#include "base/thread.h"
#include "base/uncancelled.h"
#include "preload/netlink_answer.h"
#include "preload/vsysfs_libc.h"

/* Ports of ours: each thread has its own ones, which are no PIDs. */
#define PORT_BASE	 0x40000000u
#define PORT_STEP	 (1u << 22) /* more than there are threads: PID_MAX_LIMIT */
#define PORT_TRIES	 64u
#define PATIENCE_SECONDS 10 /* of a program that reads no more */

/* A socket of ours, and the program's, to which answers go. */
struct talk {
	int fd, theirs;
	struct av_nl_out out;
	size_t sent;
};

static struct sockaddr_nl address(uint32_t port)
{
	return (struct sockaddr_nl){.nl_family = AF_NETLINK, .nl_pid = port};
}

/* Return: descriptor, bound to *@port; -1: none */
static int open_port(uint32_t *port)
{
	int fd = av_next_socket()(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);

	for (unsigned int i = 0; fd >= 0 && i < PORT_TRIES; i++) {
		struct sockaddr_nl addr = address(PORT_BASE + i * PORT_STEP + (uint32_t)gettid());

		*port = addr.nl_pid;
		if (!bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
			return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* --- answering --------------------------------------------------------------------- */

/* A socket that is connected to the kernel, as its port 0, takes messages of no other. */
static bool let_us_in(const struct talk *t)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};

	return !connect(t->theirs, &none, sizeof(struct sockaddr_nl));
}

/* Send what is left. Return: 0 or errno */
static int send_rest(struct talk *t, int flags)
{
	struct sockaddr_nl to = address(t->out.port);
	size_t len;

	while ((len = av_nl_datagram(&t->out, t->sent))) {
		ssize_t n = av_next_sendto()(t->fd, t->out.bytes + t->sent, len, flags,
					     (struct sockaddr *)&to, sizeof(to));

		if (n < 0 && errno != EINTR)
			return errno;
		if (n >= 0)
			t->sent += len;
	}
	return 0;
}

static void end(struct talk *t)
{
	close(t->fd);
	free(t->out.bytes);
}

/* It ends with the answer, or with the program's socket, or with our patience. */
static void *send_later(void *arg)
{
	const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
	struct talk *t = arg;

	if (!setsockopt(t->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)))
		(void)send_rest(t, 0);
	end(t);
	free(t);
	return NULL;
}

/* Return: 0; the thread ends the talk; or errno */
static int leave_to_thread(const struct talk *t)
{
	struct talk *theirs = malloc(sizeof(*theirs));
	struct av_thread *thread;

	if (!theirs)
		return ENOMEM;
	*theirs = *t;
	if (av_thread_start(&thread, "anyverbs-nl", send_later, theirs)) {
		free(theirs);
		return EAGAIN;
	}
	av_thread_leave(thread);
	return 0;
}

/* Send the answers, and end the talk. Return: false: some are lost */
static bool send_answers(struct talk *t)
{
	int err = t->out.failed ? ENOMEM : send_rest(t, MSG_DONTWAIT);

	if (err == ECONNREFUSED && let_us_in(t))
		err = send_rest(t, MSG_DONTWAIT);
	if (err == EAGAIN && !leave_to_thread(t))
		return true;
	end(t);
	return !err;
}

/* --- hearing ----------------------------------------------------------------------- */

static uint32_t port_of(int fd)
{
	struct sockaddr_nl addr = {0};
	socklen_t len = sizeof(addr);

	return getsockname(fd, (struct sockaddr *)&addr, &len) ? 0 : addr.nl_pid;
}

/* Receive what port @from sent; others may send to us, too. Return: false: it is not there */
static bool hear(int fd, uint32_t from, void *bytes, size_t len)
{
	struct sockaddr_nl addr = {0};
	ssize_t n;

	do {
		socklen_t room = sizeof(addr);

		n = recvfrom(fd, bytes, len, MSG_DONTWAIT | MSG_TRUNC, (struct sockaddr *)&addr,
			     &room);
	} while (n >= 0 && addr.nl_pid != from);
	return n == (ssize_t)len;
}

/* Answer the @len bytes that the program has sent to @fd, and close that. */
static bool answer(int fd, int theirs, size_t len)
{
	struct talk t = {.fd = fd, .theirs = theirs, .out = {.port = port_of(theirs)}};
	void *request = malloc(len + 1); /* an empty one is one, too */

	if (!request || !hear(fd, t.out.port, request, len)) {
		free(request);
		end(&t);
		return false;
	}
	av_netlink_answer(request, len, &t.out);
	free(request);
	return send_answers(&t);
}

ssize_t av_netlink_talk(int fd, struct msghdr *message, int flags)
{
	AV_UNCANCELLED;
	int saved = errno, ours;
	struct sockaddr_nl to;
	uint32_t port;
	ssize_t n;

	ours = open_port(&port);
	if (ours < 0) {
		errno = ENOBUFS;
		return -1;
	}
	to = address(port);
	message->msg_name = &to;
	message->msg_namelen = sizeof(to);
	n = av_next_sendmsg()(fd, message, flags);
	if (n < 0) {
		saved = errno;
		close(ours);
		errno = saved;
		return -1;
	}
	if (!answer(ours, fd, (size_t)n)) {
		errno = ENOBUFS;
		return -1;
	}
	errno = saved;
	return n;
}
