/* SPDX-License-Identifier: MIT */
/*
 * Threads of the library in somebody else's process.
 */
#ifndef AV_BASE_THREAD_H
#define AV_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

#include "base/compiler.h"

/*
 * What the library does around the program's fork(): handlers in the order of the locks. Before the
 * fork they run from first to last (outer locks first), after it from last to first, in parent and
 * child. None can fail: the library never prevents a fork().
 */

enum av_fork_row {
	AV_FORK_DEVICE_LIST,	 /* its mutex is held while the system's library is called */
	AV_FORK_WATCHER,	 /* its mutexes are held while a thread starts or ends */
	AV_FORK_PORT_WATCH,	 /* its mutex is held while something is watched */
	AV_FORK_CAPTURE_SETTING, /* its mutex is held while the directory is read */
	AV_FORK_NET,		 /* its mutexes are held while the directory is changed */
	AV_FORK_CM,		 /* its mutex is held while the directory is changed */
	AV_FORK_DIRECTORY,	 /* its mutex is held while files are locked */
	/* These take only the locks of rows below them. */
	AV_FORK_CONTEXTS,
	AV_FORK_SEGMENTS,
	AV_FORK_BUFFERS,
	AV_FORK_GUARDED_RANGES,
	AV_FORK_ODP_NOTIFY,
	AV_FORK_ODP_PREFETCH,
	AV_FORK_SHARED_HEAP,  /* its mutexes are held while pages move: */
	AV_FORK_DEFERRED,     /* so this one is taken while those are held */
	AV_FORK_FILE_RUNS,    /* taken while a region begins or ends */
	AV_FORK_CAPTURE_FILE, /* taken by any executor of a request */
	AV_FORK_WINDOWS,      /* taken while a queue pair is connected or destroyed */
	AV_FORK_THREADS,      /* taken while a thread starts or has ended */
	AV_FORK_N
};

struct av_fork_handlers {	/* NULL: nothing to do */
	pthread_mutex_t *mutex; /* held over the fork, handlers included; made anew in the child */
	void (*prepare)(void);
	void (*parent)(void); /* if @prepare ran, in the same thread; also after a failed fork */
	void (*child)(void);  /* in the only thread of the child, even if @prepare did not run */
};

/*
 * Call these handlers, which stay valid for ever, at each fork() from now on. Again changes
 * nothing. Context: any thread, any locks held; before the lock of the row is taken for the first
 * time. Return: 0 or ENOMEM, then for all rows: only joining the directory has to check
 */
int av_fork_register(enum av_fork_row row, const struct av_fork_handlers *handlers);

/*
 * Threads of the library in somebody else's process.
 */

/* Signals that wait while work of ours is done. */

/*
 * All but those that answer what the thread itself does: copies of the program's memory may raise
 * SIGSEGV and SIGBUS, and any system call SIGSYS, where the program has a filter that traps it
 * (seccomp(2)) and a handler that does it instead. Blocked, they end the process.
 */
static inline void av_signals_of_others(sigset_t *set)
{
	sigfillset(set);
	sigdelset(set, SIGSEGV);
	sigdelset(set, SIGBUS);
	sigdelset(set, SIGSYS);
}

/* From here on they wait. @before: what pthread_sigmask(3) sets again afterwards */
static inline void av_signals_block(sigset_t *before)
{
	sigset_t others;

	av_signals_of_others(&others);
	pthread_sigmask(SIG_BLOCK, &others, before);
}

/*
 * No cancellation points. A thread that is cancelled (pthread_cancel(3)) in the midst of a verb
 * would keep its locks and execution rights for ever, of the peer as well.
 *
 * A verb that makes system calls is such a block as a whole. The verbs that post and poll make none
 * as a rule, and take some nanoseconds; there, the functions that may wait or call the system are.
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

/* From here to the end of the block, the thread is not cancelled. It may be as usual afterwards. */
#define AV_UNCANCELLED \
	const int av_cancel __attribute__((cleanup(av_cancel_back), unused)) = av_cancel_off()

/*
 * Our own threads in the program's process.
 *
 * Registration caches (libfabric's, UCX's) overwrite the first bytes of the C library's mmap(),
 * munmap(), mremap(), madvise() and brk() while the program runs. A thread that is in one of them
 * returns into the middle of other instructions. So a thread of ours has used the heap once before
 * it counts as started, and whoever joins it gives its stack back, not the thread itself.
 */

struct av_thread;

/*
 * Start a thread with a small stack; it has begun to run when this returns. @name: at most 15
 * characters. Signals are for the program's threads: only those stay open that this one raises by
 * what it does. The thread runs @run once. Context: any locks held. If malloc() waits for one of
 * them, this takes AV_PEER_TIMEOUT_NS.
 * @thread: out, for av_thread_join() or av_thread_leave(). A child of fork() has neither the thread
 * nor this.
 * Return: 0 or errno
 */
AV_MUST_USE int av_thread_start(struct av_thread **thread, const char *name,
				void *(*run)(void *arg), void *arg);

/* Wait for its end. Context: not the thread itself; no lock held that it waits for */
void av_thread_join(struct av_thread *thread);

/* Nobody waits for its end: what it has is given back when another thread starts or is joined. */
void av_thread_leave(struct av_thread *thread);

/* How many threads of the process are ours; may be too low, never too high. */
unsigned int av_thread_own(void);

#endif
