/* SPDX-License-Identifier: MIT */
/* Threads of our own in somebody else's process. */
#ifndef AV_BASE_THREAD_H
#define AV_BASE_THREAD_H

#include <pthread.h>

#include "base/compiler.h"

/**
 * av_thread_start() - start a thread with a small stack and all signals blocked
 *
 * Signals are the program's own threads' business, but SIGSEGV and SIGBUS, which our copies of its
 * memory may raise and handle. @name: at most 15 characters. @thread: out; to be joined, or
 * detached by itself. Return: 0 or errno
 */
AV_MUST_USE int av_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg),
				void *arg);

/* How many of the process' threads are ours: never more than there are. */
unsigned int av_thread_own(void);

#endif
