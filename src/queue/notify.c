/* SPDX-License-Identifier: MIT */
/* Events of a CQ: arming, moderation, whom they wake; and threads that wait for one (AS notify). */
#include "queue/cq.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "observe/flight.h"

/* --- events: under the producer ring's lock, but for sending them ---------------------------- */

/* Of a bell. */
enum event {
	EVENT_NONE,
	EVENT_NOW,   /* for the completion channel */
	EVENT_WAKE,  /* for a thread that waits directly */
	EVENT_LATER, /* later: the timer has to be told */
};

static struct av_cq_bell silent_bell(const struct av_cq_shared *cq, uint32_t index)
{
	return (struct av_cq_bell){
		.index = index,
		.id = atomic_load_explicit(&cq->id, memory_order_relaxed),
		.event = EVENT_NONE,
	};
}

static bool moderated(const struct av_cq_producer *in)
{
	return in->event_count || in->event_period_us;
}

/*
 * With what it is armed; NOT_ARMED, too, while its event is being raised. An event whose raiser
 * seems to be dead may never come: nobody has been told.
 */
static uint32_t armed_with(const struct av_cq_shared *cq, struct av_cq_producer *in)
{
	uint32_t armed = av_oneshot_due(&in->armed);

	if (av_unlikely(armed != AV_CQ_NOT_ARMED && av_oneshot_is_begun(&in->armed)))
		in->told = atomic_load(&cq->head);
	return armed;
}

/*
 * Make the event of the entries before @upto: the one place that claims an event, and books what
 * goes with it only if the claim succeeds.
 */
static void make_event(struct av_cq_shared *cq, struct av_cq_producer *in, uint32_t upto,
		       struct av_cq_bell *bell)
{
	bell->claim = av_oneshot_begin(&in->armed);
	if (!bell->claim)
		return;
	bell->event = atomic_load(&cq->notify) == AV_CQ_NOTIFY_USED ? EVENT_WAKE : EVENT_NOW;
	in->told = upto;
	in->counted = 0;
	atomic_store(&in->event_due_ns, 0);
	if (av_cq_notifies(cq))
		atomic_store(&cq->ready, 1); /* before @waiters is read: queue/cq.h */
}

static void begin_period(struct av_cq_producer *in, struct av_cq_bell *bell)
{
	if (atomic_load(&in->event_due_ns))
		return;
	atomic_store(&in->event_due_ns, av_now_ns() + in->event_period_us * 1000ull);
	bell->event = EVENT_LATER;
}

/* Who set the time may have been stopped before the timer was told. */
static bool is_flush_due(const struct av_cq_producer *in)
{
	uint64_t due = atomic_load(&in->event_due_ns);

	return due && av_now_ns() > due + AV_STUCK_NS;
}

static bool wants_event(uint32_t armed, const struct av_cqe *cqe)
{
	return armed == AV_CQ_ARMED_ANY ||
	       (armed == AV_CQ_ARMED_SOLICITED &&
		(cqe->status != IBV_WC_SUCCESS || (cqe->flags & AV_CQE_SOLICITED)));
}

/* An entry that wants an event, the last before @upto: does it make one, now or later? */
static void count_entry(struct av_cq_shared *cq, struct av_cq_producer *in,
			const struct av_cqe *cqe, uint32_t upto, struct av_cq_bell *bell)
{
	in->counted++;
	if (!moderated(in) || (in->event_count && in->counted >= in->event_count) ||
	    cqe->status != IBV_WC_SUCCESS || is_flush_due(in))
		make_event(cq, in, upto, bell);
	else if (in->event_period_us)
		begin_period(in, bell);
}

/*
 * Make the event of the entries in an armed CQ. As with an adapter, each entry makes one: not those
 * that the last event stood for, but those behind them, since programs take an event, arm the CQ
 * and poll once. With a period, an event stands for many: those left make another after the period.
 */
static void count_present(struct av_seg *seg, struct av_cq_shared *cq, uint32_t i,
			  struct av_cq_bell *bell)
{
	struct av_cq_producer *in = &cq->producer[i];
	uint32_t armed = armed_with(cq, in), tail = atomic_load(&in->tail);
	uint32_t untold = av_cq_first_untold(cq, in);
	uint32_t n = in->event_period_us ? atomic_load(&cq->head) : untold;

