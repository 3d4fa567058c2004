/* SPDX-License-Identifier: MIT */
#include "lib/pattern.h"

#include <stdbool.h>
#include <string.h>

static uint64_t word(uint64_t seed, uint64_t n)
{
	uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ull ^ n * 0xd6e8feb86659fd93ull;

	return (x ^ x >> 32) * 0xd6e8feb86659fd93ull ^ x >> 29;
}

/* Do the @n bytes equal those of the word? */
static bool is_word(const uint8_t *p, uint64_t w, size_t n)
{
	uint64_t there;

	if (n != sizeof(there))
		return false;
	memcpy(&there, p, sizeof(there));
	return there == w;
}

void pattern_fill(void *at, size_t bytes, uint64_t seed, uint64_t from)
{
	uint8_t *p = at;

	while (bytes > 0) {
		uint64_t w = word(seed, from / 8);
		size_t skip = from % 8, n = 8 - skip < bytes ? 8 - skip : bytes;

		if (n == sizeof(w)) /* no call, which a sanitizer would instrument */
			memcpy(p, &w, sizeof(w));
		else
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

		for (size_t i = 0; i < n && !is_word(p, w, n); i++)
			if (p[i] != ((uint8_t *)&w)[skip + i])
				return p + i - begin;
		p += n;
		from += n;
		bytes -= n;
	}
	return -1;
}

void areas_clear(uint8_t *arena, const struct area *areas, int count)
{
	for (int i = 0; i < count; i++) {
		uint64_t from = areas[i].offset - AREA_GUARD;

		pattern_fill(arena + from, areas[i].bytes + 2 * AREA_GUARD, PLACE_SEED, from);
	}
}

void areas_load(uint8_t *arena, const struct area *areas, int count, uint64_t seed)
{
	uint64_t done = 0;

	areas_clear(arena, areas, count);
	for (int i = 0; i < count; i++) {
		pattern_fill(arena + areas[i].offset, areas[i].bytes, seed, done);
		done += areas[i].bytes;
	}
}

/* As pattern_check(), by offsets in the arena. */
static int64_t check(const uint8_t *arena, uint64_t begin, uint64_t end, uint64_t seed,
		     uint64_t from)
{
	int64_t at = begin < end ? pattern_check(arena + begin, end - begin, seed, from) : -1;

	return at < 0 ? -1 : (int64_t)begin + at;
}

static int64_t check_area(const uint8_t *arena, const struct area *a, uint64_t seed, uint64_t done,
			  uint64_t bytes)
{
	uint64_t before = a->offset - AREA_GUARD, after = a->offset + bytes;
	int64_t at = check(arena, before, a->offset, PLACE_SEED, before);

	if (at < 0)
		at = check(arena, a->offset, after, seed, done);
	if (at < 0)
		at = check(arena, after, a->offset + a->bytes + AREA_GUARD, PLACE_SEED, after);
	return at;
}

int64_t areas_check(const uint8_t *arena, const struct area *areas, int count, uint64_t seed,
		    uint64_t bytes)
{
	uint64_t done = 0;

	for (int i = 0; i < count; i++) {
		uint64_t n = areas[i].bytes < bytes - done ? areas[i].bytes : bytes - done;
		int64_t at = check_area(arena, &areas[i], seed, done, n);

		if (at >= 0)
			return at;
		done += n;
	}
	return -1;
}
