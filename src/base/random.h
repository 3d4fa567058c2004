/* SPDX-License-Identifier: MIT */
/* Numbers that differ between processes, and hashes of bytes. Neither is secure. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Never blocks. If the kernel has no random numbers yet, uses the clock and the PID. */
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

#define AV_FNV1A 0xcbf29ce484222325ull /* the hash of no bytes */

/* 64-bit FNV-1a. @hash: of the bytes before these */
static inline uint64_t av_fnv1a(uint64_t hash, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ p[i]) * 0x100000001b3ull;
	return hash;
}
