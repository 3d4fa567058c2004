/* SPDX-License-Identifier: MIT */
/*
 * Blocks come from free lists, in four sizes per power of two, or from the end of the heap. All
 * book-keeping is in private memory of the owner, so that peers cannot damage it.
 */
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/file.h"
#include "registry/directory.h"

#define CLASS_N	    108		 /* up to 16 GiB */
#define BACK_STEP   (256u << 10) /* the file is backed in steps of this size */
#define PUNCH_MIN   (64u << 10)	 /* freed blocks from this size on give back their pages */
#define REUSE_AFTER 256		 /* freed indices rest until this many are free */

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

struct av_heap {
	pthread_mutex_t mutex;
	const struct av_own_fd *file, *tables; /* the segment's */
	struct av_seg_head *head;
	uint64_t begin, end, brk, backed;
	struct offsets free[CLASS_N];
	struct indices slab[AV_SLAB_N];
};

static const struct {
	uint32_t bytes, per_chunk;
} slab_shape[AV_SLAB_N] = {
	[AV_SLAB_KEY] = {AV_KEY_BYTES, AV_KEY_CHUNK},
	[AV_SLAB_CQ] = {AV_CQ_BYTES, AV_OBJ_CHUNK},
	[AV_SLAB_RQ] = {AV_RQ_BYTES, AV_RQ_CHUNK},
	[AV_SLAB_QP] = {AV_QP_BYTES, AV_OBJ_CHUNK},
};

struct av_heap *av_heap_create(const struct av_own_fd *file, const struct av_own_fd *tables,
			       struct av_seg_head *head, uint64_t begin, uint64_t end,
			       uint32_t first_key)
{
	struct av_heap *heap = calloc(1, sizeof(*heap));

	if (!heap)
		return NULL;
	pthread_mutex_init(&heap->mutex, NULL);
	heap->file = file;
	heap->tables = tables;
	heap->head = head;
	heap->begin = heap->brk = heap->backed = av_round_up(begin, 4096);
	heap->end = end;
	for (int i = 0; i < AV_SLAB_N; i++)
		heap->slab[i].fresh = i == AV_SLAB_KEY ? first_key : 1;
	return heap;
}

void av_heap_destroy(struct av_heap *heap)
{
	if (!heap)
		return;
	for (int i = 0; i < CLASS_N; i++)
		free(heap->free[i].at);
	for (int i = 0; i < AV_SLAB_N; i++)
		free(heap->slab[i].ring);
	pthread_mutex_destroy(&heap->mutex);
	free(heap);
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

	return lowest < 4096 ? lowest : 4096;
}

/* Return: offset, or 0. */
static uint64_t extend_heap_break(struct av_heap *heap, uint64_t size)
{
	uint64_t at = av_round_up(heap->brk, alignment_of(size));
	uint64_t want;

	if (!av_range_within(at, size, 0, heap->end))
		return 0;
	if (at + size > heap->backed) {
		want = av_round_up(at + size, BACK_STEP);
		want = want < heap->end ? want : heap->end;
		if (av_file_back(av_own_fd(heap->file), heap->backed, want - heap->backed))
			return 0;
		heap->backed = want;
	}
	heap->brk = at + size;
	return at;
}

uint64_t av_heap_take_end(struct av_heap *heap, uint64_t bytes, uint64_t align, uint64_t *taken)
{
	uint64_t at = 0;

	pthread_mutex_lock(&heap->mutex);
	if (bytes <= heap->end - heap->backed)
		at = (heap->end - bytes) & ~(align - 1);
	if (at < heap->backed)
		at = 0;
	if (at) {
		*taken = heap->end - at;
		heap->end = at;
	}
	pthread_mutex_unlock(&heap->mutex);
	return at;
}

static uint64_t alloc_class_block(struct av_heap *heap, unsigned int class)
{
	struct offsets *list = &heap->free[class];
	uint64_t at;

	if (!list->count)
		return extend_heap_break(heap, class_bytes(class));
	at = list->at[list->count - 1];
	if (class_bytes(class) >= PUNCH_MIN &&
	    av_file_back(av_own_fd(heap->file), at, class_bytes(class)))
		return 0;
	list->count--;
	return at;
}

