/* SPDX-License-Identifier: MIT */
/* Memory of rings, of receive queues and of what waits for a poll. */
#include "queue/rq.h"

#include <string.h>

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

/* --- slots, and the arrays of a shared queue ------------------------------------------ */

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
	rq->stack = av_seg_alloc(seg, av_rq_stack_bytes(rq->places));
	return rq->order && rq->stack;
}

/* Allocate the two arrays of a shared queue. */
static bool init_sharing(struct av_seg *seg, struct av_rq_shared *rq)
{
	uint32_t *stack;

	if (!alloc_sharing(seg, rq))
		return false;
	stack = av_seg_at(seg, rq->stack, av_rq_stack_bytes(rq->places));
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
	rq->stride = (uint32_t)(av_rq_payload_at(rq->max_sge) + av_round_up(rq->inline_bytes, 32));
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
	av_seg_free(seg, rq->stack, av_rq_stack_bytes(rq->places));
	av_slab_free(seg, AV_SLAB_RQ, index);
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

int av_rq_resize(struct av_seg *seg, struct av_rq_shared *rq, uint32_t capacity)
{
	struct av_rq_arrays with = {0};
	int ret = 0;

	if (capacity > rq->places) {
		with.places = add_runs(seg, rq, capacity);
		with.order = with.places ? av_seg_alloc(seg, av_rq_order_bytes(with.places)) : 0;
		with.stack = with.order ? av_seg_alloc(seg, av_rq_stack_bytes(with.places)) : 0;
		if (!with.stack)
			ret = ENOMEM;
	}
	if (ret == 0)
		ret = av_rq_set_capacity(seg, rq, capacity, &with);
	av_seg_free(seg, with.order, av_rq_order_bytes(with.places));
	av_seg_free(seg, with.stack, av_rq_stack_bytes(with.places));
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
