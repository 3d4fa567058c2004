/* SPDX-License-Identifier: MIT */
/*
 * How a thread waits for another one: for a word that changes, a moment, or until it is woken; and
 * how an event is raised once.
 */
#ifndef AV_BASE_WAIT_H
#define AV_BASE_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/file.h"

/*
 * Instructions that let a core rest until a word changes: UMWAIT of Intel's WAITPKG, MWAITX of AMD.
 * The thread keeps its core, so they suit waits shorter than a sleep and a wake-up:
 * docs/DECISIONS.md.
 */

struct av_hw_wait {
	const char *name;
	bool (*available)(void);
	bool resting; /* the core really rests; false for a loop */

	/*
	 * Rest while *word is @expected, for at most about 100000 cycles of the time-stamp counter.
	 * May return at any time without a reason. Any process that maps the word may change it.
	 */
	void (*wait)(const _Atomic uint32_t *word, uint32_t expected);
};

/* All kinds, the best first; the last has no name. */
extern const struct av_hw_wait av_hw_waits[];

/* The kind of that name, or NULL if this machine does not have it. */
const struct av_hw_wait *av_hw_wait_by_name(const char *name);

/* The best kind on this machine; NULL: none really rests. */
const struct av_hw_wait *av_hw_wait_best(void);

/* Waiting for what another thread or process is about to do. */

#define AV_BACKOFF_SPINS 100u
#define AV_BACKOFF_LEAST 10u /* yields */

/**
 * av_backoff() - wait a little: spin at first, then yield the core, then nap
 * @turn: how often the caller has waited for the same thing
 *
 * Context: any thread. A yield takes as long as other threads keep the core: on a busy machine
 * some milliseconds. So look at a deadline between yields, not after them.
 */
void av_backoff(unsigned int turn);

/* May the caller give up? Not before it has yielded some times, so that others could go on. */
static inline bool av_backoff_enough(unsigned int turn)
{
	return turn >= AV_BACKOFF_SPINS + AV_BACKOFF_LEAST;
}

/*
 * An event that is raised once for each time that it is armed, by one of many processes.
 *
 * That one may be stopped or killed before it has. So the event is disarmed after it was raised,
 * and in the meantime the word says since when somebody raises it. Who comes much later
 * (AV_STUCK_NS) raises it, too. If the first one was only stopped, the event comes twice.
 *
 *     claim = av_oneshot_begin(&raise);
 *     if (claim) {
 *             ... raise it ...
 *             av_oneshot_end(&raise, claim);
 *     }
 */

/* All zero: not armed. Low half: what it is armed with; high half: since when, in ms; 0: nobody. */
struct av_oneshot {
	_Atomic uint64_t word;
};

/* @with: not 0, but to disarm it. Ends nobody's raising, which then makes one event too many. */
static inline void av_oneshot_arm(struct av_oneshot *r, uint32_t with)
{
	atomic_store(&r->word, with);
}

/* What it is armed with; 0: not, or not any more. */
static inline uint32_t av_oneshot_armed(const struct av_oneshot *r)
{
	return (uint32_t)atomic_load_explicit(&r->word, memory_order_relaxed);
}

/* Has somebody begun to raise it, and not ended? */
static inline bool av_oneshot_is_begun(const struct av_oneshot *r)
{
	return atomic_load_explicit(&r->word, memory_order_relaxed) >> 32;
}

static inline uint32_t av_oneshot_now_ms(void)
{
	return (uint32_t)(av_now_coarse_ns() / 1000000) | 1;
}

/* Does somebody raise it who may still be about to end? */
static inline bool av_oneshot_is_under_way(uint64_t word)
{
	uint32_t since = (uint32_t)(word >> 32);

	return since && av_oneshot_now_ms() - since <= AV_STUCK_NS / 1000000;
}

/* What it is armed with and may be raised for; 0: not armed, or it is being raised already. */
static inline uint32_t av_oneshot_due(const struct av_oneshot *r)
{
	uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed);

	return av_oneshot_is_under_way(word) ? 0 : (uint32_t)word;
}

/* Return: not 0: it is the caller who raises the event now */
AV_MUST_USE static inline uint64_t av_oneshot_begin(struct av_oneshot *r)
{
	uint64_t word = atomic_load(&r->word), claim;

	if ((uint32_t)word == 0 || av_oneshot_is_under_way(word))
		return 0;
	claim = (uint64_t)av_oneshot_now_ms() << 32 | (uint32_t)word;
	return atomic_compare_exchange_strong(&r->word, &word, claim) ? claim : 0;
}

/* It has been raised. */
static inline void av_oneshot_end(struct av_oneshot *r, uint64_t claim)
{
	atomic_compare_exchange_strong(&r->word, &claim, 0);
}

/*
 * How a thread of ours that sleeps in poll(2) is woken: by a pair of sockets, of which one end is
 * the thread's. The program may close either.
 */

struct av_waker {
	struct av_own_fd wake;	/* what is sent here wakes the thread, */
	struct av_own_fd woken; /* at its end of the pair: here for the child of a fork() */
};

#define AV_WAKER_NONE                         \
	{                                     \
		.wake.fd = -1, .woken.fd = -1 \
	}

/*
 * Make the pair. @woken: out, the thread's end, which the thread closes. Context: one at a time.
 * Return: false: both ends are closed, and errno says why
 */
AV_MUST_USE bool av_waker_begin(struct av_waker *w, struct av_own_fd *woken);

/*
 * Wake the thread. If the pair is full, it is about to look anyway. Context: any thread; the pair
 * does not end meanwhile. Return: false: it cannot be woken
 */
bool av_waker_wake(const struct av_waker *w);

/* In the thread: forget what has woken it. Closes @woken if the other end is closed. */
void av_waker_drain(struct av_own_fd *woken);

/* Close the end that wakes. The thread has ended, or ends by itself. Keeps errno. */
void av_waker_end(struct av_waker *w);

/* In a forked child, which has no such thread: close both ends. Keeps errno. */
void av_waker_forked(struct av_waker *w);

#endif
