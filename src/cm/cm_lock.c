/* SPDX-License-Identifier: MIT */
#include "cm/id.h"

pthread_mutex_t av_cm_mutex = AV_EXIT_MUTEX; /* guards all of src/cm */
static pthread_cond_t alarm_cond;
static uint64_t due = UINT64_MAX; /* when the thread looks next */

/* The thread that waited is not in a forked child, and time may be set. */
void av_cm_alarm_begin(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&alarm_cond, &attr);
	pthread_condattr_destroy(&attr);
	due = UINT64_MAX;
}

void av_cm_lock(void)
{
	pthread_mutex_lock(&av_cm_mutex);
}

void av_cm_unlock(void)
{
	pthread_mutex_unlock(&av_cm_mutex);
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
			pthread_cond_wait(&alarm_cond, &av_cm_mutex);
		else
			(void)pthread_cond_timedwait(&alarm_cond, &av_cm_mutex, &until);
	}
	due = UINT64_MAX;
}
