/* SPDX-License-Identifier: MIT */
/* Starting threads. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/fork.h"

/* We use little of it, but the program's thread-local variables need room, too. */
#define STACK_BYTES (256u << 10)

struct start {
	void *(*run)(void *arg);
	void *arg;
};

static _Atomic unsigned int own;

static void *counted(void *arg)
{
	struct start start = *(struct start *)arg;
	void *ret;

	free(arg);
	ret = start.run(start.arg);
	atomic_fetch_sub(&own, 1);
	return ret;
}

static void forget_in_child(void)
{
	atomic_store(&own, 0);
}

static const struct av_fork_handlers fork_handlers = {.child = forget_in_child};

unsigned int av_thread_own(void)
{
	return atomic_load(&own);
}

int av_thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
	struct start *start = malloc(sizeof(*start));
	pthread_attr_t attr;
	sigset_t all, old;
	int ret;

	if (!start)
		return ENOMEM;
	*start = (struct start){run, arg};
	(void)av_fork_register(AV_FORK_THREADS, &fork_handlers);
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(thread, &attr, counted, start);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (ret) {
		free(start);
		return ret;
	}
	atomic_fetch_add(&own, 1);
	pthread_setname_np(*thread, name);
	return 0;
}
