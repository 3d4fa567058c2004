/* SPDX-License-Identifier: MIT */
/*
 * Our own threads in the program's process.
 *
 * Registration caches (libfabric's, UCX's) overwrite the first bytes of the C library's mmap(),
 * munmap(), mremap(), madvise() and brk() while the program runs. A thread that is in one of them
 * returns into the middle of other instructions. So a thread of ours has used the heap once before
 * it counts as started, and whoever joins it gives its stack back, not the thread itself.
 */
#ifndef AV_BASE_THREAD_H
#define AV_BASE_THREAD_H

#include "base/compiler.h"

struct av_thread;

/*
 * Start a thread with a small stack; it has begun to run when this returns. @name: at most 15
 * characters. Signals are for the program's threads: only those stay open that this one raises by
 * what it does (base/signals.h). The thread runs @run once. Context: any locks held. If
 * malloc() waits for one of them, this takes AV_PATIENCE_NS.
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

/* How many of those that @all counts are not ours; may be too high, never too low. */
unsigned int av_thread_others(unsigned int (*all)(void));

#endif
