/* SPDX-License-Identifier: MIT */
/* Clocks, in ns. CLOCK_MONOTONIC is the host's. Tests replace clock_gettime(): turned_clock.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t av_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The exact time. Takes about 25 ns. */
static inline uint64_t av_now_ns(void)
{
	return av_clock_ns(CLOCK_MONOTONIC);
}

static inline double av_now_seconds(void)
{
	return (double)av_now_ns() / 1e9;
}

/* The time of day, which an administrator may set. */
static inline uint64_t av_now_real_ns(void)
{
	return av_clock_ns(CLOCK_REALTIME);
}

/* The time of the last scheduler tick, 1 to 10 ms ago. Takes about 6 ns. For long timeouts. */
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

/* The longest wait for what only a peer can end: far longer than locks are held under load. */
#define AV_PEER_TIMEOUT_NS 2000000000ull

/*
 * The longest wait for a peer's copy, where the memory's owner can go on without: then the peer
 * counts as stopped. After a longer copy, the owner has some pages twice for a while.
 */
#define AV_STOPPED_NS 50000000ull

/* Likewise for a lock under which nothing changes. A request takes far less, even under load. */
#define AV_STUCK_NS 20000000ull

/* Have @ns passed since the first call? @until: 0 before the first call */
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
