/* SPDX-License-Identifier: MIT */
#include "queue/cq.h"

#include <sched.h>
#include <stdio.h>

#include "observe/check.h"
#include "queue/rq.h"

static void ring(struct av_seg *seg, uint32_t doorbell, uint32_t event, uint32_t index, uint32_t id)
{
	struct av_doorbell_record record = {
		.event = event, .kind = AV_SLAB_CQ, .index = index, .id = id};

	(void)av_doorbell_ring(seg, doorbell, &record);
}

void av_cq_tell(struct av_seg *seg, uint32_t index)
{
	const struct av_cq_shared *cq = av_cq_at(seg, index);
	uint32_t doorbell = cq->doorbell;

	if (doorbell)
		ring(seg, doorbell, 0, index, atomic_load_explicit(&cq->id, memory_order_relaxed));
}

/* --- entries ----------------------------------------------------------------------- */

inline uint32_t av_cq_used(const struct av_cq_shared *cq)
{
	return atomic_load_explicit(&cq->used, memory_order_acquire) & 1;
}

inline struct av_cqe *av_cq_entry(const struct av_seg *seg, const struct av_cq_shared *cq,
				  uint32_t i, uint32_t number)
{
	uint64_t mask = atomic_load_explicit(&cq->mask[i], memory_order_relaxed);
	uint64_t ring = atomic_load_explicit(&cq->ring[i], memory_order_relaxed);

	return av_seg_piece(seg, ring + (number & mask) * sizeof(struct av_cqe),
			    sizeof(struct av_cqe));
}

inline const struct av_cqe *av_cq_peek(const struct av_seg *seg, const struct av_cq_shared *cq)
{
	uint32_t number = atomic_load_explicit(&cq->head, memory_order_relaxed);
	const struct av_cqe *e = av_cq_entry(seg, cq, av_cq_used(cq), number);

	return av_likely(e != NULL) && atomic_load_explicit(&e->there, memory_order_acquire) ==
					       AV_CQE_THERE(number)
		       ? e
		       : NULL;
}

void av_cq_take(struct av_cq_shared *cq)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

	atomic_store_explicit(&cq->head, head + 1, memory_order_release);
}

static void fill_cqe(struct av_cqe *to, const struct av_cqe *from)
{
	if (from->data_len) /* without payload, nobody wrote @data */
		av_cqe_copy_data(to->data, from->data, from->data_len);
	memcpy(to, from, offsetof(struct av_cqe, there));
}

/* Copy an entry to the place of @number, and publish it. */
static void copy_cqe(struct av_cqe *to, const struct av_cqe *from, uint32_t number)
{
	fill_cqe(to, from);
	to->stamp_ns = from->stamp_ns;
	atomic_store_explicit(&to->there, AV_CQE_THERE(number), memory_order_release);
}

/* --- abandoning a producer ring; poll_lock is held ----------------------------------- */

static uint64_t cq_ring_bytes(const struct av_cq_shared *cq, uint32_t i)
{
	return ((uint64_t)atomic_load(&cq->mask[i]) + 1) * sizeof(struct av_cqe);
}

/* Free the abandoned producer ring, if any. Never waits. Return: false: its lock is still held */
static bool settle_producer(struct av_seg *seg, struct av_cq_shared *cq)
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
 * The last entry may have been polled before its appender looks which producer ring is used, and is
 * not to be appended again. Nobody polls meanwhile: bring() finds all later entries.
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
		copy_cqe(copy, e, number);
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

