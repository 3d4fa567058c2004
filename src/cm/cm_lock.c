/* SPDX-License-Identifier: MIT */
#include "cm/cm_lock.h"

#include <pthread.h>

#include "base/clock.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all of src/cm */
static pthread_cond_t alarm_cond;
static uint64_t due = UINT64_MAX; /* when the thread looks next */

static struct av_fork_handlers fork_handlers = {.mutex = &mutex};

/* The thread that waited is not in a forked child, and time may be set. */
static void make_cond(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&alarm_cond, &attr);
	pthread_condattr_destroy(&attr);
}

int av_cm_lock_begin(void (*child)(void))
{
	make_cond();
	due = UINT64_MAX;
	fork_handlers.child = child;
	return -av_fork_register(AV_FORK_CM, &fork_handlers);
}

void av_cm_lock(void)
{
	pthread_mutex_lock(&mutex);
}

void av_cm_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

bool av_cm_trylock(void)
{
	return pthread_mutex_trylock(&mutex) == 0;
}

void av_cm_wake(uint64_t due_ns)
{
	if (due_ns >= due)
		return;
	due = due_ns;
	pthread_cond_signal(&alarm_cond);
}

void av_cm_sleep(void)
{
	while (due > av_now_ns()) {
		struct timespec until = av_timespec(due);

		if (due == UINT64_MAX)
			pthread_cond_wait(&alarm_cond, &mutex);
		else
			(void)pthread_cond_timedwait(&alarm_cond, &mutex, &until);
	}
	due = UINT64_MAX;
}
