/* SPDX-License-Identifier: MIT */
/*
 * Time sources, in nanoseconds. Every process of a host shares CLOCK_MONOTONIC. A unit test turns
 * them all by a clock_gettime() of its own, which the linker prefers: tests/lib/turned_clock.h.
 */
#ifndef AV_BASE_CLOCK_H
#define AV_BASE_CLOCK_H

#include <stdbool.h>
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
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline struct timespec av_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u)};
}

/*
 * How long anybody waits for what only a peer can end, and a peer's memory may not tell the truth.
 * Far more than a lock is ever held, on a machine that is busy, too; about what retries take.
 */

#define AV_PEER_TIMEOUT_NS 2000000000ull

/*
 * How long the owner of memory waits for a copy of a peer's where it can also do without: after
 * that the peer counts as stopped. Much more than most copies take; a longer one costs the owner
 * pages that exist twice for a while, and nobody a byte.
 */
#define AV_STOPPED_NS 50000000ull

/*
 * How long a lock may be held by one process, and nothing change, before its holder counts as
 * stopped for those who can do without: far more than a request takes, on a busy machine.
 */
#define AV_STUCK_NS 20000000ull

/* Have @ns passed since the first call? @until: 0 before that */
static inline bool av_timed_out_after(uint64_t *until, uint64_t ns)
{
	uint64_t now = av_now_coarse_ns();

	if (*until == 0)
		*until = now + ns;
	return now >= *until;
}

static inline bool av_timed_out(uint64_t *until)
{
	return av_timed_out_after(until, AV_PEER_TIMEOUT_NS);
}

#endif