/* If a living process holds producer ring @i, leave it behind, as far as memory allows. */
static void abandon_cq_producer(struct av_seg *seg, struct av_cq_shared *cq, uint32_t i)
{
	uint32_t holder = av_lock_other(&cq->producer[i].lock);
	uint64_t ring, bytes = cq_ring_bytes(cq, i);
	struct av_lock *next = &cq->producer[1 - i].lock;

	if (i != av_cq_used(cq) || !holder || !av_lock_owner_alive(holder) ||
	    !settle_producer(seg, cq))
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

/* --- the lock ---------------------------------------------------------------------- */

/* A dead holder may have stored an entry without counting it. The owner may even have taken it. */
static void count_published(struct av_seg *seg, struct av_cq_shared *cq, uint32_t i)
{
	uint32_t tail = atomic_load(&cq->producer[i].tail);
	const struct av_cqe *e = av_cq_entry(seg, cq, i, tail);

	if (e && atomic_load(&e->there) == AV_CQE_THERE(tail))
		atomic_store(&cq->producer[i].tail, tail + 1);
}

/* The slow part of av_cq_lock(). */
static int wait_for_producer(struct av_seg *seg, struct av_cq_shared *cq, uint32_t index,
			     bool polls)
{
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
		} else if (av_oneshot_armed(&cq->producer[i].armed) != AV_CQ_NOT_ARMED) {
			/* Whoever sleeps for an event does not see what becomes of the lock. */
			av_cq_tell(seg, index);
		}
	}
}

int av_cq_lock(struct av_seg *seg, struct av_cq_shared *cq, uint32_t index, bool polls)
{
	uint32_t i = av_cq_used(cq), free = 0;
	struct av_lock *usual = &cq->producer[i].lock;

	av_lock_order_wait(usual, AV_RANK_CQ);
	if (av_unlikely(!atomic_compare_exchange_strong(&usual->owner, &free, av_lock_self))) {
		av_lock_order_released(usual);
		return wait_for_producer(seg, cq, index, polls);
	}
	av_barrier_behind_rmw();
	if (av_likely(av_cq_used(cq) == i))
		return (int)i;
	av_lock_release(&cq->producer[i].lock);
	return wait_for_producer(seg, cq, index, polls);
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
	(void)settle_producer(seg, cq);
	if (is_stuck(cq, i))
		abandon_cq_producer(seg, cq, i);
	av_lock_release(&cq->poll_lock);
}

/* --- the ring ---------------------------------------------------------------------- */

#define LOOK_EVERY 64u

/* See look_for_room(). */
static void set_level(const struct av_cq_shared *cq, struct av_cq_producer *in)
{
	const uint32_t capacity = atomic_load_explicit(&cq->capacity, memory_order_relaxed);
	uint32_t level = in->peak > LOOK_EVERY ? in->peak : LOOK_EVERY;

	in->level = level < capacity ? level : capacity;
}

uint32_t av_cq_init(struct av_seg *seg, uint32_t capacity, uint32_t doorbell, uint32_t id,
		    uint32_t limit, const struct av_page_policy *policy)
{
	uint32_t index = av_slab_alloc(seg, AV_SLAB_CQ, limit);
	uint32_t entries = av_ring_entries(capacity);
	struct av_cq_shared *cq;
	struct av_cq_counters counters;
	uint64_t ring;

	if (!index)
		return 0;
	ring = av_ring_alloc(seg, (uint64_t)entries * sizeof(struct av_cqe), policy);
	cq = av_cq_at(seg, index);
	if (!ring || !cq) {
		av_slab_free(seg, AV_SLAB_CQ, index);
		return 0;
	}
	counters = av_cq_counted(cq);
	memset(cq, 0, sizeof(*cq));
	cq->producer[0].counters = cq->before = counters;
	cq->capacity = capacity;
	set_level(cq, &cq->producer[0]);
	cq->mask[0] = entries - 1;
	cq->doorbell = doorbell;
	cq->ring[0] = ring;
	atomic_store_explicit(&cq->id, id, memory_order_release);
	return index;
}

void av_cq_fini(struct av_seg *seg, uint32_t index)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	uint32_t i;

	(void)settle_producer(seg, cq); /* without queue pairs, nobody is in there */
	i = av_cq_used(cq);
	atomic_store(&cq->id, 0);
	av_seg_free(seg, cq->ring[i], ((uint64_t)cq->mask[i] + 1) * sizeof(struct av_cqe));
	av_slab_free(seg, AV_SLAB_CQ, index);
}

