/* SPDX-License-Identifier: MIT */
/*
 * Small blocks come from free lists, in four sizes per power of two, or from the growing end of the
 * heap. Whole pages come from a sorted list at the heap's end, first fit. All book-keeping is in
 * private memory of the owner, so that peers cannot damage it.
 */
#include "segment/pages.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <strings.h>
#include <sys/mman.h>

#include "base/real_calls.h"
#include "base/thread.h"
#include "observe/freedom.h"
#include "registry/tables.h"
#include "segment/observers.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define CLASS_N	       108	    /* up to 16 GiB */
#define BACK_STEP      (256u << 10) /* the file is backed in steps of this size */
#define PUNCH_MIN      (64u << 10)  /* freed blocks from this size on give back their pages */
#define REUSE_AFTER    256	    /* freed indices rest until this many are free */
#define COLLAPSE_TRIES 4	    /* for EAGAIN and EBUSY: others are looking at a page */

struct offsets {
	uint64_t *at;
	uint32_t count, room;
};

struct indices {
	uint32_t *ring; /* the freed ones, oldest first */
	uint32_t head, count, room;
	uint32_t fresh;	 /* lowest index never used */
	uint32_t issued; /* number of indices ever used */
	uint32_t used;
};

enum state { FREE, USED, DEFERRED };

/* Whole pages. */
struct block {
	uint64_t at, bytes;
	enum state state;
};

struct av_heap {
	pthread_mutex_t mutex;
	uint64_t begin, brk, backed;
	_Atomic uint64_t end; /* whole pages begin here */
	struct offsets free[CLASS_N];
	struct indices slab[AV_SLAB_N];
	struct block *list; /* sorted, without gaps: from @end to the end at the beginning */
	uint32_t count, room;
	_Atomic uint32_t deferred;
};

static const struct {
	uint32_t bytes, per_chunk;
} slab_shape[AV_SLAB_N] = {
	[AV_SLAB_KEY] = {AV_KEY_BYTES, AV_KEY_CHUNK},
	[AV_SLAB_CQ] = {AV_CQ_BYTES, AV_OBJ_CHUNK},
	[AV_SLAB_RQ] = {AV_RQ_BYTES, AV_RQ_CHUNK},
	[AV_SLAB_QP] = {AV_QP_BYTES, AV_OBJ_CHUNK},
};

bool av_heap_create(struct av_seg *seg, uint64_t begin, uint64_t end, uint32_t first_key)
{
	struct av_heap *heap = calloc(1, sizeof(*heap));

	if (!heap)
		return false;
	pthread_mutex_init(&heap->mutex, NULL);
	heap->begin = heap->brk = heap->backed = av_round_up(begin, AV_PAGE_BYTES);
	heap->end = end;
	for (int i = 0; i < AV_SLAB_N; i++)
		heap->slab[i].fresh = i == AV_SLAB_KEY ? first_key : 1;
	seg->heap = heap;
	return true;
}

void av_heap_destroy(struct av_seg *seg)
{
	struct av_heap *heap = seg->heap;

	if (!heap)
		return;
	for (int i = 0; i < CLASS_N; i++)
		free(heap->free[i].at);
	for (int i = 0; i < AV_SLAB_N; i++)
		free(heap->slab[i].ring);
	free(heap->list);
	pthread_mutex_destroy(&heap->mutex);
	free(heap);
}

static bool back(const struct av_seg *seg, uint64_t at, uint64_t bytes)
{
	return av_file_back(av_own_fd(&seg->file), at, bytes) == 0;
}

