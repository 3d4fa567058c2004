/* SPDX-License-Identifier: MIT */
#include "memory/page_move.h"

#include <pthread.h>
#include <stdatomic.h>

#include "memory/pin.h"

static struct {
	pthread_mutex_t mutex; /* held from av_page_move_begin() to av_page_move_end() */
	struct av_seg *first;
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The contexts are the parent's. */
static void forget_in_child(void)
{
	pthread_mutex_init(&own.mutex, NULL);
	own.first = NULL;
}

static void register_fork_handler(void)
{
	pthread_atfork(NULL, NULL, forget_in_child);
}

void av_page_move_add(struct av_seg *seg)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_fork_handler);
	pthread_mutex_lock(&own.mutex);
	seg->next_own = own.first;
	own.first = seg;
	pthread_mutex_unlock(&own.mutex);
}

void av_page_move_remove(struct av_seg *seg)
{
	struct av_seg **at = &own.first;

	pthread_mutex_lock(&own.mutex);
	while (*at && *at != seg)
		at = &(*at)->next_own;
	if (*at)
		*at = seg->next_own;
	pthread_mutex_unlock(&own.mutex);
}

static void set(uint32_t moving)
{
	for (struct av_seg *seg = own.first; seg; seg = seg->next_own)
		atomic_store(&seg->head->moving, moving);
}

void av_page_move_begin(void)
{
	pthread_mutex_lock(&own.mutex);
	set(1);
	for (struct av_seg *seg = own.first; seg; seg = seg->next_own)
		av_pin_drain_all(seg);
}

void av_page_move_end(void)
{
	set(0);
	pthread_mutex_unlock(&own.mutex);
}
