/* SPDX-License-Identifier: MIT */
/* The table of fork handlers. */
#include "base/fork.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/thread.h"

static _Atomic(const struct av_fork_handlers *) table[AV_FORK_N];
static int unusable; /* what pthread_atfork() returned */

/*
 * Rows whose prepare_fork() has run, a bit each. Another thread may add a row during this thread's
 * fork.
 */
static _Thread_local uint32_t prepared AV_TLS_FAST;
static_assert(AV_FORK_N <= 32, "bits");

static void prepare_fork(void)
{
	AV_UNCANCELLED; /* fork(2) is no cancellation point */

	prepared = 0;
	for (int row = 0; row < AV_FORK_N; row++) {
		const struct av_fork_handlers *h = atomic_load(&table[row]);

		if (!h || (!h->prepare && !h->mutex))
			continue;
		if (h->mutex)
			pthread_mutex_lock(h->mutex);
		if (h->prepare)
			h->prepare();
		prepared |= 1u << row;
	}
}

static void parent(void)
{
	AV_UNCANCELLED;

	for (int row = AV_FORK_N - 1; row >= 0; row--) {
		const struct av_fork_handlers *h = atomic_load(&table[row]);

		if (!(prepared & 1u << row))
			continue;
		if (h->parent)
			h->parent();
		if (h->mutex)
			pthread_mutex_unlock(h->mutex);
	}
}

/* Unlocked first: ThreadSanitizer takes the child's only thread for its holder otherwise. */
static void make_anew(pthread_mutex_t *mutex, bool locked)
{
	if (locked)
		pthread_mutex_unlock(mutex);
	pthread_mutex_init(mutex, NULL);
}

static void child(void)
{
	AV_UNCANCELLED;

	for (int row = AV_FORK_N - 1; row >= 0; row--) {
		const struct av_fork_handlers *h = atomic_load(&table[row]);

		if (h && h->mutex)
			make_anew(h->mutex, prepared & 1u << row);
		if (h && h->child)
			h->child();
	}
}

static void install_atfork_hooks(void)
{
	unusable = pthread_atfork(prepare_fork, parent, child);
}

int av_fork_register(enum av_fork_row row, const struct av_fork_handlers *handlers)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install_atfork_hooks);
	atomic_store(&table[row], handlers);
	return unusable;
}
