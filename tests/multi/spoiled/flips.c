/* SPDX-License-Identifier: MIT */
#include "spoiled/flips.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "lib/expect.h"
#include "lib/wait.h"
#include "memory/key.h"
#include "queue/cq.h"
#include "queue/qp.h"
#include "queue/rq.h"
#include "segment/segment.h"

#define OBJECTS	    8u /* of each table that are looked at */
#define KEY_ENTRIES 12u
#define HOT	    64u	   /* one in so many is of a hot word */
#define STAYS	    24u	   /* one in so many is not put back */
#define MOST	    65536u /* bytes of one part */

/* --- what is there ---------------------------------------------------------------- */

static uint8_t *find_segment(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t begin, offset, found = 0;
	char line[512];

	NEED(maps != NULL);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%*x %*s %" SCNx64, &begin, &offset) == 2 &&
		    offset == 0 && strstr(line, "/memfd:anyverbs-c"))
			found = begin;
	fclose(maps);
	NEED(found != 0);
	return (uint8_t *)(uintptr_t)found;
}

static const struct av_seg_head *head_of(const struct flips *f)
{
	return (const struct av_seg_head *)(const void *)f->segment;
}

static void add(struct flips *f, uint64_t at, uint64_t bytes, uint32_t weight)
{
	bytes = (bytes < MOST ? bytes : MOST) & ~7ull;
	if (bytes == 0 || at > AV_SEG_BYTES - bytes || f->parts == COUNT_OF(f->part))
		return;
	f->part[f->parts].at = at;
	f->part[f->parts].bytes = bytes;
	f->part[f->parts++].weight = weight;
	f->weight += weight;
}

static void add_hot(struct flips *f, const void *word)
{
	if (f->hots < COUNT_OF(f->hot))
		f->hot[f->hots++] = (uint64_t)((const uint8_t *)word - f->segment);
}

#define HEAD_PART(f, from, to, weight)             \
	add(f, offsetof(struct av_seg_head, from), \
	    offsetof(struct av_seg_head, to) - offsetof(struct av_seg_head, from), weight)

static void add_head(struct flips *f)
{
	HEAD_PART(f, magic, device, 10);
	HEAD_PART(f, device, pds, 3);
	add(f, offsetof(struct av_seg_head, pds), 64, 1);
	HEAD_PART(f, link_layer, bounce_free, 12);
	HEAD_PART(f, bounce_free, pin, 3);
	HEAD_PART(f, pin, chunk, 8);
	for (int slab = 0; slab < AV_SLAB_N; slab++)
		add(f, offsetof(struct av_seg_head, chunk[slab]), 16, 2);
	add(f, offsetof(struct av_seg_head, region_counts), 16, 1);
}

/* Object @index of a table. */
static void *object(const struct flips *f, enum av_slab slab, uint32_t index, uint32_t bytes)
{
	return f->segment + atomic_load(&head_of(f)->chunk[slab][0]) + index * bytes;
}

static uint64_t offset_of(const struct flips *f, const void *p)
{
	return (uint64_t)((const uint8_t *)p - f->segment);
}

static void add_keys(struct flips *f)
{
	for (uint32_t i = 1; i < KEY_ENTRIES; i++) {
		const struct av_key *k = object(f, AV_SLAB_KEY, i, AV_KEY_BYTES);

		if (!atomic_load(&k->held))
			continue;
		add(f, offset_of(f, k), sizeof(*k), 10);
		add_hot(f, &k->key);
		if (k->kind == AV_KEY_UMR)
			add(f, k->addr, 96, 10);
		else if (k->heap)
			add(f, (uint64_t)k->heap << AV_HEAP_PART_SHIFT, sizeof(struct av_heap_part),
			    6);
	}
}

static void add_cq(struct flips *f, uint32_t i)
{
	const struct av_cq_shared *cq = object(f, AV_SLAB_CQ, i, AV_CQ_BYTES);

	if (!atomic_load(&cq->id))
		return;
	add(f, offset_of(f, cq), sizeof(*cq), 20);
	add_hot(f, &cq->producer[0].lock);
	add_hot(f, &cq->producer[0].tail);
	add_hot(f, &cq->head);
	add_hot(f, &cq->coop.chunk);
	add_hot(f, &cq->coop.left);
	add(f, cq->ring[0], (cq->mask[0] + 1ull) * sizeof(struct av_cqe), 8);
}

static void add_rq(struct flips *f, uint32_t i)
{
	const struct av_rq_shared *rq = object(f, AV_SLAB_RQ, i, AV_RQ_BYTES);

	if (!rq->ring)
		return;
	add(f, offset_of(f, rq), sizeof(*rq), 12);
	add_hot(f, &rq->take_lock);
	add_hot(f, &rq->head);
	add_hot(f, &rq->tail);
	add(f, rq->ring, (rq->mask + 1ull) * rq->stride, 6);
	if (atomic_load(&rq->id)) {
		add(f, rq->order, (rq->order_mask + 1ull) * sizeof(uint32_t), 3);
		add(f, rq->stack, rq->places * sizeof(uint32_t), 2);
	}
}

