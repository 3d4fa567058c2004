/* SPDX-License-Identifier: MIT */
/* Waiting for what has to happen, never for time to pass; and for a bounded time. */
#ifndef TEST_WAIT_H
#define TEST_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t wait_clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Between two looks at a condition. */
static inline void wait_moment(void)
{
	usleep(100); /* short enough to add nothing, long enough to leave the core to others */
}

/*
 * For who is then struck: killed, stopped or cancelled, at any instruction. Nothing is expected to
 * have happened by then; other tests strike at another moment.
 */
static inline void let_go_on(unsigned int us)
{
	usleep(us);
}

/* Look at @cond again and again, for @ms at most. True if it has become true. */
#define WAIT_UNTIL(cond, ms)                                       \
	({                                                         \
		const uint64_t end_ = wait_clock_ms() + (ms);      \
		bool met_;                                         \
		while (!(met_ = (cond)) && wait_clock_ms() < end_) \
			wait_moment();                             \
		met_;                                              \
	})

/* Is that thread, of any process, asleep in the kernel? False if there is none (0 is no thread). */
static inline bool task_sleeps(pid_t task)
{
	char path[64], state = 0;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)task);
	stat = fopen(path, "re");
	if (!stat)
		return false;
	if (fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(stat);
	return state == 'S';
}

/* How long this thread has been ready to run, while others had the core. 0 if that is unknown. */
static inline uint64_t wait_ready_ns(void)
{
	FILE *file = fopen("/proc/thread-self/schedstat", "re");
	unsigned long long ns = 0;

	if (file && fscanf(file, "%*u %llu", &ns) != 1)
		ns = 0;
	if (file)
		fclose(file);
	return ns;
}

/*
 * The time in which this thread has run or slept, but not been ready: a busy machine makes nothing
 * late by it, and what waits for a peer does so still.
 */
static inline uint64_t undisturbed_ms(void)
{
	struct timespec ts;
	uint64_t ready;

	do {
		ready = wait_ready_ns();
		clock_gettime(CLOCK_MONOTONIC, &ts);
	} while (wait_ready_ns() != ready);
	return ((uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec - ready) / 1000000;
}

/* How often that thread of this process has waited in the kernel. 0 if there is none. */
static inline unsigned long task_waits(pid_t task)
{
	char path[64], line[128];
	unsigned long count = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)task);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status))
		(void)sscanf(line, "voluntary_ctxt_switches: %lu", &count);
	if (status)
		fclose(status);
	return count;
}

#endif
