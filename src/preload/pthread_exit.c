/* SPDX-License-Identifier: MIT */
/* pthread_exit(3) of the main thread: the process goes on, and threads of ours with it. */
#include <pthread.h>
#include <unistd.h>

#include "base/last_thread.h"
#include "base/next.h"
#include "base/uncancelled.h"

static void main_ends(void)
{
	AV_UNCANCELLED;

	av_last_thread_main_ends();
}

/* The C library unwinds the stack from here on. */
AV_EXPORT void pthread_exit(void *ret)
{
	if (gettid() == getpid())
		main_ends();
	AV_NEXT_OF(pthread_exit)(ret);
	__builtin_unreachable();
}