static void add_qp(struct flips *f, uint32_t i)
{
	const struct av_qp_shared *qp = object(f, AV_SLAB_QP, i, AV_QP_BYTES);

	if (!atomic_load(&qp->qpn))
		return;
	add(f, offset_of(f, qp), offsetof(struct av_qp_shared, counters), 20);
	add_hot(f, &qp->resp_lock);
	add_hot(f, &qp->sq_next);
	add_hot(f, &qp->sq_tail);
	add_hot(f, &qp->state);
	add_hot(f, &qp->receiving);
	add(f, qp->sq_ring, (qp->sq_mask + 1ull) * qp->sq_stride, 8);
}

void flips_begin(struct flips *f, uint64_t seed)
{
	const struct av_seg_head *head;

	memset(f, 0, sizeof(*f));
	f->chance.state = seed;
	f->segment = find_segment();
	head = head_of(f);
	NEED(head->magic == AV_SEG_MAGIC && head->proc && head->ref);
	add_head(f);
	add_keys(f);
	for (uint32_t i = 1; i < OBJECTS; i++) {
		add_cq(f, i);
		add_rq(f, i);
		add_qp(f, i);
	}
	add(f, AV_ODP_OFFSET, MOST, 8);
	add_hot(f, &head->moving);
}

void flips_identity(uint64_t value[3])
{
	const struct av_seg_head *head = (const struct av_seg_head *)(const void *)find_segment();

	value[0] = head->proc;
	value[1] = (uint64_t)head->pid;
	value[2] = head->ref;
}

void flips_know(struct flips *f, const uint64_t value[3])
{
	flips_identity(f->value);
	memcpy(f->value + 3, value, 3 * sizeof(value[0]));
	f->value[6] = 1u << 31;
	f->value[7] = UINT32_MAX;
}

/* --- one of them ------------------------------------------------------------------ */

static uint64_t load(const uint8_t *at, uint32_t width)
{
	uint64_t word = 0;

	memcpy(&word, at, width);
	return word;
}

/* Each store is one instruction, as those of a process that means what it writes. */
static void store(uint8_t *at, uint32_t width, uint64_t word)
{
	switch (width) {
	case 1:
		__atomic_store_n(at, (uint8_t)word, __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_store_n((uint16_t *)(void *)at, (uint16_t)word, __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_store_n((uint32_t *)(void *)at, (uint32_t)word, __ATOMIC_RELAXED);
		break;
	default:
		__atomic_store_n((uint64_t *)(void *)at, word, __ATOMIC_RELAXED);
	}
}

static uint8_t *some_word(struct flips *f, uint32_t width)
{
	uint64_t at = rnd(&f->chance, f->weight);
	uint32_t i = 0;

	while (at >= f->part[i].weight)
		at -= f->part[i++].weight;
	return f->segment + f->part[i].at + rnd(&f->chance, f->part[i].bytes / width) * width;
}

static uint64_t some_value(struct flips *f, uint64_t old, uint32_t width)
{
	struct chance *c = &f->chance;

	switch (rnd(c, 8)) {
	case 0:
		return rnd(c, 0);
	case 1:
		return one_in(c, 2) ? 0 : UINT64_MAX;
	case 2:
		return old + 1;
	case 3:
		return old - 1;
	case 4:
		return load(some_word(f, width), width);
	case 5:
		return f->value[rnd(c, FLIPS_VALUES)];
	case 6:
		return rnd(c, 64);
	default:
		return old ^ 1ull << rnd(c, 8ull * width);
	}
}

/* A closed or failed context is the end of all traffic with it: rarely. */
static bool ends_it_all(const struct flips *f, const uint8_t *at)
{
	uint64_t offset = offset_of(f, at), closed = offsetof(struct av_seg_head, closed);

	return offset >= (closed & ~7ull) && offset < offsetof(struct av_seg_head, device);
}

static void moment(struct chance *c)
{
	unsigned int us = one_in(c, 16) ? 3000 : 50;

	if (one_in(c, 64))
		let_go_on(us);
	else
		for (uint64_t i = rnd(c, 300); i > 0; i--)
			av_pause();
}

/* A lock of somebody who does not hold it, a position far from the other one: for a while. */
static void flip_hot(struct flips *f)
{
	uint8_t *at = f->segment + f->hot[rnd(&f->chance, f->hots)];
	uint64_t old = load(at, 4), word = f->value[rnd(&f->chance, FLIPS_VALUES)];

	if (one_in(&f->chance, 3))
		word = some_value(f, old, 4);
	store(at, 4, word);
	if (one_in(&f->chance, 4))
		return;
	moment(&f->chance);
	if (load(at, 4) == (uint32_t)word)
		store(at, 4, old);
}

void flips_one(struct flips *f)
{
	static const uint32_t widths[] = {1, 2, 4, 4, 4, 8, 8, 8};
	uint32_t width = widths[rnd(&f->chance, COUNT_OF(widths))];
	uint8_t *at = some_word(f, width);
	uint64_t old = load(at, width), word = some_value(f, old, width);

	if (one_in(&f->chance, HOT)) {
		flip_hot(f);
		return;
	}
	if (ends_it_all(f, at) && !one_in(&f->chance, 1000))
		return;
	store(at, width, word);
	moment(&f->chance);
	/* What somebody has stored meanwhile stays. */
	if (load(at, width) == (width == 8 ? word : word & ((1ull << 8 * width) - 1)) &&
	    !one_in(&f->chance, STAYS))
		store(at, width, old);
}
