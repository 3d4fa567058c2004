/* SPDX-License-Identifier: MIT */
#include "lib/pattern.h"

#include <string.h>

static uint64_t word(uint64_t seed, uint64_t n)
{
	uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ull ^ n * 0xd6e8feb86659fd93ull;

	return (x ^ x >> 32) * 0xd6e8feb86659fd93ull ^ x >> 29;
}

void pattern_fill(void *at, size_t bytes, uint64_t seed, uint64_t from)
{
	uint8_t *p = at;

	while (bytes > 0) {
		uint64_t w = word(seed, from / 8);
		size_t skip = from % 8, n = 8 - skip < bytes ? 8 - skip : bytes;

		memcpy(p, (uint8_t *)&w + skip, n);
		p += n;
		from += n;
		bytes -= n;
	}
}

int64_t pattern_check(const void *at, size_t bytes, uint64_t seed, uint64_t from)
{
	const uint8_t *begin = at, *p = at;

	while (bytes > 0) {
		uint64_t w = word(seed, from / 8);
		size_t skip = from % 8, n = 8 - skip < bytes ? 8 - skip : bytes;

		for (size_t i = 0; i < n && memcmp(p, (uint8_t *)&w + skip, n); i++)
			if (p[i] != ((uint8_t *)&w)[skip + i])
				return p + i - begin;
		p += n;
		from += n;
		bytes -= n;
	}
	return -1;
}
