/* SPDX-License-Identifier: MIT */
#include "queue/cq.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "observe/check.h"
#include "queue/ring.h"
#include "segment/segment.h"

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

/* An asynchronous event about the CQ called @id. Context: any process; no lock is held */
static void cq_tell_async(struct av_seg *seg, uint32_t index, uint32_t id,
			  enum ibv_event_type event)
{
	ring(seg, AV_DOORBELL_ASYNC, event, index, id);
}

/* The shared completion ring: append, arm, peek, purge. */

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

	(void)av_cq_producer_settle(seg, cq); /* without queue pairs, nobody is in there */
	i = av_cq_used(cq);
	atomic_store(&cq->id, 0);
	av_seg_free(seg, cq->ring[i], ((uint64_t)cq->mask[i] + 1) * sizeof(struct av_cqe));
	av_slab_free(seg, AV_SLAB_CQ, index);
}

/* av_cq_lock(), but for the usual case, that nobody holds it. */
static int lock_used_producer(struct av_seg *seg, struct av_cq_shared *cq, uint32_t index,
			      bool polls)
{
	uint32_t i = av_cq_used(cq), free = 0;
	struct av_lock *usual = &cq->producer[i].lock;

	av_lock_order_wait(usual, AV_RANK_CQ);
	if (av_unlikely(!atomic_compare_exchange_strong(&usual->owner, &free, av_lock_self))) {
		av_lock_order_released(usual);
		return av_cq_lock(seg, index, polls);
	}
	av_barrier_behind_rmw();
	if (av_likely(av_cq_used(cq) == i))
		return (int)i;
	av_lock_release(&cq->producer[i].lock);
	return av_cq_lock(seg, index, polls);
}

/*
 * Move the entries to another ring.
 * Context: both locks are held.
 * Return:  offset of the ring that is no longer used, or 0, and why is noted
 */
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
			av_cqe_copy(&to[n & mask], from, n);
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
	if (!av_cq_producer_settle(seg, cq)) {
		av_lock_release(&cq->poll_lock);
		av_seg_free(seg, ring, ((uint64_t)mask + 1) * sizeof(struct av_cqe));
		return EBUSY;
	}
	i = lock_used_producer(seg, cq, index, true);
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
 * Make the event of the entries before @upto. This is the one place that claims an event, and what
 * goes with it is booked only if the claim succeeds.
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
 * Number of the first entry in the CQ that has made no event. That of an event for AS notify may
 * have been taken back.
 */
static uint32_t first_untold(const struct av_cq_shared *cq, const struct av_cq_producer *in)
{
	uint32_t head = atomic_load(&cq->head), tail = atomic_load(&in->tail);

	return !av_cq_notifies(cq) && in->told - head <= tail - head ? in->told : head;
}

/*
 * Make the event of the entries that are in an armed CQ. As with an adapter, each entry makes one:
 * those that the last event stood for make none, and those behind them do, since programs take an
 * event, arm the CQ and poll once. With a period, an event stands for many entries: those of them
 * that are left make another one after the period.
 */
static void count_present(struct av_seg *seg, struct av_cq_shared *cq, uint32_t i,
			  struct av_cq_bell *bell)
{
	struct av_cq_producer *in = &cq->producer[i];
	uint32_t armed = armed_with(cq, in), tail = atomic_load(&in->tail);
	uint32_t untold = first_untold(cq, in);
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
	if (bell->event == EVENT_WAKE)
		av_cq_notify_wake(cq);
	else
		av_cq_tell(seg, bell->index);
	/* Whichever producer ring is used by now. */
	av_oneshot_end(&cq->producer[0].armed, bell->claim);
	av_oneshot_end(&cq->producer[1].armed, bell->claim);
}

/*
 * Release the lock and send the event, in this order: the owner, or another thread, may take the
 * core of whoever wakes it.
 * Context: the producer ring's lock is held; afterwards it is not
 */
static void release_cq_producer(struct av_seg *seg, struct av_cq_shared *cq, int i,
				const struct av_cq_bell *bell)
{
	av_lock_release(&cq->producer[i].lock);
	av_cq_ring(seg, bell);
}

