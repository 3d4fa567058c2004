/* SPDX-License-Identifier: MIT */
#include "lib/turned_clock.h"

#include <stdatomic.h>
#include <time.h>

#define HOUR_NS	  3600000000000u
#define SECOND_NS 1000000000u
#define STEP_NS	  1000u

unsigned int turned_clock_asks = 32;

/* The library has threads that sleep, and may ask. */
static _Atomic uint64_t now = HOUR_NS;
static _Atomic unsigned int asked;

uint64_t turned_clock_ns(void)
{
	return atomic_load(&now);
}

void turned_clock_to(uint64_t ns)
{
	atomic_store(&asked, 0);
	if (ns > atomic_load(&now))
		atomic_store(&now, ns);
}

/* Instead of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *to)
{
	uint64_t ns;

	if (atomic_fetch_add(&asked, 1) >= turned_clock_asks)
		atomic_fetch_add(&now, STEP_NS);
	ns = atomic_load(&now);
	if (clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_REALTIME_COARSE)
		ns -= ns % TURNED_TICK_NS;
	*to = (struct timespec){.tv_sec = (time_t)(ns / SECOND_NS),
				.tv_nsec = (long)(ns % SECOND_NS)};
	return 0;
}
