/* SPDX-License-Identifier: MIT */
#include "queue/rq.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "observe/check.h"

/* --- memory of rings ----------------------------------------------------------------- */

uint64_t av_ring_alloc(struct av_seg *seg, uint64_t bytes, const struct av_page_policy *policy)
{
	struct av_page_plan plan = {.pages = false};
	struct av_page_block block;
	int saved = errno;

	/* Of regions, ALL takes what is most efficient: av_page_plan(). */
	if (policy && policy->type == AV_ALLOC_ALL) {
		if (av_pages_alloc(seg, bytes, AV_PAGES_HUGE, &block) == 0)
			return block.at;
		errno = saved;
	}
	if (policy)
		plan = av_page_plan(policy);
	if (plan.never && plan.or_fail)
		goto none;
	if (!plan.pages || plan.never || (plan.wish != AV_PAGES_HUGE && bytes < AV_HUGE_PAGE_BYTES))
		return av_seg_alloc(seg, bytes);
	if (av_pages_alloc(seg, bytes, plan.wish, &block) == 0)
		return block.at;
	if (!plan.or_fail)
		return av_seg_alloc(seg, bytes);
none:
	errno = ENOMEM;
	return 0;
}

/* --- the ring of receive requests ---------------------------------------------------- */

static bool is_shared(const struct av_rq_shared *rq)
{
	return atomic_load_explicit(&rq->id, memory_order_relaxed) != 0;
}

static uint64_t payload_at(uint32_t max_sge)
{
	return av_round_up(sizeof(struct av_rq_wqe) + (uint64_t)max_sge * sizeof(struct ibv_sge),
			   32);
}

static uint32_t compute_rq_stride(const struct av_rq_shared *rq)
{
	return (uint32_t)(payload_at(rq->max_sge) + av_round_up(rq->inline_bytes, 32));
}

static uint64_t index_bytes(uint32_t entries)
{
	return (uint64_t)entries * sizeof(uint32_t);
}

static uint64_t rq_ring_bytes(const struct av_rq_shared *rq, uint64_t slots)
{
	return slots * rq->stride;
}

/* Slots of the ring: all slots of a queue that was never enlarged. */
static uint32_t first_slots(const struct av_rq_shared *rq)
{
	return rq->mask + 1;
}

static uint64_t run_bytes(const struct av_rq_shared *rq, unsigned int run)
{
	return rq_ring_bytes(rq, (uint64_t)first_slots(rq) << run);
}

static bool alloc_sharing(struct av_seg *seg, struct av_rq_shared *rq)
{
	rq->places = first_slots(rq);
	rq->order_mask = AV_RQ_ORDER_ENTRIES(rq->places) - 1;
	rq->order = av_seg_alloc(seg, av_rq_order_bytes(rq->places));
	rq->stack = av_seg_alloc(seg, index_bytes(rq->places));
	return rq->order && rq->stack;
}

/* Allocate the two arrays of a shared queue. */
static bool init_sharing(struct av_seg *seg, struct av_rq_shared *rq)
{
	uint32_t *stack;

	if (!alloc_sharing(seg, rq))
		return false;
	stack = av_seg_at(seg, rq->stack, index_bytes(rq->places));
	for (rq->stacked = 0; rq->stacked < rq->places; rq->stacked++)
		stack[rq->stacked] = rq->stacked;
	return true;
}

uint32_t av_rq_init(struct av_seg *seg, const struct av_rq_request *req)
{
	uint32_t index = av_slab_alloc(seg, AV_SLAB_RQ, AV_MAX_QP + AV_MAX_SRQ);
	struct av_rq_shared *rq = index ? av_rq_at(seg, index) : NULL;

	if (!rq)
		return 0;
	memset(rq, 0, sizeof(*rq));
	rq->index = index;
	rq->capacity = req->capacity;
	rq->mask = av_ring_entries(req->capacity) - 1;
	rq->max_sge = req->max_sge;
	rq->inline_bytes = req->inline_bytes;
	rq->stride = compute_rq_stride(rq);
	rq->pd = req->pd;
	rq->xrcd = req->xrcd;
	rq->cq = req->cq;
	rq->ring = av_ring_alloc(seg, rq_ring_bytes(rq, first_slots(rq)), req->policy);
	if (!rq->ring || (req->id && !init_sharing(seg, rq))) {
		av_rq_fini(seg, index);
		errno = ENOMEM;
		return 0;
	}
	atomic_store_explicit(&rq->id, req->id, memory_order_release);
	return index;
}