/* Move the entries to another ring; both locks are held. Return: the old offset; 0: noted why */
static uint64_t change_ring(struct av_seg *seg, struct av_cq_shared *cq, uint32_t i, uint64_t ring,
			    uint32_t mask, uint32_t capacity)
{
	uint32_t head = atomic_load(&cq->head), tail = atomic_load(&cq->producer[i].tail);
	struct av_cqe *to = av_seg_at(seg, ring, ((uint64_t)mask + 1) * sizeof(*to));
	uint64_t old = cq->ring[i];

	if (!to || tail - head > capacity) {
		(void)av_refuse(EINVAL, AV_CHECK_CQ_HOLDS, tail - head, capacity);
		return 0;
	}
	for (uint32_t n = head; n != tail; n++) {
		const struct av_cqe *from = av_cq_entry(seg, cq, i, n);

		if (from)
			copy_cqe(&to[n & mask], from, n);
	}
	atomic_store_explicit(&cq->ring[i], ring, memory_order_relaxed);
	atomic_store_explicit(&cq->mask[i], mask, memory_order_relaxed);
	cq->capacity = capacity;
	set_level(cq, &cq->producer[i]);
	return old;
}

int av_cq_resize(struct av_seg *seg, uint32_t index, uint32_t capacity,
		 const struct av_page_policy *policy)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	uint32_t mask = av_ring_entries(capacity) - 1, old_mask;
	uint64_t ring = av_ring_alloc(seg, ((uint64_t)mask + 1) * sizeof(struct av_cqe), policy),
		 old;
	int i;

	if (!ring || !cq)
		return ENOMEM;
	av_lock_acquire_plain(&cq->poll_lock, AV_RANK_POLL);
	if (!settle_producer(seg, cq)) {
		av_lock_release(&cq->poll_lock);
		av_seg_free(seg, ring, ((uint64_t)mask + 1) * sizeof(struct av_cqe));
		return EBUSY;
	}
	i = av_cq_lock(seg, cq, index, true);
	old_mask = cq->mask[i];
	old = change_ring(seg, cq, (uint32_t)i, ring, mask, capacity);
	av_lock_release(&cq->producer[i].lock);
	av_lock_release(&cq->poll_lock);
	if (!old) {
		av_seg_free(seg, ring, ((uint64_t)mask + 1) * sizeof(struct av_cqe));
		return av_refuse_as(EINVAL);
	}
	av_seg_free(seg, old, ((uint64_t)old_mask + 1) * sizeof(struct av_cqe));
	return 0;
}

int av_cq_resize_retry(struct av_seg *seg, uint32_t index, uint32_t capacity,
		       const struct av_page_policy *policy)
{
	uint64_t until = 0;
	int err;

	while ((err = av_cq_resize(seg, index, capacity, policy)) == EBUSY && !av_timed_out(&until))
		sched_yield();
	return err;
}

/*
 * Is there room for one more entry? @head is in the poller's cache line, so it is read only when
 * the ring may be full, or when more entries may wait than ever before: above @level. So the
 * high-water mark is exact above LOOK_EVERY. Below, it is a sample taken once in that many entries.
 * Context: the producer ring's lock is held.
 */
static bool look_for_room(const struct av_cq_shared *cq, struct av_cq_producer *in, uint32_t tail)
{
	const uint32_t capacity = atomic_load_explicit(&cq->capacity, memory_order_relaxed);
	uint32_t waiting;

	in->head_seen = atomic_load_explicit(&cq->head, memory_order_acquire);
	waiting = tail - in->head_seen;
	if (waiting < capacity && waiting >= in->peak) {
		in->peak = waiting + 1;
		set_level(cq, in);
	}
	return waiting < capacity;
}

