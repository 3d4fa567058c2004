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

#include "base/compiler.h"
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

/**
 * av_hazard_drain() - wait until nobody uses @key of the own segment @seg any more
 *
 * The key is dead already, so no new use begins. Context: may wait as long as a copy takes; no lock held.
 */
void av_hazard_drain(struct av_seg *seg, uint32_t key);

/* The same for all keys of @seg, whose users have been told to stay away. */
void av_hazard_drain_all(struct av_seg *seg);

#endif
