/* SPDX-License-Identifier: MIT */
/*
 * Forks that run no fork handlers: _Fork(3), clone(2), and by number. The C library's fork() and
 * posix_spawn() do not come here. A child that shares the parent's memory shares the heap, too.
 */
#include <linux/sched.h>
#include <sched.h>
#include <stdarg.h>

#include "base/thread.h"
#include "heap/blocks.h"

AV_FIND_NEXT(clone);
AV_FIND_NEXT(_Fork);

static const struct av_shared_heap_user *user_of_heap(void)
{
	return __atomic_load_n(&av_blocks.user, __ATOMIC_RELAXED);
}

/* A signal's handler may fork, too. */
static void begin_fork(sigset_t *signals)
{
	av_signals_block(signals);
	user_of_heap()->forking();
}

static void end_fork(const sigset_t *signals, bool in_child)
{
	user_of_heap()->forked(in_child);
	pthread_sigmask(SIG_SETMASK, signals, NULL);
}

AV_EXPORT pid_t _Fork(void)
{
	sigset_t signals;
	pid_t pid;

	if (!av_block_begun())
		return AV_NEXT_OF(_Fork)();
	begin_fork(&signals);
	pid = AV_NEXT_OF(_Fork)();
	end_fork(&signals, pid == 0);
	return pid;
}

/* --- clone ----------------------------------------------------------------------- */

struct cloned {
	int (*run)(void *arg);
	void *arg;
	sigset_t signals;
};

/* @p is in the parent's stack, of which the child has a copy. */
static int run_cloned(void *p)
{
	const struct cloned *c = p;

	end_fork(&c->signals, true);
	return c->run(c->arg);
}

/* More than were given are read, as the C library does. */
AV_EXPORT int clone(int (*run)(void *), void *stack, int flags, void *arg, ...)
{
	struct cloned c = {.run = run, .arg = arg};
	void *more[3]; /* parent_tid, tls, child_tid */
	va_list args;
	int pid;

	va_start(args, arg);
	for (int i = 0; i < 3; i++)
		more[i] = va_arg(args, void *);
	va_end(args);
	if (!run || !stack || (flags & CLONE_VM) || !av_block_begun())
		return AV_NEXT_OF(clone)(run, stack, flags, arg, more[0], more[1], more[2]);
	begin_fork(&c.signals);
	pid = AV_NEXT_OF(clone)(run_cloned, stack, flags, &c, more[0], more[1], more[2]);
	end_fork(&c.signals, false);
	return pid;
}

/* --- by number ------------------------------------------------------------------- */

/* The flags of clone3(2) are the first of its arguments, which are in memory. */
static bool shares_memory(long number, const long a[6])
{
	const struct clone_args *args = (const void *)a[0];

	return (number == SYS_clone && (a[0] & CLONE_VM)) ||
	       (number == SYS_clone3 &&
		(!args || (size_t)a[1] < CLONE_ARGS_SIZE_VER0 || (args->flags & CLONE_VM)));
}

long av_heap_clone(long number, const long a[6])
{
	bool bare = av_block_begun() && !shares_memory(number, a);
	sigset_t signals;
	long pid;

	if (bare)
		begin_fork(&signals);
	pid = AV_RAW(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (bare)
		end_fork(&signals, pid == 0);
	return pid;
}
