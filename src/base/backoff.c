/* SPDX-License-Identifier: MIT */
#include "base/backoff.h"

#include <sched.h>
#include <time.h>

#include "base/compiler.h"

#define YIELDS 200u
#define NAP_NS 50000

void av_backoff(unsigned int turn)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	if (turn < AV_BACKOFF_SPINS)
		av_pause();
	else if (turn < AV_BACKOFF_SPINS + YIELDS)
		sched_yield();
	else
		nanosleep(&nap, NULL);
}
