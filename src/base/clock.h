/* SPDX-License-Identifier: MIT */
/*
 * Time sources, in nanoseconds. Every process of a host shares CLOCK_MONOTONIC. A unit test turns
 * them all by a clock_gettime() of its own, which the linker prefers: tests/lib/turned_clock.h.
 */
#ifndef AV_BASE_CLOCK_H
#define AV_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of that clock. */
static inline uint64_t av_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Exact time; about 25 ns. */
static inline uint64_t av_now_ns(void)
{
	return av_clock_ns(CLOCK_MONOTONIC);
}

/* The same in seconds. */
static inline double av_now_seconds(void)
{
	return (double)av_now_ns() / 1e9;
}

/* The time of day; it may be set. */
static inline uint64_t av_now_real_ns(void)
{
	return av_clock_ns(CLOCK_REALTIME);
}

/* Time at the last scheduler tick, 1 to 10 ms old; about 6 ns. Only for "has a while passed?". */
static inline uint64_t av_now_coarse_ns(void)
{
	return av_clock_ns(CLOCK_MONOTONIC_COARSE);
}

static inline struct timespec av_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u)};
}

#endif
