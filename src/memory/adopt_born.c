/* SPDX-License-Identifier: MIT */
#include "memory/adopt_born.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fork.h"
#include "base/setting.h"
#include "base/signals.h"
#include "segment/alloc.h"
#include "segment/shared_heap.h"
#include "memory/adopt_pages.h"
#include "memory/adopted.h"
#include "memory/early.h"
#include "memory/odp_track.h"
#include "memory/page_move.h"
#include "memory/vma.h"

/* One region. */
struct born {
	LIST_ENTRY(born) entry;
	struct av_seg *seg;
	uint32_t id;
};

static struct {
	pthread_mutex_t mutex;
	LIST_HEAD(, born) list;
} born = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Held over a fork(), and while the heap begins. */
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;
static bool may_begin; /* it is loaded and wanted, and the fork handlers are in place */
static bool begun;     /* in this process, not in one that has forked it */

static struct av_adopted *descriptor(const struct born *b)
{
	return av_seg_at(b->seg, (uint64_t)b->id << AV_ADOPTED_SHIFT, sizeof(struct av_adopted));
}

/* --- fork ------------------------------------------------------------------------ */

/* No unmapping that anybody is to hear of. The mutex is held. */
static void exchange(uint64_t addr, uint64_t bytes, bool begins)
{
	struct born *b = LIST_FIRST(&born.list);

	if (b && begins)
		av_odp_untrack(addr, bytes);
	else if (b)
		av_odp_retrack(b->seg, addr, bytes);
}

/*
 * All of it becomes private, and from here on is reached in its process; but not if something else
 * writes to its pages, or a peer is stopped in the middle of a copy. Nobody adds a region
 * meanwhile.
 */
static void before_fork(void)
{
	const struct av_shared_heap *heap = av_shared_heap_own();
	struct born *b;
	bool stay;

	if (!heap)
		return;
	stay = av_adopt_must_stay() ||
	       !av_page_move_begin(heap->begin, heap->begin + AV_SHARED_HEAP_BYTES);
	pthread_mutex_lock(&born.mutex);
	if (!stay)
		LIST_FOREACH(b, &born.list, entry)
			atomic_store(&descriptor(b)->at, 0);
	heap->before_fork(exchange, stay);
	pthread_mutex_unlock(&born.mutex);
	if (!stay)
		av_page_move_end();
}

static void after_fork_in_parent(void)
{
	const struct av_shared_heap *heap = av_shared_heap_own();

	if (heap)
		heap->after_fork_in_parent();
}

/* The regions are the parent's. */
static void after_fork_in_child(void)
{
	const struct av_shared_heap *heap = av_shared_heap_own();

	pthread_mutex_init(&born.mutex, NULL);
	LIST_INIT(&born.list);
	begun = false;
	if (heap)
		heap->after_fork_in_child();
}

/* --- the beginning --------------------------------------------------------------- */

static const struct av_shared_heap *begin(void)
{
	const struct av_shared_heap *heap = av_shared_heap_begin();

	begun = true;
	if (heap)
		av_adopted_show_heap(heap);
	return heap;
}

/* A handler that calls fork() needs the mutex, too. */
void av_adopt_born_begin(void)
{
	sigset_t others, signals;

	if (!may_begin)
		return;
	av_signals_of_others(&others);
	pthread_sigmask(SIG_BLOCK, &others, &signals);
	pthread_mutex_lock(&beginning);
	if (!begun && begin())
		av_early_note();
	pthread_mutex_unlock(&beginning);
	pthread_sigmask(SIG_SETMASK, &signals, NULL);
}

/* The handlers beforehand: another thread may fork while this one opens a device. */
__attribute__((constructor)) static void prepare(void)
{
	static const struct av_fork_handlers handlers = {.mutex = &beginning,
							 .prepare = before_fork,
							 .parent = after_fork_in_parent,
							 .child = after_fork_in_child};
	static struct av_setting never = {.variable = "ANYVERBS_SHARED_HEAP", .value = "never"};
	static struct av_setting always = {.variable = "ANYVERBS_SHARED_HEAP", .value = "always"};

	may_begin = anyverbs_shared_heap && !av_setting_is(&never) &&
		    !av_fork_register(AV_FORK_SHARED_HEAP, &handlers);
	if (may_begin && av_setting_is(&always))
		(void)begin();
}