void av_rq_fini(struct av_seg *seg, uint32_t index)
{
	struct av_rq_shared *rq = av_rq_at(seg, index);

	atomic_store(&rq->id, 0);
	av_seg_free(seg, rq->ring, rq_ring_bytes(rq, first_slots(rq)));
	for (unsigned int i = 0; i < AV_RQ_RUNS; i++)
		av_seg_free(seg, atomic_load(&rq->more[i]), run_bytes(rq, i));
	av_seg_free(seg, rq->order, av_rq_order_bytes(rq->places));
	av_seg_free(seg, rq->stack, index_bytes(rq->places));
	av_slab_free(seg, AV_SLAB_RQ, index);
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

/* --- free slots ------------------------------------------------------------------ */

/* Free a slot of a shared queue. Context: post_lock is held. */
static void free_place(struct av_seg *seg, struct av_rq_shared *rq, uint32_t place)
{
	uint32_t *stack = av_seg_at(seg, rq->stack, index_bytes(rq->places));
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
	stack = av_seg_at(seg, rq->stack, index_bytes(rq->places));
	if (av_unlikely(!stack || rq->stacked - 1 >= rq->places))
		return UINT32_MAX; /* the stack is unsound */
	place = stack[--rq->stacked];
	return av_rq_order_add(seg, rq, number, place) ? place : UINT32_MAX;
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
			av_rq_order_publish(to, tail);
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

	return wqe && max_sge <= AV_MAX_SGE ? (uint8_t *)wqe + payload_at(max_sge) : NULL;
}

const struct av_rq_wqe *av_rq_take(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
				   uint32_t *receiving)
{
	const struct av_rq_wqe *wqe;
	uint32_t head;

	if (is_shared(rq))
		return av_rq_order_take(seg, rq, qpn, receiving);
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
		av_rq_order_put_back(seg, rq, qpn, place);
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
		av_rq_order_repair(seg, rq, qpn, place);
	else if (av_rq_taken(rq) == place + 1 && (int32_t)(atomic_load(&rq->freed) - place) <= 0)
		av_rq_untake(seg, rq, qpn, place);
}

/* --- resizing -------------------------------------------------------------------- */

/* Add runs of slots until there are @wanted. Nobody uses them yet. Return: how many; 0: ENOMEM */
static uint32_t add_runs(struct av_seg *seg, struct av_rq_shared *rq, uint32_t wanted)
{
	uint32_t places = rq->places;

	while (places < wanted) {
		unsigned int run = 31 - (unsigned int)__builtin_clz(places / first_slots(rq));
		uint64_t slots = atomic_load(&rq->more[run]);

		if (!slots) /* otherwise an earlier call made it, and then ran out of memory */
			slots = av_seg_alloc(seg, run_bytes(rq, run));
		if (!slots)
			return 0;
		atomic_store_explicit(&rq->more[run], slots, memory_order_release);
		places *= 2;
	}
	return places;
}

struct arrays {
	uint64_t order, stack;
	uint32_t places;
};

/* Replace the arrays by the larger ones @with, which gets the old ones. Both locks are held. */
static void swap_rq_arrays(struct av_seg *seg, struct av_rq_shared *rq, struct arrays *with)
{
	const struct arrays old = {rq->order, rq->stack, rq->places};
	uint32_t *stack = av_seg_at(seg, with->stack, index_bytes(with->places));
	const uint32_t *old_stack = av_seg_at(seg, old.stack, index_bytes(old.places));

	memcpy(stack, old_stack, index_bytes(rq->stacked));
	for (uint32_t place = old.places; place < with->places; place++)
		stack[rq->stacked++] = place;
	av_rq_order_move(seg, rq, with->order, with->places);
	rq->stack = with->stack;
	rq->places = with->places;
	*with = old;
}

static int set_capacity(struct av_seg *seg, struct av_rq_shared *rq, uint32_t capacity,
			struct arrays *with)
{
	uint32_t posted;
	int ret = 0;

	av_lock_acquire_plain(&rq->post_lock, AV_RANK_POST_RECV);
	reclaim(seg, rq);
	av_rq_order_lock(seg, rq);
	posted = atomic_load(&rq->tail) - atomic_load(&rq->freed);
	if (posted > capacity)
		ret = av_refuse(EINVAL, AV_CHECK_SRQ_HOLDS, posted, capacity);
	else if (av_srq_limit(rq) > capacity)
		ret = av_refuse(EINVAL, AV_CHECK_SRQ_LIMIT, av_srq_limit(rq), capacity);
	if (ret == 0 && with->places)
		swap_rq_arrays(seg, rq, with);
	if (ret == 0)
		rq->capacity = capacity;
	av_rq_order_unlock(rq);
	av_lock_release(&rq->post_lock);
	return ret;
}

int av_rq_resize(struct av_seg *seg, struct av_rq_shared *rq, uint32_t capacity)
{
	struct arrays with = {0};
	int ret = 0;

	if (capacity > rq->places) {
		with.places = add_runs(seg, rq, capacity);
		with.order = with.places ? av_seg_alloc(seg, av_rq_order_bytes(with.places)) : 0;
		with.stack = with.order ? av_seg_alloc(seg, index_bytes(with.places)) : 0;
		if (!with.stack)
			ret = ENOMEM;
	}
	if (ret == 0)
		ret = set_capacity(seg, rq, capacity, &with);
	av_seg_free(seg, with.order, av_rq_order_bytes(with.places));
	av_seg_free(seg, with.stack, index_bytes(with.places));
	return ret;
}

/* --- bounce buffers: their stack ----------------------------------------------------- */

/* bounce_free: count << 32 | link. */
static uint32_t pop(struct av_seg_head *h)
{
	uint64_t old = atomic_load_explicit(&h->bounce_free, memory_order_acquire), next;
	uint32_t link;

	do {
		link = (uint32_t)old;
		if (link == 0 || link > AV_BOUNCE_COUNT)
			break;
		next = ((old >> 32) + 1) << 32 |
		       atomic_load_explicit(&h->bounce_next[link - 1], memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(
		&h->bounce_free, &old, next, memory_order_acq_rel, memory_order_acquire));
	if (link && link <= AV_BOUNCE_COUNT)
		return link;
	link = atomic_load_explicit(&h->bounce_fresh, memory_order_relaxed);
	while (link < AV_BOUNCE_COUNT)
		if (atomic_compare_exchange_weak(&h->bounce_fresh, &link, link + 1))
			return link + 1;
	return 0;
}

static void push(struct av_seg_head *h, uint32_t link)
{
	uint64_t old = atomic_load_explicit(&h->bounce_free, memory_order_relaxed);

	do
		atomic_store_explicit(&h->bounce_next[link - 1], (uint32_t)old,
				      memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&h->bounce_free, &old,
						      ((old >> 32) + 1) << 32 | link,
						      memory_order_acq_rel, memory_order_relaxed));
}

uint32_t av_bounce_take(struct av_seg *seg, uint64_t bytes)
{
	uint32_t first = 0, link;

	if (bytes > (uint64_t)AV_BOUNCE_BYTES * AV_BOUNCE_COUNT)
		return 0;
	for (uint64_t got = 0; got < bytes; got += AV_BOUNCE_BYTES) {
		link = pop(seg->head);
		if (!link) {
			av_bounce_give(seg, first, got);
			return 0;
		}
		atomic_store_explicit(&seg->head->bounce_next[link - 1], first,
				      memory_order_relaxed);
		first = link;
	}
	return first;
}

void av_bounce_give(struct av_seg *seg, uint32_t first, uint64_t bytes)
{
	uint64_t steps = (bytes + AV_BOUNCE_BYTES - 1) / AV_BOUNCE_BYTES;

	while (first && first <= AV_BOUNCE_COUNT && steps-- > 0) {
		uint32_t next = av_bounce_next(seg, first);

		push(seg->head, first);
		first = next;
	}
}

void *av_bounce_buffer(struct av_seg *seg, uint32_t link)
{
	if (link == 0 || link > AV_BOUNCE_COUNT)
		return NULL;
	return (uint8_t *)seg->head + AV_BOUNCE_OFFSET + (uint64_t)(link - 1) * AV_BOUNCE_BYTES;
}

uint32_t av_bounce_next(struct av_seg *seg, uint32_t link)
{
	if (link == 0 || link > AV_BOUNCE_COUNT)
		return 0;
	return atomic_load_explicit(&seg->head->bounce_next[link - 1], memory_order_relaxed);
}
