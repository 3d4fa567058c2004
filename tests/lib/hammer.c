/* SPDX-License-Identifier: MIT */
/* The threads of a hammering process, and its stages. */
#include "lib/hammer.h"

#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/hammer_state.h"
#include "lib/wait.h"

#define STALL_MS 40000u /* without any progress */

struct hammer_state hammer;

void hammer_fault(const char *fmt, ...)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	va_list ap;

	pthread_mutex_lock(&once);
	printf("FAIL process %u: ", hammer.plan.index);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

void hammer_stream_fault(const struct link *l, uint32_t thread, uint32_t number, const char *what)
{
	hammer_fault("%s: message %u of thread %u, connection of kind %u with process %u", what,
		     number, thread, l->kind, l->peer);
}

/* --- threads --------------------------------------------------------------------- */

/* A connection on which this thread has not sent yet, or NULL. */
static struct link *untouched_link(const struct thread *t)
{
	for (uint32_t i = 0; i < hammer.links; i++)
		if (hammer.link[i].stream[t->index].next == 0)
			return &hammer.link[i];
	return NULL;
}

static void poll_or_yield(struct thread *t)
{
	if (hammer_poll(t, CQ_LOCKED) + hammer_poll(t, CQ_FREE) == 0)
		sched_yield();
}

static void *send_and_poll(void *arg)
{
	struct thread *t = arg;
	struct link *l;

	do {
		l = atomic_load(&hammer.stop_sending)
			    ? untouched_link(t)
			    : &hammer.link[hammer_random(t, hammer.links)];
		if (l)
			hammer_send_some(t, l);
		poll_or_yield(t);
	} while (l);
	atomic_fetch_sub(&hammer.sending, 1);
	while (!atomic_load(&hammer.quit))
		poll_or_yield(t);
	return NULL;
}

static void *wait_for_events(void *arg)
{
	struct pollfd readable = {.fd = hammer.channel->fd, .events = POLLIN};
	struct thread *t = arg;
	struct ibv_cq *cq;
	void *context;

	while (!atomic_load(&hammer.quit)) {
		if (poll(&readable, 1, 50) <= 0 || ibv_get_cq_event(hammer.channel, &cq, &context))
			continue; /* another thread was faster */
		HAMMER_NEED(cq == hammer.cq[CQ_EVENTS]);
		ibv_ack_cq_events(cq, 1);
		HAMMER_NEED(!ibv_req_notify_cq(cq, 0));
		while (hammer_poll(t, CQ_EVENTS) > 0)
			;
	}
	return NULL;
}

void hammer_start(void)
{
	atomic_store(&hammer.sending, hammer.senders);
	for (uint32_t i = 0; i < hammer.plan.threads; i++) {
		struct thread *t = &hammer.thread[i];

		t->index = i;
		t->rng = (uint64_t)hammer.plan.index << 32 | i;
		memset(t->last_sent, 0xff, sizeof(t->last_sent));
		memset(t->last_received, 0xff, sizeof(t->last_received));
		HAMMER_NEED(!pthread_create(
			&t->id, NULL, i < hammer.senders ? send_and_poll : wait_for_events, t));
	}
}

/* --- the end --------------------------------------------------------------------- */

static uint32_t moved(void)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < hammer.links; i++)
		for (uint32_t t = 0; t < hammer.senders; t++)
			sum += atomic_load(&hammer.link[i].stream[t].sent.low) +
			       atomic_load(&hammer.link[i].stream[t].received.low);
	return sum;
}

struct patience {
	uint32_t last;
	uint64_t since; /* ms; 0: not waiting yet */
};

/* Wait a little. Ends the process if nothing has moved for long. @what: what it waits for. */
static void wait_moving(struct patience *p, const char *what)
{
	uint32_t now = moved();

	if (now != p->last || p->since == 0)
		*p = (struct patience){now, now_ms()};
	if (now_ms() - p->since > STALL_MS)
		hammer_fault("nothing moves, and not all has come: %s", what);
	wait_moment();
}

void hammer_stop_sending(void)
{
	struct patience p = {.since = 0};

	atomic_store(&hammer.stop_sending, true);
	while (atomic_load(&hammer.sending))
		wait_moving(&p, "room to send in");
	for (uint32_t i = 0; i < hammer.links; i++)
		for (uint32_t t = 0; t < hammer.senders; t++)
			atomic_store(&hammer.table->sent[hammer.plan.index][hammer.link[i].peer]
							[hammer.link[i].kind][t],
				     hammer.link[i].stream[t].next);
}

static void settle_stream(const struct link *l, uint32_t thread)
{
	const struct stream *s = &l->stream[thread];
	uint32_t to_come =
		atomic_load(&hammer.table->sent[l->peer][hammer.plan.index][l->kind][thread]);
	struct patience p = {.since = 0};
	char what[128];

	while (atomic_load(&s->sent.low) != s->next || atomic_load(&s->received.low) != to_come) {
		snprintf(what, sizeof(what),
			 "process %u, kind %u, thread %u: %u of %u sent, %u of %u received",
			 l->peer, l->kind, thread, atomic_load(&s->sent.low), s->next,
			 atomic_load(&s->received.low), to_come);
		wait_moving(&p, what);
	}
}

uint64_t hammer_settle(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < hammer.links; i++) {
		struct link *l = &hammer.link[i];

		for (uint32_t t = 0; t < hammer.senders; t++) {
			settle_stream(l, t);
			sum += atomic_load(&l->stream[t].received.low);
		}
		pthread_mutex_lock(&hammer.lock);
		atomic_store(&hammer.table->order[hammer.plan.index][l->peer][l->kind],
			     l->send_order);
		pthread_mutex_unlock(&hammer.lock);
	}
	return sum;
}

static void check_order(const struct link *l)
{
	bool known = hammer_kinds[l->kind].send_cq == CQ_LOCKED &&
		     hammer_kinds[l->kind].recv_cq == CQ_LOCKED;

	if (known &&
	    l->recv_order != atomic_load(&hammer.table->order[l->peer][hammer.plan.index][l->kind]))
		hammer_fault("what process %u sent, kind %u, was received in another order",
			     l->peer, l->kind);
}

void hammer_close(void)
{
	struct ibv_wc wc;

	atomic_store(&hammer.quit, true);
	for (uint32_t i = 0; i < hammer.plan.threads; i++)
		HAMMER_NEED(!pthread_join(hammer.thread[i].id, NULL));
	for (enum cq_kind k = 0; k < CQ_N; k++)
		if (ibv_poll_cq(hammer.cq[k], 1, &wc) != 0)
			hammer_fault("a completion more than was asked for, wr_id 0x%lx", wc.wr_id);
	for (uint32_t i = 0; i < hammer.links; i++)
		check_order(&hammer.link[i]);
	hammer_destroy();
}