/* --- regions --------------------------------------------------------------------- */

/* Are these pages still the heap's, each in its place? The program, or a fork(), may have put
 * others there. */
static bool in_place(uint64_t first, uint64_t end)
{
	const struct av_shared_heap *heap = av_shared_heap_own();
	int maps = av_vma_open_own();
	struct av_vma vma;
	bool ret = maps >= 0;

	for (uint64_t at = first; ret && at < end; at = vma.end)
		ret = av_vma_next(maps, at, &vma) && vma.begin <= at && vma.shared &&
		      vma.inode == heap->inode && vma.offset == vma.begin - heap->begin;
	if (maps >= 0)
		close(maps);
	return ret;
}

static bool add(struct born *b, uint64_t first, uint64_t end)
{
	uint64_t window = av_shared_heap_own()->begin;
	struct av_adopted *d = descriptor(b);
	bool ret;

	d->addr = first;
	d->bytes = end - first;
	pthread_mutex_lock(&born.mutex);
	ret = in_place(first, end);
	atomic_store(&d->at, ret ? AV_SEG_BYTES + (first - window) : 0);
	if (ret)
		LIST_INSERT_HEAD(&born.list, b, entry);
	pthread_mutex_unlock(&born.mutex);
	return ret;
}

uint32_t av_adopt_born(struct av_seg *seg, uint64_t addr, uint64_t length)
{
	const struct av_shared_heap *heap = av_shared_heap_own();
	uint64_t first = addr & ~(uint64_t)(AV_ADOPTED_ALIGN - 1), offset;
	uint64_t end = av_round_up(addr + length, AV_ADOPTED_ALIGN);
	struct born *b;

	if (!heap || !av_range_within(addr, length, heap->begin, AV_SHARED_HEAP_BYTES))
		return 0;
	b = calloc(1, sizeof(*b));
	offset = b ? av_seg_alloc(seg, sizeof(struct av_adopted)) : 0;
	if (offset) {
		b->seg = seg;
		b->id = (uint32_t)(offset >> AV_ADOPTED_SHIFT);
		if (add(b, first, end))
			return b->id;
		av_seg_free(seg, offset, sizeof(struct av_adopted));
	}
	free(b);
	return 0;
}

void av_adopt_born_leave(uint64_t addr, uint64_t bytes)
{
	const struct av_shared_heap *heap = av_shared_heap_own();
	struct born *b;

	if (!heap || addr >= heap->begin + AV_SHARED_HEAP_BYTES || addr + bytes <= heap->begin ||
	    av_adopt_must_stay() || /* blocks are larger: */
	    !av_page_move_begin(heap->begin, heap->begin + AV_SHARED_HEAP_BYTES))
		return;
	pthread_mutex_lock(&born.mutex);
	heap->leave(addr, bytes, exchange);
	LIST_FOREACH(b, &born.list, entry) {
		struct av_adopted *d = descriptor(b);

		if (!in_place(d->addr, d->addr + d->bytes))
			atomic_store(&d->at, 0);
	}
	pthread_mutex_unlock(&born.mutex);
	av_page_move_end();
}

static void forget(struct born *b)
{
	av_seg_free(b->seg, (uint64_t)b->id << AV_ADOPTED_SHIFT, sizeof(struct av_adopted));
	free(b);
}

bool av_adopt_born_end(struct av_seg *seg, uint32_t id)
{
	struct born *b;

	pthread_mutex_lock(&born.mutex);
	LIST_FOREACH(b, &born.list, entry)
		if (b->seg == seg && b->id == id)
			break;
	if (b)
		LIST_REMOVE(b, entry);
	pthread_mutex_unlock(&born.mutex);
	if (b)
		forget(b);
	return b != NULL;
}

void av_adopt_born_close(struct av_seg *seg)
{
	struct born *b;

	do {
		pthread_mutex_lock(&born.mutex);
		LIST_FOREACH(b, &born.list, entry)
			if (b->seg == seg)
				break;
		if (b)
			LIST_REMOVE(b, entry);
		pthread_mutex_unlock(&born.mutex);
		if (b)
			forget(b);
	} while (b);
}