/* Give back the memory. The range reads as zeros afterwards. */
static void punch_segment(const struct av_seg *seg, uint64_t at, uint64_t bytes)
{
	if (fallocate(av_own_fd(&seg->file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
		      (off_t)bytes))
		(void)!av_madvise((uint8_t *)seg->head + at, bytes, MADV_REMOVE);
}

/* Does a fault on demand refuse the next allocation? Keeps errno. */
static bool is_alloc_refused(struct av_seg *seg)
{
	struct av_faults *f = av_faults_observed(seg) && seg->own ? av_faults_of(seg) : NULL;
	struct av_faults_occasion o = {.kind = AV_FAULTS_VERB, .verb = AV_VERB_MEMORY};
	struct av_faults_struck struck = {.next = 0};
	bool refused = false;

	o.now_ns = f ? av_now_ns() : 0;
	while (av_faults_strike(f, &o, &struck))
		refused = true;
	return refused;
}

/* --- blocks ---------------------------------------------------------------------- */

/* 64, 128, 192, 256, then four to each power of two: a ring wastes at most a fifth. */
static unsigned int class_of(uint64_t size)
{
	unsigned int shift;

	if (size <= 256)
		return size <= 64 ? 0 : (unsigned int)((size - 1) / 64);
	shift = 63 - (unsigned int)__builtin_clzll(size - 1); /* 2^shift < size <= 2^(shift + 1) */
	return 4 * (shift - 7) + (unsigned int)((size - 1 - (1ull << shift)) >> (shift - 2));
}

static uint64_t class_bytes(unsigned int class)
{
	return class < 4 ? 64ull * (class + 1) : (64ull << (class / 4 - 1)) * (5 + class % 4);
}

/* The largest power of two that divides @size, at most a page. */
static uint64_t alignment_of(uint64_t size)
{
	uint64_t lowest = size & -size;

	return lowest < AV_PAGE_BYTES ? lowest : AV_PAGE_BYTES;
}

/* Return: offset, or 0. */
static uint64_t extend_heap_break(const struct av_seg *seg, uint64_t size)
{
	struct av_heap *heap = seg->heap;
	uint64_t at = av_round_up(heap->brk, alignment_of(size));
	uint64_t want = av_round_up(at + size, BACK_STEP);

	if (!av_range_within(at, size, 0, heap->end))
		return 0;
	if (at + size > heap->backed) {
		want = want < heap->end ? want : heap->end;
		if (!back(seg, heap->backed, want - heap->backed))
			return 0;
		heap->backed = want;
	}
	heap->brk = at + size;
	return at;
}

/* The same. Context: the mutex is held */
static uint64_t alloc_class_block(const struct av_seg *seg, unsigned int class)
{
	struct offsets *list = &seg->heap->free[class];
	uint64_t at;

	if (!list->count)
		return extend_heap_break(seg, class_bytes(class));
	at = list->at[list->count - 1];
	if (class_bytes(class) >= PUNCH_MIN && !back(seg, at, class_bytes(class)))
		return 0;
	list->count--;
	return at;
}

uint64_t av_seg_alloc(struct av_seg *seg, uint64_t size)
{
	unsigned int class = class_of(size);
	uint64_t at = 0;

	if (class < CLASS_N && !is_alloc_refused(seg)) {
		AV_LOCKED(&seg->heap->mutex);
		at = alloc_class_block(seg, class);
	}
	if (at)
		memset((uint8_t *)seg->head + at, 0, size);
	else
		errno = ENOMEM;
	return at;
}

static void give(struct av_heap *heap, unsigned int class, uint64_t at)
{
	struct offsets *list = &heap->free[class];
	uint64_t *grown;

	if (list->count == list->room) {
		grown = realloc(list->at, (list->room * 2 + 16) * sizeof(*grown));
		if (!grown)
			return; /* the block is lost until the context is closed */
		list->at = grown;
		list->room = list->room * 2 + 16;
	}
	list->at[list->count++] = at;
}

/* Can there be such a block? What is freed stands in the segment: a peer may have written it. */
static bool is_heap_block(struct av_heap *heap, unsigned int class, uint64_t offset)
{
	AV_LOCKED(&heap->mutex);
	return class < CLASS_N && offset % 64 == 0 &&
	       av_range_within(offset, class_bytes(class), heap->begin, heap->brk - heap->begin);
}

void av_seg_free(struct av_seg *seg, uint64_t offset, uint64_t size)
{
	struct av_heap *heap = seg->heap;
	unsigned int class = class_of(size);

	if (offset && av_pages_owns(seg, offset)) {
		av_pages_free(seg, offset);
	} else if (is_heap_block(heap, class, offset)) {
		if (class_bytes(class) >= PUNCH_MIN)
			punch_segment(seg, offset, class_bytes(class));
		AV_LOCKED(&heap->mutex);
		give(heap, class, offset);
	}
}

/* --- indices of the object tables ------------------------------------------------ */

/* Make room in the ring for all indices handed out: freeing one must not need memory. */
static bool reserve_index_ring(struct indices *s)
{
	uint32_t room, i;
	uint32_t *ring;

	if (s->issued < s->room)
		return true;
	room = s->room * 2 + 64;
	ring = calloc(room, sizeof(*ring));
	if (!ring)
		return false;
	for (i = 0; i < s->count; i++)
		ring[i] = s->ring[(s->head + i) % s->room];
	free(s->ring);
	s->ring = ring;
	s->head = 0;
	s->room = room;
	return true;
}

/* A chunk that outlives the process. Return: offset, or 0 */
static uint64_t chunk_of_tables(const struct av_seg *seg, enum av_slab slab, uint32_t n,
				uint64_t bytes)
{
	struct av_tables *t = av_tables_of(seg->head);
	uint8_t *chunk = slab == AV_SLAB_QP ? t->qp[n][0] : t->cq[n][0];
	int tables = av_own_fd(&seg->tables);
	int ret = av_file_back(tables, (uint64_t)(chunk - (uint8_t *)t), bytes);

	if (ret == -ENOSPC)
		av_folder_full(tables, bytes, ENOMEM);
	if (ret)
		return 0;
	atomic_store(slab == AV_SLAB_QP ? &t->qp_chunks : &t->cq_chunks, n + 1);
	return (uint64_t)(chunk - (uint8_t *)seg->head);
}

static bool have_chunk(const struct av_seg *seg, enum av_slab slab, uint32_t index)
{
	uint32_t n = index / slab_shape[slab].per_chunk;
	uint64_t bytes = (uint64_t)slab_shape[slab].bytes * slab_shape[slab].per_chunk;
	uint64_t at;

	if (n >= AV_SLAB_CHUNKS)
		return false;
	if (atomic_load_explicit(&seg->head->chunk[slab][n], memory_order_relaxed))
		return true;
	if (slab == AV_SLAB_QP || slab == AV_SLAB_CQ)
		at = chunk_of_tables(seg, slab, n, bytes);
	else
		at = alloc_class_block(seg, class_of(bytes));
	if (!at)
		return false;
	/* A reused block, or the file system cannot punch holes. */
	memset((uint8_t *)seg->head + at, 0, bytes);
	atomic_store_explicit(&seg->head->chunk[slab][n], at, memory_order_release);
	return true;
}

static uint32_t pop_oldest(struct indices *s)
{
	uint32_t index = s->ring[s->head];

	s->head = (s->head + 1) % s->room;
	s->count--;
	return index;
}

/* A strict device gives the numbers of dead keys again as soon as it can. */
static uint32_t rest_of(const struct av_seg *seg, enum av_slab slab)
{
	bool soon = slab == AV_SLAB_KEY && seg->head->strict & AV_FREEDOM_BIT(AV_FREEDOM_KEYS);

	return soon ? 0 : REUSE_AFTER;
}

uint32_t av_slab_alloc(struct av_seg *seg, enum av_slab slab, uint32_t limit)
{
	struct indices *s = &seg->heap->slab[slab];
	uint32_t index = 0;

	AV_LOCKED(&seg->heap->mutex);
	if (s->used < limit) {
		if (s->count <= rest_of(seg, slab) && reserve_index_ring(s) &&
		    have_chunk(seg, slab, s->fresh))
			index = s->fresh++, s->issued++;
		else if (s->count)
			index = pop_oldest(s);
	}
	s->used += index != 0;
	if (!index)
		errno = ENOMEM;
	return index;
}

void av_slab_free(struct av_seg *seg, enum av_slab slab, uint32_t index)
{
	struct indices *s = &seg->heap->slab[slab];

	AV_LOCKED(&seg->heap->mutex);
	s->ring[(s->head + s->count) % s->room] = index;
	s->count++;
	s->used--;
}

/* --- the list of whole pages; the mutex is held ---------------------------------- */

static bool reserve_block_list(struct av_heap *heap, uint32_t more)
{
	uint32_t room = heap->room * 2 + 16;
	struct block *list;

	if (heap->room - heap->count >= more)
		return true;
	list = realloc(heap->list, room * sizeof(*list));
	if (!list)
		return false;
	heap->list = list;
	heap->room = room;
	return true;
}

static void insert(struct av_heap *heap, uint32_t i, struct block block)
{
	memmove(&heap->list[i + 1], &heap->list[i], (heap->count - i) * sizeof(block));
	heap->list[i] = block;
	heap->count++;
}

static void erase(struct av_heap *heap, uint32_t i)
{
	heap->count--;
	memmove(&heap->list[i], &heap->list[i + 1], (heap->count - i) * sizeof(*heap->list));
}

static struct block *find_page_block(struct av_heap *heap, uint64_t at)
{
	uint32_t low = 0, high = heap->count;

	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (heap->list[mid].at <= at)
			low = mid;
		else
			high = mid;
	}
	return heap->count && heap->list[low].at == at ? &heap->list[low] : NULL;
}

