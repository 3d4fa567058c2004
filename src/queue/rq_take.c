/* SPDX-License-Identifier: MIT */
#include "queue/rq.h"

#include "base/limits.h"
#include "segment/segment.h"

static void raise_event(struct av_seg *seg, const struct av_rq_shared *rq)
{
	struct av_doorbell_record record = {
		.event = IBV_EVENT_SRQ_LIMIT_REACHED,
		.kind = AV_SLAB_RQ,
		.index = rq->index,
		.id = atomic_load(&rq->id),
	};

	(void)av_doorbell_ring(seg, AV_DOORBELL_ASYNC, &record);
}

void av_srq_limit_check(struct av_seg *seg, struct av_rq_shared *rq)
{
	uint32_t left = atomic_load(&rq->tail) - av_rq_taken(rq);
	uint64_t claim = left < av_srq_limit(rq) ? av_oneshot_begin(&rq->limit) : 0;

	if (claim) {
		raise_event(seg, rq);
		av_oneshot_end(&rq->limit, claim);
	}
}

void av_srq_limit_set(struct av_seg *seg, struct av_rq_shared *rq, uint32_t limit)
{
	av_oneshot_arm(&rq->limit, limit);
	av_srq_limit_look(seg, rq);
}

/* The low half of a request's @taker: this, the number of a queue pair, or 0: free. */
#define QUEUED UINT32_MAX

/* In the high half of @head: changes other than by taking. Odd: takers wait. */
#define CHANGE (1ull << 32)

/* Takers look so often at the death of one that they wait for. */
#define LOOKS 256u

/* The high half is a mark, in @taker and in the order. */
static uint64_t with_mark(uint32_t mark, uint32_t low)
{
	return (uint64_t)mark << 32 | low;
}