	in->counted = 0;
	if (armed == AV_CQ_NOT_ARMED)
		return;
	for (bool told = n != untold; n != tail && !bell->claim; n++) {
		const struct av_cqe *e = av_cq_entry(seg, cq, i, n);

		told = told && n != untold;
		if (!e || !wants_event(armed, e))
			continue;
		if (told)
			begin_period(in, bell);
		else
			count_entry(cq, in, e, n + 1, bell);
	}
}

struct av_cq_bell av_cq_count_event(struct av_seg *seg, uint32_t index, uint32_t i,
				    const struct av_cqe *cqe)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	struct av_cq_producer *in = &cq->producer[i];
	struct av_cq_bell bell = silent_bell(cq, index);

	if (av_unlikely(av_oneshot_is_begun(&in->armed)))
		count_present(seg, cq, i, &bell); /* if its raiser seems to be dead */
	else if (wants_event(av_oneshot_armed(&in->armed), cqe))
		count_entry(cq, in, cqe, atomic_load(&in->tail), &bell);
	return bell;
}

void av_cq_ring(struct av_seg *seg, const struct av_cq_bell *bell)
{
	struct av_cq_shared *cq = av_cq_at(seg, bell->index);

	if (bell->event == EVENT_NONE || !cq ||
	    atomic_load_explicit(&cq->id, memory_order_relaxed) != bell->id)
		return;
	if (bell->event == EVENT_LATER) {
		av_seg_wake_timer(seg);
		return;
	}
	if (bell->event != EVENT_WAKE)
		av_cq_tell(seg, bell->index);
	else if (atomic_load(&cq->waiters))
		syscall(SYS_futex, &cq->ready, FUTEX_WAKE, 1, NULL, NULL, 0);
	/* Whichever producer ring is used by now. */
	av_oneshot_end(&cq->producer[0].armed, bell->claim);
	av_oneshot_end(&cq->producer[1].armed, bell->claim);
}

/*
 * Release the producer ring's lock, which is held, then send the event: the owner, or another
 * thread, may take the core of whoever wakes it.
 */
static void release_cq_producer(struct av_seg *seg, struct av_cq_shared *cq, int i,
				const struct av_cq_bell *bell)
{
	av_lock_release(&cq->producer[i].lock);
	av_cq_ring(seg, bell);
}

void av_cq_arm(struct av_seg *seg, uint32_t index, enum av_cq_armed how)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	int i = av_cq_lock(seg, cq, index,
			   false); /* a later appender sees it without a barrier of its own */
	struct av_cq_producer *in = &cq->producer[i];
	struct av_cq_bell bell = silent_bell(cq, index);
	uint32_t armed;

	armed = armed_with(cq, in);
	/* In any case: whoever ends an earlier event, however late, does not end this arming. */
	av_oneshot_arm(&in->armed, armed < (uint32_t)how ? (uint32_t)how : armed);
	atomic_store_explicit(&cq->ready, 0, memory_order_relaxed); /* the last event is over */
	count_present(seg, cq, (uint32_t)i, &bell);
	release_cq_producer(seg, cq, i, &bell);
}

bool av_cq_notify_waits(struct av_seg *seg, uint32_t index)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	uint32_t before;
	int i;

	if (av_likely(atomic_load_explicit(&cq->notify, memory_order_relaxed) == AV_CQ_NOTIFY_USED))
		return false;
	i = av_cq_lock(seg, cq, index,
		       false); /* excludes appenders: their next event goes the new way */
	before = atomic_exchange(&cq->notify, AV_CQ_NOTIFY_USED);
	av_lock_release(&cq->producer[i].lock);
	return before != AV_CQ_NOTIFY_USED;
}

void av_cq_look_again(struct av_seg *seg, uint32_t index)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	int i = av_cq_lock(seg, cq, index, false);
	struct av_cq_bell bell = silent_bell(cq, index);

	if (!moderated(&cq->producer[i]))
		count_present(seg, cq, (uint32_t)i, &bell);
	release_cq_producer(seg, cq, i, &bell);
}

