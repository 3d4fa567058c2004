/* SPDX-License-Identifier: MIT */
/* Bytes that reveal their place: byte i of pattern @seed is a function of both. */
#ifndef TEST_PATTERN_H
#define TEST_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Write bytes @from .. @from + @bytes of the pattern. */
void pattern_fill(void *at, size_t bytes, uint64_t seed, uint64_t from);

/* Return: offset from @at of the first byte that is not the pattern's, or -1. */
int64_t pattern_check(const void *at, size_t bytes, uint64_t seed, uint64_t from);

/*
 * Pieces of memory that together hold one message, each between two guards. Before a transfer,
 * pieces and guards hold a pattern by place, so that both stale and stray bytes show.
 */
#define PLACE_SEED 0x706c616365u /* its byte i belongs to offset i in the arena */
#define AREA_GUARD 16		 /* bytes on each side; pieces are at least twice that far apart */

struct area {
	uint64_t offset; /* in the arena */
	uint64_t bytes;
};

void areas_clear(uint8_t *arena, const struct area *areas, int count);
/* Clear the pieces, and load the message of pattern @seed into them. */
void areas_load(uint8_t *arena, const struct area *areas, int count, uint64_t seed);
/*
 * Do the pieces hold the first @bytes of the message, and are the rest and the guards as
 * areas_clear() left them? Return: -1, or the arena offset of the first wrong byte.
 */
int64_t areas_check(const uint8_t *arena, const struct area *areas, int count, uint64_t seed,
		    uint64_t bytes);

#endif