static uint32_t mark_of(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* Marks of posted requests are even, of those that are put back odd. */
static uint32_t mark_of_number(uint32_t number)
{
	return number << 1;
}

/* NULL: the order is unsound. Context: see struct av_rq_shared. */
static uint64_t *entry(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t number)
{
	uint32_t mask = __atomic_load_n(&rq->order_mask, __ATOMIC_RELAXED);
	uint64_t bytes = ((uint64_t)mask + 1) * sizeof(uint64_t);
	uint64_t *order =
		mask < AV_RQ_ORDER_ENTRIES(2 * AV_MAX_SRQ_WR)
			? av_seg_at(seg, __atomic_load_n(&rq->order, __ATOMIC_RELAXED), bytes)
			: NULL;

	return order ? &order[number & mask] : NULL;
}

/* --- who changes the order ------------------------------------------------------------ */

static bool is_changing(uint64_t head)
{
	return head & CHANGE;
}

/* A dead holder of take_lock leaves all entries in the order, some of them twice. */
static void end_of_dead(struct av_rq_shared *rq)
{
	if (is_changing(atomic_load(&rq->head)))
		atomic_fetch_add(&rq->head, CHANGE);
}

/* Return: false: the lock of a peer's queue was not had in time */
static bool lock_rq_take(struct av_seg *seg, struct av_rq_shared *rq)
{
	enum av_lock_result got = av_peer_lock(seg, &rq->take_lock, AV_RANK_TAKE_RECV);

	if (got == AV_LOCK_REPAIR)
		end_of_dead(rq);
	return got != AV_LOCK_BUSY;
}

/* Whoever changes the order may have died. */
static void look_at_changer(struct av_rq_shared *rq)
{
	enum av_lock_result got = av_lock_try(&rq->take_lock, AV_RANK_TAKE_RECV);

	if (got == AV_LOCK_REPAIR)
		end_of_dead(rq);
	if (got != AV_LOCK_BUSY)
		av_lock_release(&rq->take_lock);
}

void av_rq_order_lock(struct av_seg *seg, struct av_rq_shared *rq)
{
	(void)lock_rq_take(seg, rq);
}

void av_rq_order_unlock(struct av_rq_shared *rq)
{
	av_lock_release(&rq->take_lock);
}

void av_rq_order_move(struct av_seg *seg, struct av_rq_shared *rq, uint64_t order, uint32_t places)
{
	uint32_t mask = AV_RQ_ORDER_ENTRIES(places) - 1, tail = atomic_load(&rq->tail);
	uint64_t *to = av_seg_at(seg, order, av_rq_order_bytes(places));

	atomic_fetch_add(&rq->head, CHANGE);
	for (uint32_t i = av_rq_taken(rq); i != tail; i++) {
		const uint64_t *from = entry(seg, rq, i);

		if (to && from)
			to[i & mask] = __atomic_load_n(from, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&rq->order, order, __ATOMIC_RELAXED);
	__atomic_store_n(&rq->order_mask, mask, __ATOMIC_RELAXED);
	atomic_fetch_add(&rq->head, CHANGE);
}

/* --- posting -------------------------------------------------------------------------- */

bool av_rq_order_add(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t number,
		     uint32_t place)
{
	uint64_t *e = entry(seg, rq, number);

	if (e)
		__atomic_store_n(e, with_mark(mark_of_number(number), place), __ATOMIC_RELAXED);
	return e != NULL;
}

void av_rq_order_publish(struct av_rq_wqe *wqe, uint32_t number)
{
	atomic_store_explicit(&wqe->taker, with_mark(mark_of_number(number), QUEUED),
			      memory_order_release);
}

/* --- taking --------------------------------------------------------------------------- */

/*
 * The slot of the request that is next as @head says; NULL: none, or the order is unsound. It may
 * be being filled anew by now: only its @taker can be looked at.
 */
static struct av_rq_wqe *next_of(struct av_seg *seg, struct av_rq_shared *rq, uint64_t head,
				 uint64_t *found)
{
	const uint64_t *e;

	if (atomic_load(&rq->tail) == (uint32_t)head)
		return NULL;
	e = entry(seg, rq, (uint32_t)head);
	if (!e)
		return NULL;
	/* The entry is there once @tail says so. Read once: it may be a peer's nonsense. */
	*found = __atomic_load_n(e, __ATOMIC_RELAXED);
	return av_rq_slot(seg, rq, (uint32_t)*found);
}

const struct av_rq_wqe *av_rq_order_take(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
					 uint32_t *receiving)
{
	for (uint32_t looks = 0; looks < AV_MAX_SRQ_WR; looks++) {
		uint64_t head = atomic_load(&rq->head), found, queued;
		struct av_rq_wqe *wqe;
		bool taken;

		if (av_unlikely(is_changing(head))) {
			if (looks % LOOKS == LOOKS - 1)
				look_at_changer(rq);
			av_pause();
			continue;
		}
		wqe = next_of(seg, rq, head, &found);
		if (!wqe) {
			av_srq_limit_look(seg, rq);
			break;
		}
		*receiving = (uint32_t)found + 1; /* before it is taken: for repair */
		queued = with_mark(mark_of(found), QUEUED);
		taken = atomic_compare_exchange_strong(&wqe->taker, &queued,
						       with_mark(mark_of(found), qpn));
		atomic_compare_exchange_strong(&rq->head, &head,
					       with_mark(mark_of(head), (uint32_t)head + 1));
		if (av_unlikely(!taken))
			continue;
		av_srq_limit_look(seg, rq);
		return av_rq_wqe(seg, rq, (uint32_t)found);
	}
	*receiving = 0;
	return NULL;
}

/* --- putting back; take_lock is held ---------------------------------------------------- */

/* Is that entry still what its request is queued by? */
static bool is_valid(struct av_seg *seg, const struct av_rq_shared *rq, uint64_t e)
{
	const struct av_rq_wqe *wqe = av_rq_slot(seg, rq, (uint32_t)e);

	return wqe && atomic_load(&wqe->taker) == with_mark(mark_of(e), QUEUED);
}

/* Leave out the entries that would only be passed over. */
static void compact(struct av_seg *seg, struct av_rq_shared *rq)
{
	uint64_t head = atomic_fetch_add(&rq->head, CHANGE);
	uint32_t to = rq->reached, waiting = rq->reached - (uint32_t)head;

	for (uint32_t i = 1; i <= waiting && i <= AV_RQ_ORDER_ENTRIES(AV_MAX_SRQ_WR); i++) {
		const uint64_t *from = entry(seg, rq, rq->reached - i);
		uint64_t *e = from && is_valid(seg, rq, *from) ? entry(seg, rq, to - 1) : NULL;

		if (!e)
			continue;
		__atomic_store_n(e, *from, __ATOMIC_RELAXED);
		to--;
	}
	atomic_store(&rq->head, with_mark(mark_of(head) + 2, to));
}

/* Is there room for one more entry before the others? */
static bool has_room(struct av_rq_shared *rq, uint64_t head)
{
	if ((int32_t)((uint32_t)head - rq->reached) > 0)
		rq->reached = (uint32_t)head;
	return rq->reached - (uint32_t)head < rq->places;
}

/* Give the request at @place, queued by @mark, its entry. An earlier attempt's may be taken. */
static void put_first(struct av_seg *seg, struct av_rq_shared *rq, uint32_t mark, uint32_t place)
{
	uint64_t head = atomic_load(&rq->head), *e;

	do {
		if (!has_room(rq, head)) {
			compact(seg, rq);
			head = atomic_load(&rq->head);
		}
		e = entry(seg, rq, (uint32_t)head - 1);
		if (!e || !is_valid(seg, rq, with_mark(mark, place)))
			return;
		__atomic_store_n(e, with_mark(mark, place), __ATOMIC_RELAXED);
	} while (!atomic_compare_exchange_strong(&rq->head, &head,
						 with_mark(mark_of(head) + 2, (uint32_t)head - 1)));
}

/* @taker: what the request's word was when it was found to be put back */
static void requeue_recv_wqe(struct av_seg *seg, struct av_rq_shared *rq, uint64_t taker,
			     uint32_t place)
{
	struct av_rq_wqe *wqe = av_rq_slot(seg, rq, place);
	uint32_t mark = mark_of(atomic_load(&rq->head)) | 1;

	if (atomic_compare_exchange_strong(&wqe->taker, &taker, with_mark(mark, QUEUED)))
		put_first(seg, rq, mark, place);
}

static bool has_entry(struct av_seg *seg, struct av_rq_shared *rq, uint32_t mark, uint32_t place)
{
	uint32_t head = av_rq_taken(rq), waiting = atomic_load(&rq->tail) - head;

	for (uint32_t i = 0; i < waiting && i < AV_RQ_ORDER_ENTRIES(AV_MAX_SRQ_WR); i++) {
		const uint64_t *e = entry(seg, rq, head + i);

		if (e && __atomic_load_n(e, __ATOMIC_RELAXED) == with_mark(mark, place))
			return true;
	}
	return false;
}

void av_rq_order_put_back(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn, uint32_t place)
{
	const struct av_rq_wqe *wqe = av_rq_slot(seg, rq, place);
	uint64_t taker;

	if (!wqe || !lock_rq_take(seg, rq))
		return;
	taker = atomic_load(&wqe->taker);
	if ((uint32_t)taker == qpn)
		requeue_recv_wqe(seg, rq, taker, place);
	av_lock_release(&rq->take_lock);
}

void av_rq_order_repair(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn, uint32_t place)
{
	const struct av_rq_wqe *wqe = av_rq_slot(seg, rq, place);
	uint64_t taker;

	if (!wqe || !lock_rq_take(seg, rq))
		return;
	taker = atomic_load(&wqe->taker);
	if ((uint32_t)taker == qpn ||
	    ((uint32_t)taker == QUEUED && !has_entry(seg, rq, mark_of(taker), place)))
		requeue_recv_wqe(seg, rq, taker, place);
	av_lock_release(&rq->take_lock);
}