/* Write and publish the entry. Context: @lock is held. Return: the entry; NULL: no room */
static struct av_cqe *append_cqe(struct av_seg *seg, struct av_cq_shared *cq, int i,
				 const struct av_cqe *from)
{
	struct av_cq_producer *in = &cq->producer[i];
	uint32_t tail = atomic_load_explicit(&in->tail, memory_order_relaxed);
	struct av_cqe *to = av_cq_entry(seg, cq, (uint32_t)i, tail);

	if (av_unlikely(!to || atomic_load_explicit(&cq->overrun, memory_order_relaxed)))
		return NULL;
	if (av_unlikely(tail - in->head_seen >= in->level) && !look_for_room(cq, in, tail))
		return NULL;
	fill_cqe(to, from);
	if (av_unlikely(atomic_load_explicit(&cq->stamped, memory_order_relaxed)))
		to->stamp_ns = av_now_ns();
	atomic_store_explicit(&to->there, AV_CQE_THERE(tail), memory_order_release);
	atomic_exchange(&in->tail, tail + 1);
	av_barrier_behind_rmw(); /* before it is asked which producer ring is used */
	/*
	 * Prefetch the entry after the next for writing: the poller read it a turn of the ring ago.
	 * Not the next one, which a waiting poller reads all the time. Its second line if needed.
	 * For the last two entries this reaches past the ring: harmless, cheaper than a check.
	 */
	av_prefetch_write(to + 2);
	if (to->data_len > sizeof(uint64_t))
		av_prefetch_write((const uint8_t *)(to + 2) + AV_CACHE_LINE);
	return to;
}

/* Record the overrun. The request that was completed has its own record. */
static void report_overrun(const struct av_seg *seg, uint32_t index, uint32_t capacity)
{
	struct av_flight_record r = {
		.kind = AV_FLIGHT_EVENT,
		.check = AV_CHECK_CQ_OVERRUN,
		.has = AV_HAS_MEASURE | AV_HAS_OBJECT | AV_HAS_EVENT,
		.limit = capacity,
		.object = AV_OBJECT_CQ,
		.number = index,
		.pid = seg->head->pid,
		.event = IBV_EVENT_CQ_ERR,
	};

	snprintf(r.device, sizeof(r.device), "%.*s", (int)sizeof(seg->head->device) - 1,
		 seg->head->device);
	av_report_beside(&r);
}

int av_cq_overrun(struct av_seg *seg, uint32_t index)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	int i = cq ? av_cq_lock(seg, cq, index, false) : -1;
	bool first, drops;
	uint32_t id;

	if (i < 0)
		return 0;
	id = atomic_load_explicit(&cq->id, memory_order_relaxed);
	drops = atomic_load(&cq->drops) && !atomic_load(&cq->overrun);
	first = !drops && !atomic_exchange(&cq->overrun, 1);
	cq->producer[i].counters.lost++;
	av_lock_release(&cq->producer[i].lock);
	if (first) {
		report_overrun(seg, index, cq->capacity);
		ring(seg, AV_DOORBELL_ASYNC, IBV_EVENT_CQ_ERR, index, id);
	}
	return drops ? AV_CQ_DROPPED : 0;
}

/* An entry went into a producer ring that was just abandoned, and was copied. Context: no lock */
static void count_copied(struct av_seg *seg, struct av_cq_shared *cq, uint32_t index)
{
	int i = av_cq_lock(seg, cq, index, false); /* whose holder may count */

	if (i < 0)
		return;
	cq->producer[i].counters.completions++;
	av_lock_release(&cq->producer[i].lock);
}

int av_cq_push(struct av_seg *seg, uint32_t index, const struct av_cqe *cqe,
	       struct av_cq_bell *later)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	struct av_cq_bell bell;
	struct av_cqe *to;
	bool copied;
	int i;

	for (;;) {
		i = av_likely(cq != NULL) ? av_cq_lock(seg, cq, index, false) : -1;
		if (av_unlikely(i < 0))
			return -ENOSPC;
		to = append_cqe(seg, cq, i, cqe);
		if (av_likely(av_cq_used(cq) == (uint32_t)i))
			break;
		copied = to && !av_cqe_claim(to, atomic_load(&cq->producer[i].tail) - 1);
		av_lock_release(&cq->producer[i].lock);
		if (copied) {
			count_copied(seg, cq, index);
			return 0;
		}
	}
	if (av_unlikely(!to)) {
		av_lock_release(&cq->producer[i].lock);
		return av_cq_overrun(seg, index) ? AV_CQ_DROPPED : -ENOSPC;
	}
	cq->producer[i].counters.completions++;
	if (av_likely(!atomic_load_explicit(&cq->producer[i].armed.word, memory_order_relaxed))) {
		av_lock_release(&cq->producer[i].lock);
		return 0;
	}
	bell = av_cq_count_event(seg, index, (uint32_t)i, to);
	av_lock_release(&cq->producer[i].lock);
	if (later)
		*later = bell;
	else
		av_cq_ring(seg, &bell);
	return 0;
}

