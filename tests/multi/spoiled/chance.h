/* SPDX-License-Identifier: MIT */
/* Random numbers that a seed decides, one sequence for each thread. */
#ifndef SPOILED_CHANCE_H
#define SPOILED_CHANCE_H

#include <stdbool.h>
#include <stdint.h>

struct chance {
	uint64_t state;
};

/* Below @n; 0: any number. */
static inline uint64_t rnd(struct chance *c, uint64_t n)
{
	uint64_t x = c->state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	x ^= x >> 31;
	return n ? x % n : x;
}

static inline bool one_in(struct chance *c, uint64_t n)
{
	return rnd(c, n) == 0;
}

#endif
