/* SPDX-License-Identifier: MIT */
/*
 * At exit: a lock that another thread holds is free in a moment, so it is awaited. One that this
 * thread holds itself never is, since it is a signal's handler that exits: so it is not awaited.
 */
#ifndef AV_BASE_EXIT_LOCK_H
#define AV_BASE_EXIT_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/patience.h"

/* Such a mutex knows who holds it. */
#define AV_EXIT_MUTEX_INITIALIZER PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP

/* Return: false: this thread holds it, or its holder is stuck. Context: a destructor */
AV_MUST_USE static inline bool av_exit_lock(pthread_mutex_t *mutex)
{
	struct timespec until = av_timespec(av_now_ns() + AV_PATIENCE_NS);

	return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until) == 0;
}

#endif
