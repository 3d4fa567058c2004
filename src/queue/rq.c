/* SPDX-License-Identifier: MIT */
#include "queue/rq.h"

#include <string.h>

#include "observe/check.h"

static bool is_shared(const struct av_rq_shared *rq)
{
	return atomic_load_explicit(&rq->id, memory_order_relaxed) != 0;
}

void av_rq_reset(struct av_rq_shared *rq)
{
	av_lock_acquire_plain(&rq->post_lock, AV_RANK_POST_RECV);
	atomic_store(&rq->head, 0);
	atomic_store(&rq->freed, 0);
	atomic_store(&rq->tail, 0);
	atomic_store(&rq->waiting, 0);
	rq->tail_seen = 0;
	av_lock_release(&rq->post_lock);
}

/* The largest slot: as many bytes are mapped from each slot on, though others may own them. */
#define SLOT_MAX                                                                               \
	(sizeof(struct av_rq_wqe) + AV_MAX_SGE * sizeof(struct ibv_sge) + AV_MAX_INLINE_RECV + \
	 2 * (uint64_t)AV_CACHE_LINE)

/* Slot @i from offset @first on; NULL: not in the segment, as other processes write anything. */
static struct av_rq_wqe *slot_from(const struct av_seg *seg, const struct av_rq_shared *rq,
				   uint64_t first, uint64_t i)
{
	return av_seg_piece(seg, first + i * rq->stride, SLOT_MAX);
}

static struct av_rq_wqe *shared_slot(const struct av_seg *seg, const struct av_rq_shared *rq,
				     uint32_t place)
{
	uint32_t ring = __atomic_load_n(&rq->mask, __ATOMIC_RELAXED) + 1;
	unsigned int run;

	if (place < ring)
		return slot_from(seg, rq, rq->ring, place);
	if (ring == 0)
		return NULL;
	run = 31 - (unsigned int)__builtin_clz(place / ring);
	if (run >= AV_RQ_RUNS)
		return NULL;
	return slot_from(seg, rq, atomic_load_explicit(&rq->more[run], memory_order_acquire),
			 place - (ring << run));
}

struct av_rq_wqe *av_rq_slot(const struct av_seg *seg, const struct av_rq_shared *rq,
			     uint32_t number)
{
	if (av_unlikely(is_shared(rq)))
		return shared_slot(seg, rq, number);
	return av_seg_piece(seg, rq->ring + (uint64_t)(number & rq->mask) * rq->stride, SLOT_MAX);
}

/* The slot of a queue that is not shared, to prefetch only: the address is not checked. */
static inline const void *near_slot(const struct av_seg *seg, const struct av_rq_shared *rq,
				    uint32_t number)
{
	return (const void *)((uintptr_t)seg->head + rq->ring +
			      (uintptr_t)(number & rq->mask) * rq->stride);
}

/* --- the limit of a shared queue ------------------------------------------------- */

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

static void limit_check(struct av_seg *seg, struct av_rq_shared *rq)
{
	uint32_t left = atomic_load(&rq->tail) - av_rq_taken(rq);
	uint64_t claim = left < av_srq_limit(rq) ? av_oneshot_begin(&rq->limit) : 0;

	if (claim) {
		raise_event(seg, rq);
		av_oneshot_end(&rq->limit, claim);
	}
}

/* Call this after taking a request, or after finding none. */
static inline void limit_look(struct av_seg *seg, struct av_rq_shared *rq)
{
	if (av_unlikely(av_srq_limit(rq) != 0))
		limit_check(seg, rq);
}

void av_srq_limit_set(struct av_seg *seg, struct av_rq_shared *rq, uint32_t limit)
{
	av_oneshot_arm(&rq->limit, limit);
	limit_look(seg, rq);
}

/* --- the order of a shared queue ------------------------------------------------- */

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
static bool lock_order(struct av_seg *seg, struct av_rq_shared *rq)
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

/* Copy the order to other memory. Takers wait. Context: both locks are held */
static void order_move(struct av_seg *seg, struct av_rq_shared *rq, uint64_t order, uint32_t places)
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

/* The caller then fills in the slot, before order_publish(). Return: false: the order is unsound */
static bool order_add(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t number,
		      uint32_t place)
{
	uint64_t *e = entry(seg, rq, number);

	if (e)
		__atomic_store_n(e, with_mark(mark_of_number(number), place), __ATOMIC_RELAXED);
	return e != NULL;
}

