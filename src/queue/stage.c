/* SPDX-License-Identifier: MIT */
/* The stack of staging buffers. */
#include "queue/stage.h"

/* stage_free: count << 32 | link. */
static uint64_t head_word(uint64_t old, uint32_t link)
{
	return ((old >> 32) + 1) << 32 | link;
}

static uint32_t pop(struct av_seg_head *h)
{
	uint64_t old = atomic_load_explicit(&h->stage_free, memory_order_acquire);
	uint32_t link, next;

	do {
		link = (uint32_t)old;
		if (link == 0 || link > AV_STAGE_COUNT)
			break;
		next = atomic_load_explicit(&h->stage_next[link - 1], memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(&h->stage_free, &old, head_word(old, next),
							memory_order_acq_rel,
							memory_order_acquire));
	if (link && link <= AV_STAGE_COUNT)
		return link;
	link = atomic_load_explicit(&h->stage_fresh, memory_order_relaxed);
	while (link < AV_STAGE_COUNT)
		if (atomic_compare_exchange_weak(&h->stage_fresh, &link, link + 1))
			return link + 1;
	return 0;
}

static void push(struct av_seg_head *h, uint32_t link)
{
	uint64_t old = atomic_load_explicit(&h->stage_free, memory_order_relaxed);

	do
		atomic_store_explicit(&h->stage_next[link - 1], (uint32_t)old,
				      memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&h->stage_free, &old, head_word(old, link),
						      memory_order_acq_rel, memory_order_relaxed));
}

uint32_t av_stage_take(struct av_seg *seg, uint64_t bytes)
{
	uint32_t first = 0, link;

	if (bytes > (uint64_t)AV_STAGE_BYTES * AV_STAGE_COUNT)
		return 0;
	for (uint64_t got = 0; got < bytes; got += AV_STAGE_BYTES) {
		link = pop(seg->head);
		if (!link) {
			av_stage_give(seg, first, got);
			return 0;
		}
		atomic_store_explicit(&seg->head->stage_next[link - 1], first,
				      memory_order_relaxed);
		first = link;
	}
	return first;
}

void av_stage_give(struct av_seg *seg, uint32_t first, uint64_t bytes)
{
	uint64_t steps = (bytes + AV_STAGE_BYTES - 1) / AV_STAGE_BYTES;

	while (first && first <= AV_STAGE_COUNT && steps-- > 0) {
		uint32_t next = av_stage_next(seg, first);

		push(seg->head, first);
		first = next;
	}
}

void *av_stage_buffer(struct av_seg *seg, uint32_t link)
{
	if (link == 0 || link > AV_STAGE_COUNT)
		return NULL;
	return (uint8_t *)seg->head + AV_STAGE_OFFSET + (uint64_t)(link - 1) * AV_STAGE_BYTES;
}

uint32_t av_stage_next(struct av_seg *seg, uint32_t link)
{
	if (link == 0 || link > AV_STAGE_COUNT)
		return 0;
	return atomic_load_explicit(&seg->head->stage_next[link - 1], memory_order_relaxed);
}