/*
 * Write the entry and publish it.
 * Context: @lock is held.
 * Return:  the entry; NULL: there is no room
 */
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
	av_cqe_fill(to, from);
	if (av_unlikely(atomic_load_explicit(&cq->stamped, memory_order_relaxed)))
		to->stamp_ns = av_now_ns();
	atomic_store_explicit(&to->there, AV_CQE_THERE(tail), memory_order_release);
	atomic_exchange(&in->tail, tail + 1);
	av_barrier_behind_rmw(); /* before it is asked which producer ring is used */
	/*
	 * Prefetch the entry after the next for writing: the poller read it last, a turn of the
	 * ring ago. Not the next one, which a waiting poller reads all the time. Its second line
	 * only if entries like this one need it. For the last two entries this reaches past the
	 * ring. That is harmless, and cheaper than a check.
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
	int i = cq ? lock_used_producer(seg, cq, index, false) : -1;
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
		cq_tell_async(seg, index, id, IBV_EVENT_CQ_ERR);
	}
	return drops ? AV_CQ_DROPPED : 0;
}

/* An entry went into a producer ring that was just abandoned, and was copied. Context: no lock */
static void count_copied(struct av_seg *seg, struct av_cq_shared *cq, uint32_t index)
{
	int i = lock_used_producer(seg, cq, index, false); /* whose holder may count */

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
		i = av_likely(cq != NULL) ? lock_used_producer(seg, cq, index, false) : -1;
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
	bell = silent_bell(cq, index);
	if (av_unlikely(av_oneshot_is_begun(&cq->producer[i].armed)))
		count_present(seg, cq, (uint32_t)i, &bell); /* if its raiser seems to be dead */
	else if (wants_event(av_oneshot_armed(&cq->producer[i].armed), to))
		count_entry(cq, &cq->producer[i], to, atomic_load(&cq->producer[i].tail), &bell);
	av_lock_release(&cq->producer[i].lock);
	if (later)
		*later = bell;
	else
		av_cq_ring(seg, &bell);
	return 0;
}

void av_cq_arm(struct av_seg *seg, uint32_t index, enum av_cq_armed how)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	int i = lock_used_producer(
		seg, cq, index, false); /* a later appender sees it without a barrier of its own */
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
	i = lock_used_producer(seg, cq, index,
			       false); /* excludes appenders: their next event goes the new way */
	before = atomic_exchange(&cq->notify, AV_CQ_NOTIFY_USED);
	av_lock_release(&cq->producer[i].lock);
	return before != AV_CQ_NOTIFY_USED;
}

void av_cq_look_again(struct av_seg *seg, uint32_t index)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	int i = lock_used_producer(seg, cq, index, false);
	struct av_cq_bell bell = silent_bell(cq, index);

	if (!moderated(&cq->producer[i]))
		count_present(seg, cq, (uint32_t)i, &bell);
	release_cq_producer(seg, cq, i, &bell);
}

void av_cq_moderate(struct av_seg *seg, uint32_t index, uint32_t count, uint32_t period_us)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	int i = lock_used_producer(seg, cq, index, false);
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
	i = lock_used_producer(seg, cq, index, false);
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

/*
 * Both locks are held. So nobody sees the ring half compacted, unless the owner dies here, and then
 * nobody polls it.
 */
void av_cq_purge(struct av_seg *seg, uint32_t index,
		 bool (*of)(const struct av_cqe *cqe, uint32_t number), uint32_t number,
		 void (*dropped)(struct av_seg *seg, const struct av_cqe *cqe))
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	uint32_t head, tail, to, untold;
	struct av_cq_producer *in;
	int i;

	av_lock_acquire_plain(&cq->poll_lock, AV_RANK_POLL);
	i = lock_used_producer(seg, cq, index, true);
	in = &cq->producer[i];
	head = atomic_load(&cq->head);
	tail = atomic_load(&in->tail);
	untold = first_untold(cq, in);
	to = head;
	for (uint32_t from = head; from != tail; from++) {
		struct av_cqe *e = av_cq_entry(seg, cq, (uint32_t)i, from),
			      *gap = av_cq_entry(seg, cq, (uint32_t)i, to);

		if (!e || !gap)
			break;
		if (from == untold)
			in->told = to;
		if (of(e, number)) {
			dropped(seg, e);
			continue;
		}
		if (from != to)
			av_cqe_copy(gap, e, to);
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
}

bool av_cq_holds_receive(struct av_seg *seg, uint32_t index, uint32_t qpn, uint32_t wqe)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	uint32_t head, waiting;
	bool found = false;
	int i;

	i = cq ? lock_used_producer(seg, cq, index, false) : -1;
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
