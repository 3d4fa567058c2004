/* SPDX-License-Identifier: MIT */
#include "net/listen.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own_fd.h"
#include "base/raw_socket.h"
#include "base/thread.h"
#include "net/backlog.h"
#include "net/endpoint.h"
#include "net/inbound.h"

#define TRUST_MS  1	  /* how long whoever takes packets is trusted to take the next ones */
#define SILENT_NS 200000u /* who has not looked for so long spins on something else */
#define DISTRUST  4096u	  /* times that packets are waited for, when trust was misplaced */
#define FULL_MS	  1	  /* until a process that has no room for a message may have some */
#define BLIND_MS  20 /* while the program has closed the pair, or lowered its limit of numbers */

/* Owned by the thread. */
struct listening {
	unsigned int run;
	struct av_own_fd woken;
	struct pollfd poll[1 + AV_ENDPOINTS];
};

static struct {
	bool running;
	pthread_t thread;
	struct av_own_fd wake;	  /* what is sent here wakes the thread, */
	struct av_own_fd woken;	  /* at its end of the pair: here for the child of a fork() */
	_Atomic unsigned int run; /* the thread ends when this is no longer its own */
} listener = {.wake.fd = -1, .woken.fd = -1};

/* At the end of the file, the program has closed the other end. */
static void drain(struct listening *l)
{
	char byte;
	ssize_t n = 1;
	int fd;

	while (n > 0 && (fd = av_own_fd(&l->woken)) >= 0)
		n = av_raw_recv(fd, &byte, 1, MSG_DONTWAIT);
	if (n == 0)
		av_own_fd_close(&l->woken);
}

/* While somebody else takes the packets, they wake nobody. */
static void await(struct listening *l, bool others_take)
{
	int woken = av_own_fd(&l->woken), timeout = others_take ? TRUST_MS : -1;
	nfds_t n = 1;

	l->poll[0] = (struct pollfd){.fd = woken, .events = POLLIN};
	if (!others_take)
		n += av_endpoint_poll(l->poll + 1);
	if (woken < 0 && !others_take)
		timeout = BLIND_MS;
	if (av_backlog_waits())
		timeout = FULL_MS;
	if (av_raw_poll(l->poll, n, timeout) < 0)
		(void)av_raw_poll(NULL, 0, BLIND_MS);
	else if (l->poll[0].revents)
		drain(l);
}

static bool is_over(const struct listening *l)
{
	return atomic_load(&listener.run) != l->run;
}

/* Return: false: others are taking them */
static bool take(const struct listening *l, bool *any)
{
	unsigned int taken;
	bool drained, mine;

	*any = false;
	do {
		mine = av_inbound_take(&taken, &drained);
		*any |= taken > 0;
	} while (!drained && !is_over(l));
	return mine;
}

static bool nobody_looks(void)
{
	return av_now_ns() - av_inbound_looked_ns() > SILENT_NS;
}

/*
 * A program may poll its CQ once, and then spin on memory that packets write to: what comes while
 * it is trusted waits. That is noticed once, and not again for a while. Meanwhile nobody is
 * trusted, not even who is taking packets at this moment: its sockets are looked at again at once,
 * but no more than DISTRUST times.
 */
static void *listen_main(void *arg)
{
	struct listening *l = arg;
	unsigned int polled = av_inbound_polled(), now, distrust = 0;
	bool others_take = false, any;

	while (!is_over(l)) {
		bool silent, mine;

		await(l, others_take && distrust == 0);
		silent = others_take && nobody_looks();
		mine = take(l, &any);
		if (distrust > 0)
			distrust--;
		else if (silent && mine && any)
			distrust = DISTRUST;
		now = av_inbound_polled();
		others_take = !mine || now != polled;
		polled = now;
	}
	av_own_fd_close(&l->woken);
	free(l);
	return NULL;
}

static bool make_pair(struct listening *l)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	if (!av_own_fd_keep(&l->woken, pair[0])) {
		close(pair[1]);
		return false;
	}
	listener.woken = l->woken;
	return av_own_fd_keep(&listener.wake, pair[1]);
}

int av_listen_begin(void)
{
	struct listening *l;
	int ret = -ENOMEM;

	if (listener.running)
		return 0;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->woken = AV_OWN_FD_NONE;
	l->run = atomic_load(&listener.run);
	if (make_pair(l))
		ret = -av_thread_start(&listener.thread, "anyverbs-net", listen_main, l);
	listener.running = ret == 0;
	if (ret == 0)
		return 0;
	av_own_fd_close(&l->woken);
	av_own_fd_close(&listener.wake);
	free(l);
	return ret;
}

/* If the pair is full, the thread is about to look anyway. Return: false: it cannot be woken */
static bool wake(void)
{
	int fd = av_own_fd(&listener.wake);

	return fd >= 0 &&
	       (av_raw_send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN);
}

void av_listen_changed(void)
{
	(void)wake();
}

void av_listen_end(void)
{
	if (!listener.running)
		return;
	atomic_fetch_add(&listener.run, 1);
	if (wake())
		pthread_join(listener.thread, NULL);
	else
		pthread_detach(listener.thread); /* it ends when a packet comes, or in a moment */
	av_own_fd_close(&listener.wake);
	listener.running = false;
}

void av_listen_forked(void)
{
	av_own_fd_close(&listener.wake);
	av_own_fd_close(&listener.woken);
	atomic_fetch_add(&listener.run, 1);
	listener.running = false;
}