static void release_page_block(struct av_heap *heap, struct block *b)
{
	uint32_t i = (uint32_t)(b - heap->list);

	b->state = FREE;
	if (i + 1 < heap->count && b[1].state == FREE) {
		b->bytes += b[1].bytes;
		erase(heap, i + 1);
	}
	if (i > 0 && b[-1].state == FREE) {
		b[-1].bytes += b->bytes;
		erase(heap, i);
	}
}

/* Cut [at, at + bytes) out of free block @i. The list has room for two more. */
static void carve(struct av_heap *heap, uint32_t i, uint64_t at, uint64_t bytes)
{
	struct block whole = heap->list[i];
	uint64_t before = at - whole.at, behind = whole.bytes - before - bytes;

	heap->list[i] = (struct block){at, bytes, USED};
	if (behind)
		insert(heap, i + 1, (struct block){at + bytes, behind, FREE});
	if (before)
		insert(heap, i, (struct block){whole.at, before, FREE});
}

static uint64_t first_fit(struct av_heap *heap, uint64_t bytes, uint64_t align)
{
	for (uint32_t i = 0; i < heap->count; i++) {
		const struct block *b = &heap->list[i];
		uint64_t at = av_round_up(b->at, align);

		if (b->state == FREE && av_range_within(at, bytes, b->at, b->bytes)) {
			carve(heap, i, at, bytes);
			return at;
		}
	}
	return 0;
}

