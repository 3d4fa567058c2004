/* SPDX-License-Identifier: MIT */
/*
 * Hazards: "a process is using this key right now".
 *
 * Whoever is about to touch memory behind a key first claims one of the target segment's hazard words with
 * that key, then looks the key up; whoever deregisters first kills the key, then waits until no hazard names
 * it. With full barriers on both sides, either the user sees the dead key or the other sees the hazard. A
 * hazard costs its user one atomic operation on a cache line that nobody else writes, and nothing has to be
 * repaired when a user dies: the word names its process, and the words of dead processes are cleared by
 * whoever waits for them.
 */
#ifndef AV_MEMORY_HAZARD_H
#define AV_MEMORY_HAZARD_H

#include <stdint.h>

#include "base/barrier.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "hca/segment.h"

/**
 * av_hazard_begin() - announce the use of @key of @seg
 *
 * A full barrier: what is read afterwards was not read before.
 * Context: any thread; does not wait.
 * Return:  the word, to be given to av_hazard_end(); NULL if all AV_HAZARDS words are taken: the caller, who
 * may hold others, puts those and tries again later
 */
AV_MUST_USE struct av_hazard *av_hazard_begin(struct av_seg *seg, uint32_t key);

static inline void av_hazard_end(struct av_hazard *hazard)
{
	atomic_store_explicit(&hazard->word, 0, memory_order_release);
}

/*
 * Kept hazards. A thread that uses keys of a segment again and again keeps words there for itself: such a
 * word names the process always, and a key while one is in use, which is two plain stores. What is missing
 * then is the full barrier. Mostly the caller has one to make anyway, a lock or token that it takes in
 * between. Threads of the segment's own process leave it to who waits for hazards (base/barrier.h), as long
 * as that is seldom; when it is not, the segment says so (@fenced), and they make theirs.
 */
enum av_hazard_use {
	AV_HAZARD_LOCAL,  /* of the segment of who asks for the operation, */
	AV_HAZARD_REMOTE, /* and of the other's, which may be the same one */
};
static_assert(AV_HAZARD_REMOTE < AV_HAZARD_USES, "two words");

/* This thread's place among those that keep words; AV_HAZARD_THREADS: it has none yet, or none is left. */
extern _Thread_local uint32_t av_hazard_thread AV_TLS_FAST;

/* The slow part of av_hazard_kept(): claims the word. */
struct av_hazard *av_hazard_keep(struct av_seg *seg, enum av_hazard_use use);

/**
 * av_hazard_kept() - this thread's own word in @seg, which names no key now
 *
 * Context: any thread; does not wait. The thread has no other use of the word under way.
 * Return:  the word, or NULL if there is none to be had: av_hazard_begin() serves
 */
static inline struct av_hazard *av_hazard_kept(struct av_seg *seg, enum av_hazard_use use)
{
	uint32_t thread = av_hazard_thread;
	struct av_hazard *h = av_likely(thread < AV_HAZARD_THREADS) ? seg->kept[thread][use] : NULL;

	return av_likely(h != NULL) ? h : av_hazard_keep(seg, use);
}

/* Announce the use of @key. Nothing of it is looked at before one of the barriers below. */
static inline void av_hazard_announce(struct av_hazard *kept, uint32_t key)
{
	atomic_store_explicit(&kept->word, (uint64_t)av_lock_self << 32 | key, memory_order_relaxed);
}

/* The same for who takes no lock or token in between: it is the atomic read-modify-write itself. */
static inline void av_hazard_announce_alone(struct av_hazard *kept, uint32_t key)
{
	(void)atomic_exchange(&kept->word, (uint64_t)av_lock_self << 32 | key);
}

/* After announcing, and after an atomic read-modify-write of the caller's that came later. */
static inline void av_hazard_barrier(void)
{
	av_barrier_behind_rmw();
}

/* After announcing a key of an own segment, without any such. */
static inline void av_hazard_barrier_light(const struct av_seg *seg)
{
	if (av_likely(!atomic_load_explicit(&seg->head->fenced, memory_order_relaxed)))
		av_barrier_light();
	else
		av_barrier_full();
}

/* The key is not used any more. */
static inline void av_hazard_rest(struct av_hazard *kept)
{
	atomic_store_explicit(&kept->word, (uint64_t)av_lock_self << 32, memory_order_release);
}

/**
 * av_hazard_drain() - wait until nobody uses @key of the own segment @seg any more
 *
 * The key is dead already, so no new use begins. Context: may wait as long as a copy takes; no lock held.
 * Makes a heavy barrier if other threads of this process keep words in the segment.
 */
void av_hazard_drain(struct av_seg *seg, uint32_t key);

/* The same for all keys of @seg, whose users have been told to stay away. */
void av_hazard_drain_all(struct av_seg *seg);

#endif
