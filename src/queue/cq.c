/* SPDX-License-Identifier: MIT */
/* The shared completion ring: append, arm, peek, purge. */
#include "queue/cq.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "hca/bell.h"

static uint32_t ring_entries(uint32_t capacity)
{
	return capacity <= 1 ? 1 : 1u << (32 - __builtin_clz(capacity - 1));
}

static struct av_cqe *entry(struct av_seg *seg, const struct av_cq_shared *cq, uint32_t number)
{
	uint32_t mask = cq->mask & (AV_MAX_CQE | (AV_MAX_CQE >> 1));
	struct av_cqe *ring = av_seg_at(seg, cq->ring, ((uint64_t)mask + 1) * sizeof(*ring));

	return ring ? &ring[number & mask] : NULL;
}

uint32_t av_cq_init(struct av_seg *seg, uint32_t capacity, uint32_t bell, uint32_t id, uint32_t limit)
{
	uint32_t index = av_slab_alloc(seg, AV_SLAB_CQ, limit);
	uint32_t entries = ring_entries(capacity);
	struct av_cq_shared *cq;
	uint64_t ring;

	if (!index)
		return 0;
	ring = av_seg_alloc(seg, (uint64_t)entries * sizeof(struct av_cqe));
	cq = av_cq_at(seg, index);
	if (!ring || !cq) {
		av_slab_free(seg, AV_SLAB_CQ, index);
		return 0;
	}
	memset(cq, 0, sizeof(*cq));
	cq->capacity = capacity;
	cq->mask = entries - 1;
	cq->bell = bell;
	cq->ring = ring;
	atomic_store_explicit(&cq->id, id, memory_order_release);
	return index;
}

void av_cq_fini(struct av_seg *seg, uint32_t index)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);

	atomic_store(&cq->id, 0);
	av_seg_free(seg, cq->ring, ((uint64_t)cq->mask + 1) * sizeof(struct av_cqe));
	av_slab_free(seg, AV_SLAB_CQ, index);
}

/* Move the entries to another ring; both locks are held. Return: offset of the ring that is not used any
 * more, or 0. */
static uint64_t change_ring(struct av_seg *seg, struct av_cq_shared *cq, uint64_t ring, uint32_t mask,
			    uint32_t capacity)
{
	uint32_t head = atomic_load(&cq->head), tail = atomic_load(&cq->tail);
	struct av_cqe *to = av_seg_at(seg, ring, ((uint64_t)mask + 1) * sizeof(*to));
	uint64_t old = cq->ring;

	if (!to || tail - head > capacity)
		return 0;
	for (uint32_t i = head; i != tail; i++) {
		const struct av_cqe *from = entry(seg, cq, i);

		if (from)
			to[i & mask] = *from;
	}
	cq->ring = ring;
	cq->mask = mask;
	cq->capacity = capacity;
	return old;
}

int av_cq_resize(struct av_seg *seg, uint32_t index, uint32_t capacity)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	uint32_t mask = ring_entries(capacity) - 1, old_mask;
	uint64_t ring = av_seg_alloc(seg, ((uint64_t)mask + 1) * sizeof(struct av_cqe)), old;

	if (!ring || !cq)
		return ENOMEM;
	av_lock_acquire_plain(&cq->poll_lock);
	av_lock_acquire_plain(&cq->lock);
	old_mask = cq->mask;
	old = change_ring(seg, cq, ring, mask, capacity);
	av_lock_release(&cq->lock);
	av_lock_release(&cq->poll_lock);
	if (!old) {
		av_seg_free(seg, ring, ((uint64_t)mask + 1) * sizeof(struct av_cqe));
		return EINVAL;
	}
	av_seg_free(seg, old, ((uint64_t)old_mask + 1) * sizeof(struct av_cqe));
	return 0;
}

/* Room for one more? The caller holds the lock. */
static bool has_room(struct av_cq_shared *cq, uint32_t tail)
{
	if (av_likely(tail - cq->head_seen < cq->capacity))
		return true;
	cq->head_seen = atomic_load_explicit(&cq->head, memory_order_acquire);
	return tail - cq->head_seen < cq->capacity;
}

static bool fires(struct av_cq_shared *cq, const struct av_cqe *cqe)
{
	if (av_likely(cq->armed == AV_CQ_NOT_ARMED))
		return false;
	if (cq->armed == AV_CQ_ARMED_SOLICITED && !(cqe->flags & AV_CQE_SOLICITED) &&
	    cqe->status == IBV_WC_SUCCESS)
		return false;
	cq->armed = AV_CQ_NOT_ARMED;
	return true;
}

