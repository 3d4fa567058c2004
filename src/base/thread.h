/* SPDX-License-Identifier: MIT */
/* Our own threads in the program's process. */
#ifndef AV_BASE_THREAD_H
#define AV_BASE_THREAD_H

#include <pthread.h>

#include "base/compiler.h"

/*
 * Start a thread with a small stack. The caller joins it, or it detaches itself. @name: at most 15
 * characters. Signals are for the program's threads: only SIGSEGV and SIGBUS stay open, which
 * copies of the program's memory may raise. Return: 0 or errno
 */
AV_MUST_USE int av_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg),
				void *arg);

/* How many threads of the process are ours; may be too low, never too high. */
unsigned int av_thread_own(void);

#endif
