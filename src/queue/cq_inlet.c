/* SPDX-License-Identifier: MIT */
#include "queue/cq_inlet.h"

#include <sched.h>

#include "base/clock.h"
#include "base/patience.h"
#include "queue/cq_doorbell.h"
#include "segment/alloc.h"

/* A dead holder may have stored an entry without counting it. The owner may even have taken it. */
static void count_published(struct av_seg *seg, struct av_cq_shared *cq, uint32_t i)
{
	uint32_t tail = atomic_load(&cq->inlet[i].tail);

	if (av_cq_present(seg, cq, i, tail))
		atomic_store(&cq->inlet[i].tail, tail + 1);
}

/* --- leaving an inlet behind; poll_lock is held ----------------------------------- */

static uint64_t ring_bytes(const struct av_cq_shared *cq, uint32_t i)
{
	return ((uint64_t)atomic_load(&cq->mask[i]) + 1) * sizeof(struct av_cqe);
}

/* All but the lock and the entries. */
static void bring_state(const struct av_cq_inlet *old, struct av_cq_inlet *in)
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
 * The last entry may have been polled before its appender has looked which inlet is used: it is not
 * to append it again. Nobody polls meanwhile, so all later entries are those that bring() finds.
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

/* Context: the lock of the other inlet is held, so nobody uses it before all is there. */
static void change(struct av_seg *seg, struct av_cq_shared *cq, uint32_t from, uint64_t ring)
{
	uint32_t to = 1 - from;

	atomic_store(&cq->mask[to], atomic_load(&cq->mask[from]));
	atomic_store(&cq->ring[to], ring);
	claim_polled(seg, cq, from); /* before its appender can see the change */
	atomic_exchange(&cq->used, to);
	av_barrier_behind_rmw(); /* pairs with that of whoever appends */
	/* The holder may have gone on. A thread of ours that has come next may be arming the CQ. */
	while (atomic_load(&cq->inlet[from].lock.owner) == av_lock_self)
		sched_yield();
	bring_state(&cq->inlet[from], &cq->inlet[to]);
	atomic_store(&cq->inlet[to].tail, bring(seg, cq, from, to));
	cq->left = from + 1;
}

/* If inlet @i is held by another living process, leave it behind, as far as memory allows. */
static void leave(struct av_seg *seg, struct av_cq_shared *cq, uint32_t i)
{
	uint32_t holder = av_lock_other(&cq->inlet[i].lock);
	uint64_t ring, bytes = ring_bytes(cq, i);
	struct av_lock *next = &cq->inlet[1 - i].lock;

	if (i != av_cq_used(cq) || !holder || !av_lock_owner_alive(holder) ||
	    !av_cq_inlet_settle(seg, cq))
		return;
	ring = av_seg_alloc(seg, bytes);
	if (!ring)
		return;
	/* Who has been too late for that inlet looks at its lock, and goes. */
	if (av_lock_acquire_until(next, AV_RANK_CQ, av_now_ns() + AV_STUCK_NS) == AV_LOCK_BUSY) {
		av_seg_free(seg, ring, bytes);
		return;
	}
	change(seg, cq, i, ring);
	av_lock_release(next);
}

bool av_cq_inlet_settle(struct av_seg *seg, struct av_cq_shared *cq)
{
	uint32_t i = cq->left - 1;

	if (cq->left == 0)
		return true;
	if (i != 1 - av_cq_used(cq) || av_lock_try(&cq->inlet[i].lock, AV_RANK_CQ) == AV_LOCK_BUSY)
		return false;
	av_seg_free(seg, cq->ring[i], ring_bytes(cq, i));
	cq->left = 0;
	av_lock_release(&cq->inlet[i].lock);
	return true;
}

/* --- waiting ---------------------------------------------------------------------- */

/* Whoever sleeps for an event does not see what becomes of the lock. So it gets one. */
static void have_owner_look(struct av_seg *seg, uint32_t index, uint32_t i)
{
	const struct av_cq_shared *cq = av_cq_at(seg, index);

	if (av_raise_armed(&cq->inlet[i].armed) != AV_CQ_NOT_ARMED)
		av_cq_tell(seg, index);
}

int av_cq_lock(struct av_seg *seg, uint32_t index, bool polls)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	uint64_t until = av_peer_lock_until(seg);

	for (;;) {
		uint32_t i = av_cq_used(cq);
		uint64_t soon = av_now_ns() + AV_STUCK_NS;
		enum av_lock_result got = av_lock_acquire_until(&cq->inlet[i].lock, AV_RANK_CQ,
								soon < until ? soon : until);

		if (got == AV_LOCK_REPAIR)
			count_published(seg, cq, i);
		av_barrier_behind_rmw(); /* before it looks which inlet is used */
		if (got != AV_LOCK_BUSY && av_cq_used(cq) == i)
			return (int)i;
		if (got != AV_LOCK_BUSY) {
			av_lock_release(&cq->inlet[i].lock);
		} else if (seg->own) {
			if (!polls)
				av_lock_acquire_plain(&cq->poll_lock, AV_RANK_POLL);
			leave(seg, cq, i);
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
	uint32_t tail = atomic_load(&cq->inlet[i].tail);
	uint64_t now = av_now_ns();

	if (!av_lock_other(&cq->inlet[i].lock)) {
		cq->stuck_since = 0;
		return false;
	}
	if (cq->stuck_since == 0 || cq->stuck_tail != tail) {
		cq->stuck_tail = tail;
		cq->stuck_since = now;
	}
	return now - cq->stuck_since >= AV_STUCK_NS;
}

void av_cq_inlet_look(struct av_seg *seg, struct av_cq_shared *cq)
{
	uint32_t i;

	if (!av_lock_try_free(&cq->poll_lock, AV_RANK_POLL))
		return;
	i = av_cq_used(cq);
	(void)av_cq_inlet_settle(seg, cq);
	if (is_stuck(cq, i))
		leave(seg, cq, i);
	av_lock_release(&cq->poll_lock);
}
