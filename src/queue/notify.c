/* SPDX-License-Identifier: MIT */
#include "queue/cq.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/wait.h"
#include "observe/flight.h"
#include "segment/pages.h"

/* A dead holder may have stored an entry without counting it. The owner may even have taken it. */
static void count_published(struct av_seg *seg, struct av_cq_shared *cq, uint32_t i)
{
	uint32_t tail = atomic_load(&cq->producer[i].tail);

	if (av_cq_present(seg, cq, i, tail))
		atomic_store(&cq->producer[i].tail, tail + 1);
}

/* --- abandoning a producer ring; poll_lock is held ----------------------------------- */

static uint64_t cq_ring_bytes(const struct av_cq_shared *cq, uint32_t i)
{
	return ((uint64_t)atomic_load(&cq->mask[i]) + 1) * sizeof(struct av_cqe);
}

/* All but the lock and the entries. */
static void bring_state(const struct av_cq_producer *old, struct av_cq_producer *in)
{
	in->head_seen = old->head_seen;
	atomic_store(&in->armed.word, atomic_load(&old->armed.word));
	in->event_count = old->event_count;
	in->event_period_us = old->event_period_us;
	in->counted = old->counted;
	in->told = old->told;
	atomic_store(&in->event_due_ns, atomic_load(&old->event_due_ns));
	in->peak = old->peak;
	in->level = old->level;
}

/*
 * The last entry may have been polled before its appender has looked which producer ring is used:
 * it is not to append it again. Nobody polls meanwhile, so all later entries are those that bring()
 * finds.
 */
static void claim_polled(struct av_seg *seg, struct av_cq_shared *cq, uint32_t i)
{
	uint32_t number = atomic_load(&cq->head) - 1;
	struct av_cqe *e = av_cq_entry(seg, cq, i, number);

	if (e)
		(void)av_cqe_claim(e, number);
}

/* Copy the entries that are there. Return: the number behind the last */
static uint32_t bring(struct av_seg *seg, struct av_cq_shared *cq, uint32_t from, uint32_t to)
{
	uint32_t number = atomic_load(&cq->head), end = number + atomic_load(&cq->mask[to]) + 1;

	for (; number != end; number++) {
		struct av_cqe *e = av_cq_entry(seg, cq, from, number);
		struct av_cqe *copy = av_cq_entry(seg, cq, to, number);

		if (!e || !copy || !av_cqe_claim(e, number))
			break;
		av_cqe_copy(copy, e, number);
	}
	return number;
}

/* Context: the lock of the other producer ring is held, so nobody uses it before all is there. */
static void switch_cq_producer(struct av_seg *seg, struct av_cq_shared *cq, uint32_t from,
			       uint64_t ring)
{
	uint32_t to = 1 - from;

	atomic_store(&cq->mask[to], atomic_load(&cq->mask[from]));
	atomic_store(&cq->ring[to], ring);
	claim_polled(seg, cq, from); /* before its appender can see the change */
	atomic_exchange(&cq->used, to);
	av_barrier_behind_rmw(); /* pairs with that of whoever appends */
	/* The holder may have gone on. A thread of ours that has come next may be arming the CQ. */
	while (atomic_load(&cq->producer[from].lock.owner) == av_lock_self)
		sched_yield();
	bring_state(&cq->producer[from], &cq->producer[to]);
	atomic_store(&cq->producer[to].tail, bring(seg, cq, from, to));
	cq->left = from + 1;
}

/* If producer ring @i is held by another living process, leave it behind, as far as memory allows.
 */