void av_cq_prefetch(struct av_seg *seg, uint32_t index)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	const struct av_cqe *e;
	struct av_cq_producer *in;
	uint32_t i;

	if (!cq)
		return;
	i = av_cq_used(cq);
	in = &cq->producer[i];
	av_prefetch_write(&in->lock);
	e = av_cq_entry(seg, cq, i, atomic_load_explicit(&in->tail, memory_order_relaxed));
	if (e)
		av_prefetch_write(&e->stamp_ns);
}

uint32_t av_cq_first_untold(const struct av_cq_shared *cq, const struct av_cq_producer *in)
{
	uint32_t head = atomic_load(&cq->head), tail = atomic_load(&in->tail);

	return !av_cq_notifies(cq) && in->told - head <= tail - head ? in->told : head;
}

/* Both locks are held: nobody sees the ring half compacted; if the owner dies, nobody polls it. */
uint32_t av_cq_purge(struct av_seg *seg, uint32_t index,
		     bool (*of)(const struct av_cqe *cqe, uint32_t number), uint32_t number,
		     bool (*dropped)(struct av_seg *seg, struct av_cqe *cqe))
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	uint32_t head, tail, to, untold, stay = 0;
	struct av_cq_producer *in;
	int i;

	av_lock_acquire_plain(&cq->poll_lock, AV_RANK_POLL);
	i = av_cq_lock(seg, cq, index, true);
	in = &cq->producer[i];
	head = atomic_load(&cq->head);
	tail = atomic_load(&in->tail);
	untold = av_cq_first_untold(cq, in);
	to = head;
	for (uint32_t from = head; from != tail; from++) {
		struct av_cqe *e = av_cq_entry(seg, cq, (uint32_t)i, from),
			      *gap = av_cq_entry(seg, cq, (uint32_t)i, to);

		if (!e || !gap)
			break;
		if (from == untold)
			in->told = to;
		if (of(e, number)) {
			if (dropped(seg, e))
				continue;
			stay++;
		}
		if (from != to)
			copy_cqe(gap, e, to);
		to++;
	}
	for (uint32_t gone = to; gone != tail; gone++) {
		struct av_cqe *e = av_cq_entry(seg, cq, (uint32_t)i, gone);

		if (e)
			atomic_store_explicit(&e->there, 0, memory_order_relaxed);
	}
	if (untold == tail)
		in->told = to;
	atomic_store_explicit(&in->tail, to, memory_order_release);
	av_lock_release(&cq->producer[i].lock);
	av_lock_release(&cq->poll_lock);
	return stay;
}

bool av_cq_holds_receive(struct av_seg *seg, uint32_t index, uint32_t qpn, uint32_t wqe)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	uint32_t head, waiting;
	bool found = false;
	int i;

	i = cq ? av_cq_lock(seg, cq, index, false) : -1;
	if (i < 0)
		return false;
	head = atomic_load(&cq->head);
	waiting = atomic_load(&cq->producer[i].tail) - head;
	if (waiting > AV_MAX_CQE) /* a peer's nonsense */
		waiting = 0;
	for (uint32_t n = 0; n < waiting && !found; n++) {
		const struct av_cqe *e = av_cq_entry(seg, cq, (uint32_t)i, head + n);

		found = e && e->qpn == qpn && e->wqe == wqe && (e->flags & AV_CQE_RECV);
	}
	av_lock_release(&cq->producer[i].lock);
	return found;
}
