/* SPDX-License-Identifier: MIT */
/* Waiting for what another thread or process is about to do. */
#ifndef AV_BASE_BACKOFF_H
#define AV_BASE_BACKOFF_H

#include <stdbool.h>

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

#endif