/* Take more room from the end of the heap, for ever. The list has room for one more. */
static bool extend_page_room(struct av_heap *heap, uint64_t bytes)
{
	uint64_t end = heap->end, at;

	bytes = av_round_up(bytes, AV_HUGE_PAGE_BYTES);
	at = bytes <= end ? (end - bytes) & ~(uint64_t)(AV_HUGE_PAGE_BYTES - 1) : 0;
	if (at < heap->backed)
		return false;
	insert(heap, 0, (struct block){at, end - at, USED});
	release_page_block(heap, &heap->list[0]);
	heap->end = at;
	return true;
}

static uint64_t alloc_page_block(struct av_heap *heap, uint64_t bytes, uint64_t align)
{
	uint64_t at = 0;

	AV_LOCKED(&heap->mutex);
	if (reserve_block_list(heap, 3)) {
		at = first_fit(heap, bytes, align);
		if (!at && extend_page_room(heap, bytes))
			at = first_fit(heap, bytes, align);
	}
	return at;
}

/* --- whole pages ----------------------------------------------------------------- */

bool av_pages_owns(const struct av_seg *seg, uint64_t at)
{
	return at >= atomic_load(&seg->heap->end);
}

static int collapse(void *addr, uint64_t bytes)
{
	for (int i = 0; i < COLLAPSE_TRIES; i++) {
		if (av_madvise(addr, bytes, MADV_COLLAPSE) == 0)
			return 0;
		if (errno != EAGAIN && errno != EBUSY)
			break;
	}
	return ENOMEM;
}

/* A hole cannot be collapsed, but one page in it is enough. */
static bool seed_huge_pages(const struct av_seg *seg, uint64_t at, uint64_t end)
{
	for (; at < end; at += AV_HUGE_PAGE_BYTES)
		if (!back(seg, at, AV_PAGE_BYTES))
			return false;
	return true;
}

