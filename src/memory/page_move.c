/* SPDX-License-Identifier: MIT */
#include "memory/page_move.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/fork.h"
#include "memory/key.h"
#include "memory/linger.h"
#include "memory/pin.h"

static struct {
	pthread_mutex_t mutex; /* held from av_page_move_begin() to av_page_move_end() */
	LIST_HEAD(, av_seg) list;
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A forked child has none of its parent's contexts. */
static void forget_in_child(void)
{
	pthread_mutex_init(&own.mutex, NULL);
	LIST_INIT(&own.list);
}

static const struct av_fork_handlers fork_handlers = {.child = forget_in_child};

void av_page_move_add(struct av_seg *seg)
{
	(void)av_fork_register(AV_FORK_PAGE_MOVE, &fork_handlers);
	pthread_mutex_lock(&own.mutex);
	LIST_INSERT_HEAD(&own.list, seg, movable);
	pthread_mutex_unlock(&own.mutex);
}

void av_page_move_remove(struct av_seg *seg)
{
	pthread_mutex_lock(&own.mutex);
	LIST_REMOVE(seg, movable);
	pthread_mutex_unlock(&own.mutex);
}

static void set(uint32_t moving)
{
	struct av_seg *seg;

	LIST_FOREACH(seg, &own.list, movable)
		atomic_store(&seg->head->moving, moving);
}

struct range {
	uint64_t begin, end;
};

static bool reaches(struct av_seg *seg, uint32_t key, const void *arg)
{
	const struct range *r = arg;

	return !av_linger_has_key(seg, key) && av_key_reaches(seg, key, r->begin, r->end);
}

/* Have all accesses ended? Waits a while. */
static bool nobody_at(const struct range *r)
{
	uint64_t until = 0;
	struct av_seg *seg;
	bool ret = true;

	LIST_FOREACH(seg, &own.list, movable)
		ret = av_pin_try_drain(seg, reaches, r, &until) && ret;
	return ret;
}

bool av_page_move_begin(uint64_t begin, uint64_t end)
{
	pthread_mutex_lock(&own.mutex);
	set(1);
	if (av_page_move_widen(begin, end))
		return true;
	av_page_move_end();
	return false;
}

bool av_page_move_widen(uint64_t begin, uint64_t end)
{
	const struct range r = {begin, end};

	return nobody_at(&r);
}

void av_page_move_end(void)
{
	set(0);
	pthread_mutex_unlock(&own.mutex);
}