uint64_t av_heap_alloc(struct av_heap *heap, uint64_t size)
{
	unsigned int class = class_of(size);
	uint64_t at = 0;

	if (class < CLASS_N) {
		pthread_mutex_lock(&heap->mutex);
		at = alloc_class_block(heap, class);
		pthread_mutex_unlock(&heap->mutex);
	}
	if (at)
		memset((uint8_t *)heap->head + at, 0, size);
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
	uint64_t brk;

	pthread_mutex_lock(&heap->mutex);
	brk = heap->brk;
	pthread_mutex_unlock(&heap->mutex);
	return class < CLASS_N && offset % 64 == 0 &&
	       av_range_within(offset, class_bytes(class), heap->begin, brk - heap->begin);
}

void av_heap_free(struct av_heap *heap, uint64_t offset, uint64_t size)
{
	unsigned int class = class_of(size);

	if (!is_heap_block(heap, class, offset))
		return;
	if (class_bytes(class) >= PUNCH_MIN)
		(void)!fallocate(av_own_fd(heap->file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 (off_t)offset, (off_t)class_bytes(class));
	pthread_mutex_lock(&heap->mutex);
	give(heap, class, offset);
	pthread_mutex_unlock(&heap->mutex);
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
static uint64_t chunk_of_tables(struct av_heap *heap, enum av_slab slab, uint32_t n, uint64_t bytes)
{
	struct av_tables *t = av_tables_of(heap->head);
	uint8_t *chunk = slab == AV_SLAB_QP ? t->qp[n][0] : t->cq[n][0];
	int ret = av_file_back(av_own_fd(heap->tables), (uint64_t)(chunk - (uint8_t *)t), bytes);

	if (ret == -ENOSPC)
		av_folder_full(av_own_fd(heap->tables), bytes, ENOMEM);
	if (ret)
		return 0;
	atomic_store(slab == AV_SLAB_QP ? &t->qp_chunks : &t->cq_chunks, n + 1);
	return (uint64_t)(chunk - (uint8_t *)heap->head);
}

static bool have_chunk(struct av_heap *heap, enum av_slab slab, uint32_t index)
{
	uint32_t n = index / slab_shape[slab].per_chunk;
	uint64_t bytes = (uint64_t)slab_shape[slab].bytes * slab_shape[slab].per_chunk;
	uint64_t at;

	if (n >= AV_SLAB_CHUNKS)
		return false;
	if (atomic_load_explicit(&heap->head->chunk[slab][n], memory_order_relaxed))
		return true;
	if (slab == AV_SLAB_QP || slab == AV_SLAB_CQ)
		at = chunk_of_tables(heap, slab, n, bytes);
	else
		at = alloc_class_block(heap, class_of(bytes)); /* fresh or punched */
	if (!at)
		return false;
	memset((uint8_t *)heap->head + at, 0,
	       bytes); /* a reused block, or the file system cannot punch holes */
	atomic_store_explicit(&heap->head->chunk[slab][n], at, memory_order_release);
	return true;
}

static uint32_t pop_oldest(struct indices *s)
{
	uint32_t index = s->ring[s->head];

	s->head = (s->head + 1) % s->room;
	s->count--;
	return index;
}

uint32_t av_heap_take_index(struct av_heap *heap, enum av_slab slab, uint32_t limit)
{
	struct indices *s = &heap->slab[slab];
	uint32_t index = 0;

	pthread_mutex_lock(&heap->mutex);
	if (s->used < limit) {
		if (s->count <= REUSE_AFTER && reserve_index_ring(s) &&
		    have_chunk(heap, slab, s->fresh))
			index = s->fresh++, s->issued++;
		else if (s->count)
			index = pop_oldest(s);
	}
	if (index)
		s->used++;
	pthread_mutex_unlock(&heap->mutex);
	return index;
}

void av_heap_give_index(struct av_heap *heap, enum av_slab slab, uint32_t index)
{
	struct indices *s = &heap->slab[slab];

	pthread_mutex_lock(&heap->mutex);
	s->ring[(s->head + s->count) % s->room] = index;
	s->count++;
	s->used--;
	pthread_mutex_unlock(&heap->mutex);
}
