/* SPDX-License-Identifier: MIT */
#include "memory/page_move.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/fork.h"
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

void av_page_move_begin(void)
{
	struct av_seg *seg;

	pthread_mutex_lock(&own.mutex);
	set(1);
	LIST_FOREACH(seg, &own.list, movable)
		av_pin_drain(seg, 0);
}

void av_page_move_end(void)
{
	set(0);
	pthread_mutex_unlock(&own.mutex);
}