static void order_publish(struct av_rq_wqe *wqe, uint32_t number)
{
	atomic_store_explicit(&wqe->taker, with_mark(mark_of_number(number), QUEUED),
			      memory_order_release);
}

/* --- taking --------------------------------------------------------------------------- */

/*
 * The slot of the request that is next as @head says; NULL: none, or the order is unsound. It may
 * be being filled anew by now: only its @taker can be looked at. If @head is not @rq's any more,
 * the order may have moved, and what was read here is anything.
 */
AV_RACY static struct av_rq_wqe *next_of(struct av_seg *seg, struct av_rq_shared *rq, uint64_t head,
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

static const struct av_rq_wqe *order_take(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
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
		if (av_unlikely(atomic_load(&rq->head) != head))
			continue;
		if (!wqe) {
			limit_look(seg, rq);
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
		limit_look(seg, rq);
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

/* If queue pair @qpn has it. Does nothing if the lock of a peer's queue is not had in time. */
static void order_put_back(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
			   uint32_t place)
{
	const struct av_rq_wqe *wqe = av_rq_slot(seg, rq, place);
	uint64_t taker;

	if (!wqe || !lock_order(seg, rq))
		return;
	taker = atomic_load(&wqe->taker);
	if ((uint32_t)taker == qpn)
		requeue_recv_wqe(seg, rq, taker, place);
	av_lock_release(&rq->take_lock);
}

/* The same for a dead holder of @qpn's @resp_lock, dead before the take, or amid a put-back. */
static void order_repair(struct av_seg *seg, struct av_rq_shared *rq, const struct av_rq_wqe *wqe,
			 uint32_t qpn, uint32_t place)
{
	uint64_t taker;

	if (!lock_order(seg, rq))
		return;
	taker = atomic_load(&wqe->taker);
	if ((uint32_t)taker == qpn ||
	    ((uint32_t)taker == QUEUED && !has_entry(seg, rq, mark_of(taker), place)))
		requeue_recv_wqe(seg, rq, taker, place);
	av_lock_release(&rq->take_lock);
}

/* --- free slots ------------------------------------------------------------------ */

/* Free a slot of a shared queue. Context: post_lock is held. */
static void free_place(struct av_seg *seg, struct av_rq_shared *rq, uint32_t place)
{
	uint32_t *stack = av_seg_at(seg, rq->stack, av_rq_stack_bytes(rq->places));
	struct av_rq_wqe *wqe = place < rq->places ? av_rq_slot(seg, rq, place) : NULL;

	if (!stack || !wqe || rq->stacked >= rq->places)
		return;
	atomic_store_explicit(&wqe->taker, 0, memory_order_relaxed);
	stack[rq->stacked++] = place;
	atomic_store_explicit(&rq->freed,
			      atomic_load_explicit(&rq->freed, memory_order_relaxed) + 1,
			      memory_order_release);
}

void av_rq_freed(struct av_seg *seg, struct av_rq_shared *rq, uint32_t place)
{
	if (!is_shared(rq)) { /* its completions are in one CQ, in order, whose poll_lock is held */
		atomic_store_explicit(&rq->freed, place + 1, memory_order_release);
		/* Prefetch the slot of the next post, which the taker has read. */
		av_prefetch_write(
			near_slot(seg, rq, atomic_load_explicit(&rq->tail, memory_order_relaxed)));
		return;
	}
	av_lock_acquire_plain(&rq->post_lock, AV_RANK_POST_RECV);
	free_place(seg, rq, place);
	av_lock_release(&rq->post_lock);
}

static uint64_t dropped_mark(uint32_t place)
{
	return (uint64_t)place << 32 | AV_RQ_DROPPED;
}

static bool is_dropped(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t place)
{
	const struct av_rq_wqe *wqe = av_rq_slot(seg, rq, place);

	return wqe && atomic_load(&wqe->taker) == dropped_mark(place);
}

void av_rq_drop(struct av_seg *seg, struct av_rq_shared *rq, uint32_t place)
{
	struct av_rq_wqe *wqe = av_rq_slot(seg, rq, place);

	if (!wqe)
		return;
	atomic_store(&wqe->taker, dropped_mark(place));
	atomic_store(&rq->dropped, 1);
}

/*
 * Free the slots of requests whose completions were dropped; of one queue pair, those next in
 * order. A poller meanwhile frees at least as many. Context: post_lock is held.
 */
static void reclaim(struct av_seg *seg, struct av_rq_shared *rq)
{
	uint32_t freed = atomic_load(&rq->freed), tail = atomic_load(&rq->tail);

	if (!is_shared(rq)) {
		while (freed != tail && is_dropped(seg, rq, freed) &&
		       atomic_compare_exchange_strong(&rq->freed, &freed, freed + 1))
			freed++;
		return;
	}
	if (!atomic_exchange(&rq->dropped, 0))
		return;
	for (uint32_t place = 0; place < rq->places; place++)
		if (is_dropped(seg, rq, place))
			free_place(seg, rq, place);
}

/* --- posting --------------------------------------------------------------------- */

static void fill_recv_wqe(struct av_rq_wqe *wqe, const struct ibv_recv_wr *wr)
{
	wqe->wr_id = wr->wr_id;
	wqe->count = (uint32_t)wr->num_sge;
	wqe->bytes = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		wqe->bytes += wr->sg_list[i].length;
	}
}

/* Take a free place, of which there is one, for request @number. Context: post_lock is held. */
static uint32_t place_for(struct av_seg *seg, struct av_rq_shared *rq, uint32_t number)
{
	uint32_t *stack, place;

	if (!is_shared(rq))
		return number;
	stack = av_seg_at(seg, rq->stack, av_rq_stack_bytes(rq->places));
	if (av_unlikely(!stack || rq->stacked - 1 >= rq->places))
		return UINT32_MAX; /* the stack is unsound */
	place = stack[--rq->stacked];
	return order_add(seg, rq, number, place) ? place : UINT32_MAX;
}

static bool is_full(const struct av_rq_shared *rq, uint32_t number)
{
	return number - atomic_load_explicit(&rq->freed, memory_order_acquire) >= rq->capacity;
}

/* May request @number, which is @wr, be posted? Return: 0, or the errno of ibv_post_recv(3) */
static int check_recv_wr(struct av_seg *seg, struct av_rq_shared *rq, const struct ibv_recv_wr *wr,
			 uint32_t number)
{
	if (av_unlikely(is_full(rq, number)))
		reclaim(seg, rq);
	if (is_full(rq, number))
		return av_refuse(ENOMEM, AV_CHECK_POST_RECV_FULL, rq->capacity, rq->capacity);
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return av_refuse(EINVAL, AV_CHECK_POST_RECV_SGE, (uint64_t)wr->num_sge,
				 rq->max_sge);
	if (AV_LIST_MISSING(wr->num_sge, wr->sg_list))
		return av_refuse(EINVAL, AV_CHECK_POST_RECV_LIST, (uint32_t)wr->num_sge, 0);
	return 0;
}

/* Context: post_lock is held: whoever empties the queue takes it after setting the state. */
static int check_state(const _Atomic uint32_t *state)
{
	int err;

	if (av_likely(!state || atomic_load(state) != IBV_QPS_RESET))
		return 0;
	err = av_refuse(EINVAL, AV_CHECK_POST_RECV_STATE, IBV_QPS_RESET, 0);
	av_diag_state(IBV_QPS_RESET);
	return err;
}

/* Context: post_lock is held */
static int append_recv_wrs(struct av_seg *seg, struct av_rq_shared *rq, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad)
{
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);
	const bool shared = is_shared(rq);
	struct av_rq_wqe *to;
	int ret = 0;

	for (; wr; wr = wr->next, tail++) {
		ret = check_recv_wr(seg, rq, wr, tail);
		if (ret) {
			*bad = wr;
			break;
		}
		to = av_rq_slot(seg, rq, place_for(seg, rq, tail));
		if (av_likely(to != NULL))
			fill_recv_wqe(to, wr);
		if (av_unlikely(shared && to))
			order_publish(to, tail);
		else if (to)
			atomic_store_explicit(&to->taker, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&rq->tail, tail, memory_order_release);
	return ret;
}

int av_rq_post(struct av_seg *seg, struct av_rq_shared *rq, const _Atomic uint32_t *state,
	       struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int ret;

	av_lock_acquire_plain(&rq->post_lock, AV_RANK_POST_RECV);
	ret = check_state(state);
	if (av_unlikely(ret))
		*bad = wr;
	else
		ret = append_recv_wrs(seg, rq, wr, bad);
	/* A full barrier: @waiting and the queue pair's state are read after this. */
	av_lock_release_fence(&rq->post_lock);
	return ret;
}

const struct av_rq_wqe *av_rq_wqe(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t place)
{
	const struct av_rq_wqe *wqe = av_rq_slot(seg, rq, place);

	return wqe && wqe->count <= rq->max_sge && wqe->count <= AV_MAX_SGE ? wqe : NULL;
}

uint8_t *av_rq_payload(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t place)
{
	struct av_rq_wqe *wqe = rq->inline_bytes ? av_rq_slot(seg, rq, place) : NULL;
	uint32_t max_sge = __atomic_load_n(&rq->max_sge, __ATOMIC_RELAXED);

	return wqe && max_sge <= AV_MAX_SGE ? (uint8_t *)wqe + av_rq_payload_at(max_sge) : NULL;
}

const struct av_rq_wqe *av_rq_take(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
				   uint32_t *receiving)
{
	const struct av_rq_wqe *wqe;
	uint32_t head;

	if (is_shared(rq))
		return order_take(seg, rq, qpn, receiving);
	head = (uint32_t)atomic_load_explicit(&rq->head, memory_order_relaxed);
	if (rq->tail_seen == head)
		rq->tail_seen = atomic_load(&rq->tail);
	if (rq->tail_seen == head)
		return NULL;
	wqe = av_rq_wqe(seg, rq, head);
	if (av_unlikely(!wqe))
		return NULL;
	*receiving = head + 1;
	atomic_store_explicit(&rq->head, (uint32_t)(head + 1), memory_order_release);
	return wqe;
}

AV_RACY void av_rq_prefetch(struct av_seg *seg, const struct av_rq_shared *rq)
{
	uint32_t head = (uint32_t)atomic_load_explicit(&rq->head, memory_order_relaxed);

	av_prefetch_write(&rq->head);
	if (!is_shared(rq) &&
	    rq->tail_seen != head) /* otherwise its poster is about to write there */
		__builtin_prefetch(near_slot(seg, rq, head));
}

void av_rq_untake(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn, uint32_t place)
{
	if (is_shared(rq))
		order_put_back(seg, rq, qpn, place);
	else
		atomic_store_explicit(&rq->head, place, memory_order_release);
}

void av_rq_repair(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn, uint32_t place,
		  bool in_cq)
{
	const struct av_rq_wqe *wqe = av_rq_wqe(seg, rq, place);

	if (in_cq || !wqe)
		return;
	if (is_dropped(seg, rq, place))
		atomic_store(&rq->dropped, 1); /* it may have died before it said so */
	else if (is_shared(rq))
		order_repair(seg, rq, wqe, qpn, place);
	else if (av_rq_taken(rq) == place + 1 && (int32_t)(atomic_load(&rq->freed) - place) <= 0)
		av_rq_untake(seg, rq, qpn, place);
}

/* Replace the arrays by the larger ones @with, which gets the old ones. Both locks are held. */
static void swap_rq_arrays(struct av_seg *seg, struct av_rq_shared *rq, struct av_rq_arrays *with)
{
	const struct av_rq_arrays old = {rq->order, rq->stack, rq->places};
	uint32_t *stack = av_seg_at(seg, with->stack, av_rq_stack_bytes(with->places));
	const uint32_t *old_stack = av_seg_at(seg, old.stack, av_rq_stack_bytes(old.places));

	memcpy(stack, old_stack, av_rq_stack_bytes(rq->stacked));
	for (uint32_t place = old.places; place < with->places; place++)
		stack[rq->stacked++] = place;
	order_move(seg, rq, with->order, with->places);
	rq->stack = with->stack;
	rq->places = with->places;
	*with = old;
}

int av_rq_set_capacity(struct av_seg *seg, struct av_rq_shared *rq, uint32_t capacity,
		       struct av_rq_arrays *with)
{
	uint32_t posted;
	int ret = 0;

	av_lock_acquire_plain(&rq->post_lock, AV_RANK_POST_RECV);
	reclaim(seg, rq);
	(void)lock_order(seg, rq);
	posted = atomic_load(&rq->tail) - atomic_load(&rq->freed);
	if (posted > capacity)
		ret = av_refuse(EINVAL, AV_CHECK_SRQ_HOLDS, posted, capacity);
	else if (av_srq_limit(rq) > capacity)
		ret = av_refuse(EINVAL, AV_CHECK_SRQ_LIMIT, av_srq_limit(rq), capacity);
	if (ret == 0 && with->places)
		swap_rq_arrays(seg, rq, with);
	if (ret == 0)
		rq->capacity = capacity;
	av_lock_release(&rq->take_lock);
	av_lock_release(&rq->post_lock);
	return ret;
}