void av_cq_moderate(struct av_seg *seg, uint32_t index, uint32_t count, uint32_t period_us)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	int i = av_cq_lock(seg, cq, index, false);
	struct av_cq_producer *in = &cq->producer[i];
	struct av_cq_bell bell = silent_bell(cq, index);

	in->event_count = (uint16_t)count;
	in->event_period_us = (uint16_t)period_us;
	atomic_store(&in->event_due_ns, 0);
	in->told = atomic_load(&cq->head); /* one event of before stood for many */
	count_present(seg, cq, (uint32_t)i, &bell);
	release_cq_producer(seg, cq, i, &bell);
}

uint64_t av_cq_put_off(struct av_seg *seg, uint32_t index, uint64_t now_ns)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	struct av_cq_bell bell;
	struct av_cq_producer *in;
	uint64_t due;
	int i;

	if (!cq || !atomic_load(&cq->producer[av_cq_used(cq)].event_due_ns))
		return UINT64_MAX;
	i = av_cq_lock(seg, cq, index, false);
	in = &cq->producer[i];
	bell = silent_bell(cq, index);
	due = atomic_load(&in->event_due_ns);
	if (due && due <= now_ns) {
		atomic_store(&in->event_due_ns, 0);
		make_event(cq, in, atomic_load(&in->tail), &bell);
		due = 0;
	}
	release_cq_producer(seg, cq, i, &bell);
	return due ? due : UINT64_MAX;
}

/* Waiting for the event of a CQ on a word of its own. */

#define REST_NS 50000u /* about the cost of putting a thread to sleep and waking it */

uint64_t av_notify_nap_ns = 50000000u;

static const struct av_hw_wait *rest;

/* "futex", or the name of an instruction. On one core the waker could not run beside a rest. */
static void choose_rest(void)
{
	const char *name = secure_getenv("ANYVERBS_AS_NOTIFY");

	if (!name)
		rest = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? av_hw_wait_best() : NULL;
	else if (strcmp(name, "futex"))
		rest = av_hw_wait_by_name(name);
	if (name && !rest && strcmp(name, "futex"))
		av_log(AV_LOG_WARN, "ANYVERBS_AS_NOTIFY: this machine does not have '%.32s'", name);
}

void av_cq_notify_make(struct av_cq_shared *cq)
{
	atomic_store(&cq->notify, AV_CQ_NOTIFY_MADE);
}

static bool consume_cq_event(struct av_cq_shared *cq)
{
	uint32_t there = 1;

	return atomic_compare_exchange_strong(&cq->ready, &there, 0);
}

/* Rest on the core for about as long as putting the thread to sleep would cost. */
static void rest_until(struct av_cq_shared *cq, uint64_t until_ns)
{
	while (atomic_load(&cq->ready) == 0 && av_now_ns() < until_ns)
		rest->wait(&cq->ready, 0);
}

/* Return: 0 or errno */
static int futex_wait(_Atomic uint32_t *word, uint64_t until_ns)
{
	struct timespec until = av_timespec(until_ns);

	/* Not FUTEX_PRIVATE: other processes wake this word, too. */
	return syscall(SYS_futex, word, FUTEX_WAIT_BITSET, 0, &until, NULL, FUTEX_BITSET_MATCH_ANY)
		       ? errno
		       : 0;
}

/* Sleep until the event or @until_ns. @cq already counts this thread in @waiters. */
static int wait_cq_event(struct av_seg *seg, uint32_t index, struct av_cq_shared *cq,
			 uint64_t until_ns)
{
	int err = 0;

	while (!consume_cq_event(cq)) {
		uint64_t now = av_now_ns();

		if (err == EINTR)
			return EINTR;
		if (now >= until_ns)
			return ETIMEDOUT;
		err = futex_wait(&cq->ready, until_ns - now < av_notify_nap_ns
						     ? until_ns
						     : now + av_notify_nap_ns);
		if (err == ETIMEDOUT)
			av_cq_look_again(seg, index);
	}
	return 0;
}

int av_cq_wait(struct av_seg *seg, uint32_t index, uint64_t until_ns)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct av_cq_shared *cq = av_cq_at(seg, index);
	int ret;

	pthread_once(&once, choose_rest);
	if (consume_cq_event(cq))
		return 0;
	if (rest) {
		uint64_t end = av_now_ns() + REST_NS;

		rest_until(cq, end < until_ns ? end : until_ns);
	}
	atomic_fetch_add(&cq->waiters, 1);
	ret = wait_cq_event(seg, index, cq, until_ns);
	atomic_fetch_sub(&cq->waiters, 1);
	return ret;
}
