/* SPDX-License-Identifier: MIT */
/*
 * Pins: "a process is using this key right now".
 *
 * Whoever is about to touch memory behind a key first claims one of the target segment's pin words
 * with that key, then looks the key up; whoever deregisters first kills the key, then waits until
 * no pin names it. With full barriers on both sides, either the user sees the dead key or the other
 * sees the pin. A pin costs its user one atomic operation on a cache line that nobody else writes,
 * and nothing has to be repaired when a user dies: the word names its process, and the words of
 * dead processes are cleared by whoever waits for them.
 */
#ifndef AV_MEMORY_PIN_H
#define AV_MEMORY_PIN_H

#include <stdint.h>

#include "base/barrier.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "segment/segment.h"

/**
 * av_pin_begin() - announce the use of @key of @seg
 *
 * A full barrier: what is read afterwards was not read before.
 * Context: any thread; does not wait.
 * Return:  the word, to be given to av_pin_end(); NULL if all AV_PINS words are taken: the caller,
 * who may hold others, puts those and tries again later
 */
AV_MUST_USE struct av_pin *av_pin_begin(struct av_seg *seg, uint32_t key);

static inline void av_pin_end(struct av_pin *pin)
{
	atomic_store_explicit(&pin->word, 0, memory_order_release);
}

/*
 * Kept pins. A thread that uses keys of a segment again and again keeps words there for itself:
 * such a word names the process always, and a key while one is in use, which is two plain stores.
 * What is missing then is the full barrier. Mostly the caller has one to make anyway, a lock or
 * execution right that it takes in between. Threads of the segment's own process leave it to who
 * waits for pins (base/barrier.h), as long as that is seldom; when it is not, the segment says so
 * (@fenced), and they make theirs.
 */
enum av_pin_use {
	AV_PIN_LOCAL,  /* of the segment of who asks for the operation, */
	AV_PIN_REMOTE, /* and of the other's, which may be the same one */
};
static_assert(AV_PIN_REMOTE < AV_PIN_USES, "two words");

/* This thread's place among those that keep words; AV_PIN_THREADS: it has none yet, or none is
 * left. */
extern _Thread_local uint32_t av_pin_thread AV_TLS_FAST;

/* The slow part of av_pin_kept(): claims the word. */
struct av_pin *av_pin_keep(struct av_seg *seg, enum av_pin_use use);

/**
 * av_pin_kept() - this thread's own word in @seg, which names no key now
 *
 * Context: any thread; does not wait. The thread has no other use of the word under way.
 * Return:  the word, or NULL if there is none to be had: av_pin_begin() serves
 */
static inline struct av_pin *av_pin_kept(struct av_seg *seg, enum av_pin_use use)
{
	uint32_t thread = av_pin_thread;
	struct av_pin *h = av_likely(thread < AV_PIN_THREADS) ? seg->kept[thread][use] : NULL;

	return av_likely(h != NULL) ? h : av_pin_keep(seg, use);
}

/* Announce the use of @key. Nothing of it is looked at before one of the barriers below. */
static inline void av_pin_announce(struct av_pin *kept, uint32_t key)
{
	atomic_store_explicit(&kept->word, (uint64_t)av_lock_self << 32 | key,
			      memory_order_relaxed);
}

/* The same for who takes no lock or execution right in between: it is the atomic read-modify-write
 * itself. */
static inline void av_pin_announce_alone(struct av_pin *kept, uint32_t key)
{
	(void)atomic_exchange(&kept->word, (uint64_t)av_lock_self << 32 | key);
}

/* After announcing, and after an atomic read-modify-write of the caller's that came later. */
static inline void av_pin_barrier(void)
{
	av_barrier_behind_rmw();
}

/* After announcing a key of an own segment, without any such. */
static inline void av_pin_barrier_light(const struct av_seg *seg)
{
	if (av_likely(!atomic_load_explicit(&seg->head->fenced, memory_order_relaxed)))
		av_barrier_light();
	else
		av_barrier_full();
}

/* The key is not used any more. */
static inline void av_pin_rest(struct av_pin *kept)
{
	atomic_store_explicit(&kept->word, (uint64_t)av_lock_self << 32, memory_order_release);
}

/**
 * av_pin_drain() - wait until nobody uses @key of the own segment @seg any more
 *
 * The key is dead already, so no new use begins. Context: may wait as long as a copy takes; no lock
 * held. Makes a heavy barrier if other threads of this process keep words in the segment.
 */
void av_pin_drain(struct av_seg *seg, uint32_t key);

/* The same for all keys of @seg, whose users have been told to stay away. */
void av_pin_drain_all(struct av_seg *seg);

#endif
