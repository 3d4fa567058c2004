/* SPDX-License-Identifier: MIT */
/* Waiting for what another thread or process is about to do. */
#ifndef AV_BASE_BACKOFF_H
#define AV_BASE_BACKOFF_H

#include <stdbool.h>

#define AV_BACKOFF_SPINS  100u
#define AV_BACKOFF_YIELDS 200u

/**
 * av_backoff() - wait a little: spin at first, then yield the core, then nap
 * @turn: how often the caller has waited for the same thing
 *
 * Context: any thread. A yield takes as long as the others that want the core have it: on a busy
 * machine some milliseconds. So a deadline is looked at between yields, not after them.
 */
void av_backoff(unsigned int turn);

/* Has who holds the core of the caller, or another, had a chance to go on? Then it may give up. */
static inline bool av_backoff_enough(unsigned int turn)
{
	return turn >= AV_BACKOFF_SPINS + 10;
}

#endif
