/* SPDX-License-Identifier: MIT */
/* How a thread waits for another one, and wakes it; and how an event is raised once. */
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "base/file.h"

/*
 * An instruction that halts the core until a word changes: UMWAIT of Intel's WAITPKG, MWAITX of
 * AMD. The thread keeps its core: only for waits below those of sleeps (docs/DECISIONS.md).
 */

struct av_hw_wait {
	const char *name;
	bool (*available)(void);
	bool resting; /* the core really halts; false: a loop */

	/*
	 * Wait while *word, of any process, is @expected, for 100000 TSC cycles or so at most. May
	 * return early.
	 */
	void (*wait)(const _Atomic uint32_t *word, uint32_t expected);
};

/* All kinds, best first; then one without a name. */
extern const struct av_hw_wait av_hw_waits[];

/* The kind of that name; NULL: this machine does not have it. */
const struct av_hw_wait *av_hw_wait_by_name(const char *name);

/* The best kind of this machine; NULL: none really halts. */
const struct av_hw_wait *av_hw_wait_best(void);

#define AV_BACKOFF_SPINS 100u
#define AV_BACKOFF_LEAST 10u /* yields */

/*
 * Wait for what another thread is about to do: spin, after some turns yield the core, then nap.
 * @turn: number of waits for it so far. A yield may take milliseconds: check deadlines in between.
 */
void av_backoff(unsigned int turn);

/* May the caller give up? Only after some yields, so that others could go on. */
static inline bool av_backoff_enough(unsigned int turn)
{
	return turn >= AV_BACKOFF_SPINS + AV_BACKOFF_LEAST;
}

/*
 * An event that is raised once each time it is armed, by one of many processes. That process may be
 * stopped or killed before it has. So it disarms only after that; before, the word says since when.
 * A process that comes AV_STUCK_NS later raises it, too: twice, if the first was only stopped.
 *
 *     claim = av_oneshot_begin(&raise);
 *     if (claim) {
 *             ... raise it ...
 *             av_oneshot_end(&raise, claim);
 *     }
 *
 * Low half of the word: what it is armed with; 0: not armed. High half: since when a process raises
 * it, in ms; 0: none does.
 */
struct av_oneshot {
	_Atomic uint64_t word;
};

/* @with: 0 disarms. Whoever is raising the event goes on: one spurious event. */
static inline void av_oneshot_arm(struct av_oneshot *r, uint32_t with)
{
	atomic_store(&r->word, with);
}

/* What it is armed with; 0: it is not armed. */
static inline uint32_t av_oneshot_armed(const struct av_oneshot *r)
{
	return (uint32_t)atomic_load_explicit(&r->word, memory_order_relaxed);
}

/* Has a process begun to raise it, and not ended? */
static inline bool av_oneshot_is_begun(const struct av_oneshot *r)
{
	return atomic_load_explicit(&r->word, memory_order_relaxed) >> 32;
}

static inline uint32_t av_oneshot_now_ms(void)
{
	return (uint32_t)(av_now_coarse_ns() / 1000000) | 1;
}

/* Does a process raise it that has begun less than AV_STUCK_NS ago? */
static inline bool av_oneshot_is_under_way(uint64_t word)
{
	uint32_t since = (uint32_t)(word >> 32);

	return since && av_oneshot_now_ms() - since <= AV_STUCK_NS / 1000000;
}

/* What it is armed with; 0: it is not armed, or is being raised. */
static inline uint32_t av_oneshot_due(const struct av_oneshot *r)
{
	uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed);

	return av_oneshot_is_under_way(word) ? 0 : (uint32_t)word;
}

/* Return: not 0: the caller raises the event, and passes this to av_oneshot_end() */
AV_MUST_USE static inline uint64_t av_oneshot_begin(struct av_oneshot *r)
{
	uint64_t word = atomic_load(&r->word), claim;

	if ((uint32_t)word == 0 || av_oneshot_is_under_way(word))
		return 0;
	claim = (uint64_t)av_oneshot_now_ms() << 32 | (uint32_t)word;
	return atomic_compare_exchange_strong(&r->word, &word, claim) ? claim : 0;
}

static inline void av_oneshot_end(struct av_oneshot *r, uint64_t claim)
{
	atomic_compare_exchange_strong(&r->word, &claim, 0);
}

/* A pair of sockets that wakes a thread in poll(2). The program may close either. */

struct av_waker {
	struct av_own_fd wake;	/* to send to */
	struct av_own_fd woken; /* a copy of the thread's end, for a forked child to close */
};

#define AV_WAKER_NONE                         \
	{                                     \
		.wake.fd = -1, .woken.fd = -1 \
	}

/* Make the pair. @woken: out, the thread's, to close. One caller at a time. False: see errno */
AV_MUST_USE bool av_waker_begin(struct av_waker *w, struct av_own_fd *woken);

/* Wake the thread. Context: the pair does not end meanwhile. Return: false: it cannot be woken */
bool av_waker_wake(const struct av_waker *w);

/* In the thread: receive what has woken it. Closes @woken if the other end is closed. */
void av_waker_drain(struct av_own_fd *woken);

/* Close the sending end. The thread has ended, or ends by itself. Keeps errno. */
void av_waker_end(struct av_waker *w);

/* In a forked child: close both ends. Keeps errno. */
void av_waker_forked(struct av_waker *w);
