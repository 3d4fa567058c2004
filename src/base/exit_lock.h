/* SPDX-License-Identifier: MIT */
/*
 * At exit: a lock that another thread holds is free in a moment, so it is awaited. A lock that this
 * thread holds itself, since a signal's handler exits, is never free: so not for ever.
 */
#ifndef AV_BASE_EXIT_LOCK_H
#define AV_BASE_EXIT_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/patience.h"

/* Return: false: it is not to be had. Context: a destructor */
AV_MUST_USE static inline bool av_exit_lock(pthread_mutex_t *mutex)
{
	struct timespec until = av_timespec(av_now_ns() + AV_PATIENCE_NS);

	return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until) == 0;
}

#endif