/* @all: give up at the first that fails. Return: how many have been made. */
static uint64_t make_huge(const struct av_seg *seg, const struct av_page_block *block, bool all)
{
	uint64_t at = av_round_up(block->at, AV_HUGE_PAGE_BYTES), end = block->at + block->bytes;
	uint64_t whole = end > at ? (end - at) / AV_HUGE_PAGE_BYTES : 0, done = 0;
	uint8_t *begin = (uint8_t *)seg->head + at;

	if (whole == 0 || !seed_huge_pages(seg, at, at + whole * AV_HUGE_PAGE_BYTES))
		return 0;
	if (collapse(begin, whole * AV_HUGE_PAGE_BYTES) == 0)
		return whole;
	for (uint64_t i = 0; i < whole; i++) {
		if (collapse(begin + i * AV_HUGE_PAGE_BYTES, AV_HUGE_PAGE_BYTES) == 0)
			done++;
		else if (all)
			break;
	}
	return done;
}

static bool back_page_block(const struct av_seg *seg, enum av_pages_wish wish,
			    struct av_page_block *block)
{
	if (wish != AV_PAGES_SMALL)
		block->huge = make_huge(seg, block, wish == AV_PAGES_HUGE);
	return block->huge * AV_HUGE_PAGE_BYTES == block->bytes ||
	       (wish != AV_PAGES_HUGE && back(seg, block->at, block->bytes));
}

/* Return: the size of the block at @at; 0: there is none, or it is not @from any more */
static uint64_t change_page_block(struct av_heap *heap, uint64_t at, enum state from, enum state to)
{
	AV_LOCKED(&heap->mutex);
	struct block *b = find_page_block(heap, at);

	if (!b || b->state != from)
		return 0;
	atomic_fetch_add(&heap->deferred, (to == DEFERRED) - (from == DEFERRED));
	b->state = to;
	return b->bytes;
}

static void sweep_deferred_blocks(struct av_seg *seg)
{
	struct av_heap *heap = seg->heap;
	uint64_t at = 0, next;

	do {
		next = 0;
		pthread_mutex_lock(&heap->mutex);
		for (uint32_t i = 0; i < heap->count && !next; i++)
			if (heap->list[i].state == DEFERRED && heap->list[i].at > at)
				next = heap->list[i].at;
		pthread_mutex_unlock(&heap->mutex);
		at = next;
		/* Several threads may see that nobody holds it: only one of them frees it. */
		if (at && !av_page_users_any(seg->ref, at) &&
		    change_page_block(heap, at, DEFERRED, USED))
			av_pages_free(seg, at);
	} while (at);
}

int av_pages_alloc(struct av_seg *seg, uint64_t bytes, enum av_pages_wish wish,
		   struct av_page_block *block)
{
	uint64_t unit = wish == AV_PAGES_HUGE ? AV_HUGE_PAGE_BYTES : AV_PAGE_BYTES;
	bool huge = wish != AV_PAGES_SMALL && bytes >= AV_HUGE_PAGE_BYTES;

	*block = (struct av_page_block){.bytes = av_round_up(bytes, unit)};
	if (bytes == 0 || bytes > AV_SEG_BYTES || is_alloc_refused(seg))
		return ENOMEM;
	if (atomic_load(&seg->heap->deferred))
		sweep_deferred_blocks(seg);
	block->at = alloc_page_block(seg->heap, block->bytes, huge ? AV_HUGE_PAGE_BYTES : unit);
	if (block->at && back_page_block(seg, wish, block))
		return 0;
	av_pages_free(seg, block->at);
	block->at = 0;
	return ENOMEM;
}

void av_pages_free(struct av_seg *seg, uint64_t at)
{
	struct av_heap *heap = seg->heap;
	uint64_t bytes = change_page_block(heap, at, USED, USED);

	if (!bytes)
		return;
	punch_segment(seg, at, bytes); /* before others can get the range */
	AV_LOCKED(&heap->mutex);
	release_page_block(heap, find_page_block(heap, at));
}

