/* SPDX-License-Identifier: MIT */
/* Numbers for tests against a model: any will do, but the same in each run. */
#ifndef AV_TESTS_RANDOM_H
#define AV_TESTS_RANDOM_H

#include <stdint.h>

/* The next number below @n. */
static inline uint32_t random_from(uint32_t *seed, uint32_t n)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)*seed * n >> 32);
}

#endif