static void abandon_cq_producer(struct av_seg *seg, struct av_cq_shared *cq, uint32_t i)
{
	uint32_t holder = av_lock_other(&cq->producer[i].lock);
	uint64_t ring, bytes = cq_ring_bytes(cq, i);
	struct av_lock *next = &cq->producer[1 - i].lock;

	if (i != av_cq_used(cq) || !holder || !av_lock_owner_alive(holder) ||
	    !av_cq_producer_settle(seg, cq))
		return;
	ring = av_seg_alloc(seg, bytes);
	if (!ring)
		return;
	/* A thread that came too late for that producer ring reads its lock, and leaves it. */
	if (av_lock_acquire_until(next, AV_RANK_CQ, av_now_ns() + AV_STUCK_NS) == AV_LOCK_BUSY) {
		av_seg_free(seg, ring, bytes);
		return;
	}
	switch_cq_producer(seg, cq, i, ring);
	av_lock_release(next);
}

bool av_cq_producer_settle(struct av_seg *seg, struct av_cq_shared *cq)
{
	uint32_t i = cq->left - 1;

	if (cq->left == 0)
		return true;
	if (i != 1 - av_cq_used(cq) ||
	    av_lock_try(&cq->producer[i].lock, AV_RANK_CQ) == AV_LOCK_BUSY)
		return false;
	av_seg_free(seg, cq->ring[i], cq_ring_bytes(cq, i));
	cq->left = 0;
	av_lock_release(&cq->producer[i].lock);
	return true;
}

/* --- waiting ---------------------------------------------------------------------- */

/* Whoever sleeps for an event does not see what becomes of the lock. So it gets one. */
static void have_owner_look(struct av_seg *seg, uint32_t index, uint32_t i)
{
	const struct av_cq_shared *cq = av_cq_at(seg, index);

	if (av_oneshot_armed(&cq->producer[i].armed) != AV_CQ_NOT_ARMED)
		av_cq_tell(seg, index);
}

int av_cq_lock(struct av_seg *seg, uint32_t index, bool polls)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	uint64_t until = av_peer_lock_until(seg);

	for (;;) {
		uint32_t i = av_cq_used(cq);
		uint64_t soon = av_now_ns() + AV_STUCK_NS;
		enum av_lock_result got = av_lock_acquire_until(&cq->producer[i].lock, AV_RANK_CQ,
								soon < until ? soon : until);

		if (got == AV_LOCK_REPAIR)
			count_published(seg, cq, i);
		av_barrier_behind_rmw(); /* before it looks which producer ring is used */
		if (got != AV_LOCK_BUSY && av_cq_used(cq) == i)
			return (int)i;
		if (got != AV_LOCK_BUSY) {
			av_lock_release(&cq->producer[i].lock);
		} else if (seg->own) {
			if (!polls)
				av_lock_acquire_plain(&cq->poll_lock, AV_RANK_POLL);
			abandon_cq_producer(seg, cq, i);
			if (!polls)
				av_lock_release(&cq->poll_lock);
		} else if (av_cq_used(cq) == i && av_now_ns() >= until) {
			av_peer_lock_in_vain(seg);
			return -1;
		} else {
			have_owner_look(seg, index, i);
		}
	}
}

/* Has the lock been held, with one tail, for that long? */
static bool is_stuck(struct av_cq_shared *cq, uint32_t i)
{
	uint32_t tail = atomic_load(&cq->producer[i].tail);
	uint64_t now = av_now_ns();

	if (!av_lock_other(&cq->producer[i].lock)) {
		cq->stuck_since = 0;
		return false;
	}
	if (cq->stuck_since == 0 || cq->stuck_tail != tail) {
		cq->stuck_tail = tail;
		cq->stuck_since = now;
	}
	return now - cq->stuck_since >= AV_STUCK_NS;
}

void av_cq_producer_look(struct av_seg *seg, struct av_cq_shared *cq)
{
	uint32_t i;

	if (!av_lock_try_free(&cq->poll_lock, AV_RANK_POLL))
		return;
	i = av_cq_used(cq);
	(void)av_cq_producer_settle(seg, cq);
	if (is_stuck(cq, i))
		abandon_cq_producer(seg, cq, i);
	av_lock_release(&cq->poll_lock);
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

void av_cq_notify_wake(struct av_cq_shared *cq)
{
	if (atomic_load(&cq->waiters))
		syscall(SYS_futex, &cq->ready, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Take the event, if there is one. */
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