void av_pages_defer(struct av_seg *seg, uint64_t at)
{
	(void)change_page_block(seg->heap, at, USED, DEFERRED);
}

/* --- which pages an object should have ------------------------------------------- */

#define LOG2_MIN  12
#define LOG2_MAX  23
#define VALUE_MAX 64 /* longer values are neither type nor number */

static const char *const names[AV_ALLOC_N] = {
	[AV_ALLOC_ANON] = "ANON",
	[AV_ALLOC_HUGE] = "HUGE",
	[AV_ALLOC_CONTIG] = "CONTIG",
	[AV_ALLOC_PREFER_CONTIG] = "PREFER_CONTIG",
	[AV_ALLOC_PREFER_HUGE] = "PREFER_HUGE",
	[AV_ALLOC_ALL] = "ALL",
};

const char *av_alloc_type_name(unsigned int type)
{
	return type < AV_ALLOC_N ? names[type] : "";
}

struct source {
	const struct av_page_object *object;
	av_page_variable *get;
	const void *where;
	void (*complain)(const char *name, const char *value);
};

static enum av_alloc_type read_type(const struct source *s)
{
	char variable[VALUE_MAX], value[VALUE_MAX];
	enum av_alloc_type type = s->object->fallback;

	if (s->object->huge_variable &&
	    s->get(s->where, s->object->huge_variable, value, sizeof(value)) && !strcmp(value, "y"))
		type = AV_ALLOC_HUGE;
	snprintf(variable, sizeof(variable), "MLX_%s_ALLOC_TYPE", s->object->name);
	if (!s->get(s->where, variable, value, sizeof(value)))
		return type;
	for (unsigned int i = 0; i < AV_ALLOC_N; i++)
		if (!strcasecmp(value, names[i]))
			return (enum av_alloc_type)i;
	return type;
}

static uint8_t read_log2(const struct source *s, const char *which, uint8_t max, uint8_t fallback)
{
	char variable[VALUE_MAX], value[VALUE_MAX], *end;
	long number;

	snprintf(variable, sizeof(variable), "MLX_%s_%s_LOG2_CONTIG_BSIZE", s->object->name, which);
	if (!s->get(s->where, variable, value, sizeof(value)))
		return fallback;
	number = strtol(value, &end, 10);
	if (end != value && !*end && number >= LOG2_MIN && number <= max)
		return (uint8_t)number;
	s->complain(variable, value);
	return fallback;
}

struct av_page_policy av_page_policy_read(const struct av_page_object *object,
					  av_page_variable *get, const void *where,
					  void (*complain)(const char *name, const char *value))
{
	const struct source s = {object, get, where, complain};
	struct av_page_policy policy = {.type = read_type(&s)};

	policy.max_log2 = read_log2(&s, "MAX", LOG2_MAX, LOG2_MAX);
	policy.min_log2 = read_log2(&s, "MIN", policy.max_log2, LOG2_MIN);
	return policy;
}

static struct av_page_plan contiguous(const struct av_page_policy *policy, bool or_fail)
{
	struct av_page_plan plan = {.pages = true, .or_fail = or_fail, .wish = AV_PAGES_SMALL};

	if (policy->min_log2 > AV_HUGE_LOG2)
		plan.never = true;
	else if (policy->min_log2 > LOG2_MIN)
		plan.wish = AV_PAGES_HUGE;
	else if (policy->max_log2 > LOG2_MIN)
		plan.wish = AV_PAGES_TRY;
	return plan;
}

struct av_page_plan av_page_plan(const struct av_page_policy *policy)
{
	switch (policy->type) {
	case AV_ALLOC_HUGE:
		return (struct av_page_plan){.pages = true, .wish = AV_PAGES_HUGE, .or_fail = true};
	case AV_ALLOC_PREFER_HUGE:
		return (struct av_page_plan){.pages = true, .wish = AV_PAGES_HUGE};
	case AV_ALLOC_CONTIG:
		return contiguous(policy, true);
	case AV_ALLOC_PREFER_CONTIG:
	case AV_ALLOC_ALL:
		return contiguous(policy, false);
	case AV_ALLOC_ANON:
	case AV_ALLOC_N:
		break;
	}
	return (struct av_page_plan){.pages = false};
}
