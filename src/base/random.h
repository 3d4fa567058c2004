/* SPDX-License-Identifier: MIT */
/* Numbers that differ from process to process. They keep no secret. */
#ifndef AV_BASE_RANDOM_H
#define AV_BASE_RANDOM_H

#include <stdint.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Never waits. Where the kernel has no random numbers yet, clock and PID stand in. */
static inline uint64_t av_random(void)
{
	struct timespec now = {0};
	uint64_t value;

	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) == sizeof(value))
		return value;
	clock_gettime(CLOCK_REALTIME, &now);
	return ((uint64_t)now.tv_nsec << 32 | (uint32_t)now.tv_sec) ^
	       (uint64_t)getpid() * 0x9e3779b1u;
}

#endif
