/* SPDX-License-Identifier: MIT */
/* Time sources. All values are nanoseconds of CLOCK_MONOTONIC, which every process of a host
 * shares. */
#ifndef AV_BASE_CLOCK_H
#define AV_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Exact time; about 25 ns. */
static inline uint64_t av_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Time at the last scheduler tick, 1 to 10 ms old; about 6 ns. Only for "has a while passed?". */
static inline uint64_t av_now_coarse_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