static void copy_entry(const struct av_cq_shared *cq, struct av_cqe *to, const struct av_cqe *from)
{
	memcpy(to, from, offsetof(struct av_cqe, data));
	if (atomic_load_explicit(&cq->stamped, memory_order_relaxed))
		to->stamp_ns = av_now_ns();
	if (from->data_len)
		memcpy(to->data, from->data, AV_CQE_DATA);
}

static void ring_bell(struct av_seg *seg, uint32_t bell, uint32_t event, uint32_t index, uint32_t id)
{
	struct av_bell_record record = {.event = event, .kind = AV_SLAB_CQ, .index = index, .id = id};

	(void)av_bell_ring(seg, bell, &record);
}

int av_cq_push(struct av_seg *seg, uint32_t index, const struct av_cqe *cqe)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	struct av_cqe *to;
	bool fire = false, first_overrun = false;
	uint32_t tail, id, bell;

	if (!cq)
		return -ENOSPC;
	av_lock_acquire_plain(&cq->lock);
	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	to = entry(seg, cq, tail);
	id = atomic_load_explicit(&cq->id, memory_order_relaxed);
	bell = cq->bell;
	if (av_likely(to && has_room(cq, tail) &&
		      !atomic_load_explicit(&cq->overrun, memory_order_relaxed))) {
		copy_entry(cq, to, cqe);
		atomic_store_explicit(&cq->tail, tail + 1, memory_order_release);
		fire = fires(cq, cqe);
	} else {
		to = NULL;
		first_overrun = !atomic_exchange(&cq->overrun, 1);
	}
	av_lock_release(&cq->lock);
	if (av_unlikely(fire && bell))
		ring_bell(seg, bell, 0, index, id);
	if (av_unlikely(first_overrun))
		ring_bell(seg, AV_BELL_ASYNC, IBV_EVENT_CQ_ERR, index, id);
	return av_likely(to != NULL) ? 0 : -ENOSPC;
}

/* Is there an entry that fires the CQ as it is armed? It is disarmed then. The lock is held. */
static bool fires_already(struct av_seg *seg, struct av_cq_shared *cq)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);

	for (uint32_t i = atomic_load(&cq->head); i != tail; i++) {
		const struct av_cqe *e = entry(seg, cq, i);

		if (e && fires(cq, e))
			return true;
	}
	return false;
}

void av_cq_arm(struct av_seg *seg, uint32_t index, enum av_cq_armed how)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	bool fire;

	av_lock_acquire_plain(
		&cq->lock); /* so that an appender after us sees it without a barrier of its own */
	if (cq->armed < (uint32_t)how)
		cq->armed = how;
	fire = fires_already(seg, cq);
	av_lock_release(&cq->lock);
	if (fire && cq->bell)
		ring_bell(seg, cq->bell, 0, index, atomic_load(&cq->id));
}

const struct av_cqe *av_cq_peek(struct av_seg *seg, struct av_cq_shared *cq)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

	if (atomic_load_explicit(&cq->tail, memory_order_acquire) == head)
		return NULL;
	return entry(seg, cq, head);
}

/*
 * Both locks are held, so nobody sees the ring half compacted but an owner that died in here, which nobody
 * polls any more.
 */
void av_cq_purge(struct av_seg *seg, uint32_t index, bool (*of)(const struct av_cqe *cqe, uint32_t number),
		 uint32_t number, void (*dropped)(struct av_seg *seg, const struct av_cqe *cqe))
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	uint32_t head, tail, to;

	av_lock_acquire_plain(&cq->poll_lock);
	av_lock_acquire_plain(&cq->lock);
	head = atomic_load(&cq->head);
	tail = atomic_load(&cq->tail);
	to = head;
	for (uint32_t from = head; from != tail; from++) {
		struct av_cqe *e = entry(seg, cq, from), *gap = entry(seg, cq, to);

		if (!e || !gap)
			break;
		if (of(e, number)) {
			dropped(seg, e);
			continue;
		}
		if (from != to)
			*gap = *e;
		to++;
	}
	atomic_store(&cq->tail, to);
	av_lock_release(&cq->lock);
	av_lock_release(&cq->poll_lock);
}

bool av_cq_holds_receive(struct av_seg *seg, uint32_t index, uint32_t qpn, uint32_t wqe)
{
	struct av_cq_shared *cq = av_cq_at(seg, index);
	bool found = false;
	uint32_t tail;

	if (!cq)
		return false;
	av_lock_acquire_plain(&cq->lock);
	tail = atomic_load(&cq->tail);
	for (uint32_t i = atomic_load(&cq->head); i != tail && !found; i++) {
		const struct av_cqe *e = entry(seg, cq, i);

		found = e && e->qpn == qpn && e->wqe == wqe && (e->flags & AV_CQE_RECV);
	}
	av_lock_release(&cq->lock);
	return found;
}
