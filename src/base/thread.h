/* SPDX-License-Identifier: MIT */
/* Our threads in the process of a program: forks, signals, cancellation, start and end. */
#pragma once

#include <pthread.h>
#include <signal.h>

#include "base/compiler.h"

/*
 * What the library does at a fork() of the program. The rows are in the order of their locks, outer
 * ones first. Handlers run from first to last before the fork, and from last to first after it, in
 * parent and child. They cannot fail: the library never prevents a fork().
 */

enum av_fork_row {
	AV_FORK_DEVICE_LIST, /* its mutex is held while the system's library is called */
	AV_FORK_WATCHER,     /* its mutexes are held while a thread starts or ends */
	AV_FORK_PORT_WATCH,  /* its mutex is held while something is watched */
	AV_FORK_CAPTURES,    /* a mutex of it is held while the directory is read */
	AV_FORK_NET,	     /* its mutexes are held while the directory is changed */
	AV_FORK_CM,	     /* its mutex is held while the directory is changed */
	AV_FORK_DIRECTORY,   /* its mutex is held while files are locked */
	/* These take only the locks of rows below them. */
	AV_FORK_CONTEXTS,
	AV_FORK_SEGMENTS,
	AV_FORK_BUFFERS,
	AV_FORK_GUARDED_RANGES,
	AV_FORK_ODP_NOTIFY,
	AV_FORK_ODP_PREFETCH,
	AV_FORK_SHARED_HEAP, /* its mutexes are held while pages move: */
	AV_FORK_DEFERRED,    /* so this one is taken while those are held */
	AV_FORK_FILE_RUNS,   /* taken while a region begins or ends */
	AV_FORK_WINDOWS,     /* taken while a queue pair is connected or destroyed */
	AV_FORK_THREADS,     /* taken while a thread starts or has ended */
	AV_FORK_N
};

struct av_fork_handlers {	/* NULL: nothing to do */
	pthread_mutex_t *mutex; /* held over the fork, handlers included; made anew in the child */
	void (*prepare)(void);
	void (*parent)(void); /* if @prepare ran, in its thread; also after a failed fork */
	void (*child)(void);  /* in the child's only thread, even if @prepare did not run */
};

/*
 * Register a row's static handlers; again changes nothing. Context: any locks held; before the
 * row's lock is first taken. Return: 0; ENOMEM: no row can be, which av_dir_join() checks
 */
int av_fork_register(enum av_fork_row row, const struct av_fork_handlers *handlers);

/*
 * All signals but those that a thread's own actions raise, which end the process if blocked:
 * SIGSEGV and SIGBUS by copies of the program's memory, SIGSYS by system calls that a filter traps
 * (seccomp(2)), which the program's handler may do instead.
 */
static inline void av_signals_of_others(sigset_t *set)
{
	sigfillset(set);
	sigdelset(set, SIGSEGV);
	sigdelset(set, SIGBUS);
	sigdelset(set, SIGSYS);
}

/* Block them. @before: out, the mask to restore */
static inline void av_signals_block(sigset_t *before)
{
	sigset_t others;

	av_signals_of_others(&others);
	pthread_sigmask(SIG_BLOCK, &others, before);
}

static inline sigset_t av_signals_off(void)
{
	sigset_t before;

	av_signals_block(&before);
	return before;
}

static inline void av_signals_back(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* They are blocked from here to the end of the block. */
#define AV_SIGNALS_BLOCKED                                                            \
	const sigset_t av_signals __attribute__((cleanup(av_signals_back), unused)) = \
		av_signals_off()

/*
 * A thread that is cancelled (pthread_cancel(3)) within a verb would keep its locks and execution
 * rights for ever, the peer's too. So verbs that make system calls disable cancellation as a whole.
 * Posting and polling, which take nanoseconds, leave that to functions that may wait.
 */

static inline int av_cancel_off(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void av_cancel_back(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/* The thread is not cancelled from here to the end of the block. */
#define AV_UNCANCELLED \
	const int av_cancel __attribute__((cleanup(av_cancel_back), unused)) = av_cancel_off()

static inline pthread_mutex_t *av_mutex_lock(pthread_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
	return mutex;
}

static inline void av_mutex_unlock(pthread_mutex_t *const *mutex)
{
	pthread_mutex_unlock(*mutex);
}

/* The thread holds the mutex from here to the end of the block. */
#define AV_LOCKED(mutex)                                                                     \
	pthread_mutex_t *const av_locked __attribute__((cleanup(av_mutex_unlock), unused)) = \
		av_mutex_lock(mutex)

/*
 * Our own threads. Registration caches (libfabric's, UCX's) overwrite the first bytes of the C
 * library's mmap(), munmap(), mremap(), madvise() and brk() at run time; a thread within one of
 * them would return into other instructions. So our thread has used the heap once before it counts
 * as started, and whoever joins it unmaps its stack.
 */

struct av_thread;

/*
 * Start a thread with a small stack, which runs @run once, and is running on return. It gets only
 * signals that its own actions raise. @name: at most 15 characters. @thread: out, for
 * av_thread_join() or av_thread_leave(); not valid in a forked child. Context: any locks held; if
 * malloc() waits for one of them, this takes AV_PEER_TIMEOUT_NS. Return: 0 or errno
 */
AV_MUST_USE int av_thread_start(struct av_thread **thread, const char *name,
				void *(*run)(void *arg), void *arg);

/* Wait until it has ended. Context: not the thread itself; no lock held that it may take */
void av_thread_join(struct av_thread *thread);

/* Nobody joins it: a later start or join of another thread frees its stack. */
void av_thread_leave(struct av_thread *thread);

/* Number of our threads in the process; may be too low, never too high. */
unsigned int av_thread_own(void);
