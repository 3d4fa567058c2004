/* SPDX-License-Identifier: MIT */
/*
 * Taking a lock at exit. Another thread that holds it is done in a moment, so exit waits, up to
 * AV_PATIENCE_NS. A thread that holds it itself, and exits in a signal's handler, would wait in
 * vain: the mutex knows its owner, and refuses at once.
 */
#ifndef AV_BASE_EXIT_LOCK_H
#define AV_BASE_EXIT_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/patience.h"

/* A mutex that av_exit_lock() may take. */
#define AV_EXIT_MUTEX PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP

/*
 * The same in a forked child, whoever held it in the parent. The child has one thread, so nobody
 * else uses the mutex. ThreadSanitizer is not asked: it remembers the parent's threads.
 */
AV_RACY static inline void av_exit_mutex_forked(pthread_mutex_t *mutex)
{
	*mutex = (pthread_mutex_t)AV_EXIT_MUTEX;
}

/* Return: false: it is not to be had. Context: a destructor */
AV_MUST_USE static inline bool av_exit_lock(pthread_mutex_t *mutex)
{
	struct timespec until = av_timespec(av_now_real_ns() + AV_PATIENCE_NS);

	/* Sanitizers know this one, whose clock may be set, but not pthread_mutex_clocklock(3). */
	return pthread_mutex_timedlock(mutex, &until) == 0;
}

#endif
