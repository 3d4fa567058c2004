/* SPDX-License-Identifier: MIT */
/*
 * An event that is raised once for each time that it is armed, by one of many processes.
 *
 * That one may be stopped or killed before it has. So the event is disarmed after it was raised,
 * and in the meantime the word says since when somebody raises it. Who comes much later
 * (AV_STUCK_NS) raises it, too. If the first one was only stopped, the event comes twice.
 *
 *     claim = av_raise_begin(&raise);
 *     if (claim) {
 *             ... raise it ...
 *             av_raise_end(&raise, claim);
 *     }
 */
#ifndef AV_BASE_RAISE_H
#define AV_BASE_RAISE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/patience.h"

/* All zero: not armed. Low half: what it is armed with; high half: since when, in ms; 0: nobody. */
struct av_raise {
	_Atomic uint64_t word;
};

/* @with: not 0, but to disarm it. Ends nobody's raising, which then makes one event too many. */
static inline void av_raise_arm(struct av_raise *r, uint32_t with)
{
	atomic_store(&r->word, with);
}

/* What it is armed with; 0: not, or not any more. */
static inline uint32_t av_raise_armed(const struct av_raise *r)
{
	return (uint32_t)atomic_load_explicit(&r->word, memory_order_relaxed);
}

/* Has somebody begun to raise it, and not ended? */
static inline bool av_raise_is_begun(const struct av_raise *r)
{
	return atomic_load_explicit(&r->word, memory_order_relaxed) >> 32;
}

static inline uint32_t av_raise_now_ms(void)
{
	return (uint32_t)(av_now_coarse_ns() / 1000000) | 1;
}

/* Does somebody raise it who may still be about to end? */
static inline bool av_raise_is_under_way(uint64_t word)
{
	uint32_t since = (uint32_t)(word >> 32);

	return since && av_raise_now_ms() - since <= AV_STUCK_NS / 1000000;
}

/* What it is armed with and may be raised for; 0: not armed, or it is being raised already. */
static inline uint32_t av_raise_due(const struct av_raise *r)
{
	uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed);

	return av_raise_is_under_way(word) ? 0 : (uint32_t)word;
}

/* Return: not 0: it is the caller who raises the event now */
AV_MUST_USE static inline uint64_t av_raise_begin(struct av_raise *r)
{
	uint64_t word = atomic_load(&r->word), claim;

	if ((uint32_t)word == 0 || av_raise_is_under_way(word))
		return 0;
	claim = (uint64_t)av_raise_now_ms() << 32 | (uint32_t)word;
	return atomic_compare_exchange_strong(&r->word, &word, claim) ? claim : 0;
}

/* It has been raised. */
static inline void av_raise_end(struct av_raise *r, uint64_t claim)
{
	atomic_compare_exchange_strong(&r->word, &claim, 0);
}

#endif
