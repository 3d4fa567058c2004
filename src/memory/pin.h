/* SPDX-License-Identifier: MIT */
/*
 * Key pins: "a process is using this key right now". A key in use is not taken away.
 *
 * Whoever is about to touch memory behind a key first claims one of the target segment's pin words
 * with that key, then looks the key up. Whoever ends or changes the key first withdraws it, then
 * waits until no pin names it. Both sides have a full barrier in between: either the user sees the
 * withdrawn key, or the other side sees the pin.
 *
 * A pin costs one locked instruction, on a cache line that nobody else writes. A user's death needs
 * no repair: the word names its process, and whoever waits for a dead process's word clears it.
 */
#ifndef AV_MEMORY_PIN_H
#define AV_MEMORY_PIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "segment/segment.h"

/* The word that this thread tries first, in every segment: its own in most programs. 0: not chosen
 * yet. */
extern _Thread_local uint32_t av_pin_place AV_TLS_FAST;

/* The slow part of av_pin_begin(): that word is taken, or not chosen yet. */
struct av_pin *av_pin_search(struct av_seg *seg, uint64_t word);

/**
 * av_pin_begin() - announce the use of @key of @seg
 *
 * A full barrier: what is read afterwards was not read before.
 * Context: any thread; does not wait.
 * Return:  the word, to be given to av_pin_end(); NULL if all AV_PINS words are taken: the caller,
 * who may hold others, puts those and tries again later
 */
AV_MUST_USE static inline struct av_pin *av_pin_begin(struct av_seg *seg, uint32_t key)
{
	uint32_t place = av_pin_place;
	struct av_pin *pin = &seg->head->pin[place % AV_PINS];
	uint64_t free = 0, word = (uint64_t)av_lock_self << 32 | key;

	if (av_unlikely(place == 0 || atomic_load_explicit(&pin->word, memory_order_relaxed) ||
			!atomic_compare_exchange_strong(&pin->word, &free, word)))
		return av_pin_search(seg, word);
	av_barrier_behind_rmw(); /* before the key is looked at */
	return pin;
}

/* End the use. @pin: NULL: nothing */
static inline void av_pin_end(struct av_pin *pin)
{
	if (pin)
		atomic_store_explicit(&pin->word, 0, memory_order_release);
}

/**
 * av_pin_drain() - wait until nobody uses @key of @seg any more
 *
 * Other processes may be stopped, and a peer's words may name processes that use nothing: for them
 * it waits AV_PATIENCE_NS at most. The key is withdrawn already, or all users have been told to
 * stay away: no new use begins.
 * Context: may wait as long as a copy takes; no lock is held, and no pin of the caller's.
 * Return:  false: somebody still uses it
 */
bool av_pin_drain(struct av_seg *seg, uint32_t key);

/* Does a living process use @key of the own context @seg? Does not wait. */
bool av_pin_is_held(struct av_seg *seg, uint32_t key);

/**
 * av_pin_try_drain() - the same for an own context and all keys that @chosen chooses
 * @until: 0 before the first call, then kept between calls that share their patience
 *
 * A peer that uses one may be stopped: for peers it waits AV_STOPPED_NS at most, whatever is left.
 * Return: true: nobody uses them
 */
typedef bool av_pin_chosen(struct av_seg *seg, uint32_t key, const void *arg);
AV_MUST_USE bool av_pin_try_drain(struct av_seg *seg, av_pin_chosen *chosen, const void *arg,
				  uint64_t *until);

#endif
