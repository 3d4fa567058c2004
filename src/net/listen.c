/* SPDX-License-Identifier: MIT */
#include "net/listen.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own_fd.h"
#include "base/raw_socket.h"
#include "base/thread.h"
#include "base/waker.h"
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
	struct av_thread *thread;
	struct av_waker waker;
	_Atomic unsigned int run; /* the thread ends when this is no longer its own */
} listener = {.waker = AV_WAKER_NONE};

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
		av_waker_drain(&l->woken);
}

static bool is_over(const struct listening *l)
{
	return atomic_load(&listener.run) != l->run;
}

/*
 * @wait: for who is taking them. Asked again and again instead, it could not finish on one core
 * with this thread. Return: false: others are taking them
 */
static bool take(const struct listening *l, bool wait, bool *any)
{
	unsigned int taken;
	bool drained, mine;

	*any = false;
	do {
		mine = av_inbound_take(wait, &taken, &drained);
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
 * it is trusted waits. That is noticed once, and not again for a while: DISTRUST times, this thread
 * waits for who is taking packets at the moment, and then looks itself.
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
		mine = take(l, distrust > 0, &any);
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
	if (av_waker_begin(&listener.waker, &l->woken))
		ret = -av_thread_start(&listener.thread, "anyverbs-net", listen_main, l);
	listener.running = ret == 0;
	if (ret == 0)
		return 0;
	av_own_fd_close(&l->woken);
	av_waker_end(&listener.waker);
	free(l);
	return ret;
}

void av_listen_changed(void)
{
	(void)av_waker_wake(&listener.waker);
}

void av_listen_end(void)
{
	if (!listener.running)
		return;
	atomic_fetch_add(&listener.run, 1);
	if (av_waker_wake(&listener.waker))
		av_thread_join(listener.thread);
	else
		av_thread_leave(listener.thread); /* it ends when a packet comes, or in a moment */
	/* Whoever receives may wake it. */
	av_inbound_pause();
	av_waker_end(&listener.waker);
	av_inbound_resume();
	listener.running = false;
}

void av_listen_forked(void)
{
	av_waker_forked(&listener.waker);
	atomic_fetch_add(&listener.run, 1);
	listener.running = false;
}
