/* SPDX-License-Identifier: MIT */
#include "memory/early.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/thread.h"

#define RANGES 256u
#define LARGE  (64u << 10) /* a block that has pages of its own from then on */

static struct {
	struct {
		_Atomic uint64_t begin, bytes;
	} range[RANGES];
	_Atomic uint32_t count;
} early;

/* Without a name, so neither a file, nor the stack, nor the memory of brk(2). */
static bool is_large_private(const char *line, uint64_t *begin, uint64_t *end)
{
	char *rest;

	*begin = strtoull(line, &rest, 16);
	*end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;
	return *end > *begin && *end - *begin >= LARGE && rest[0] == ' ' && rest[1] &&
	       rest[2] == 'w' && rest[3] && rest[4] == 'p' &&
	       strcmp(rest + 5, " 00000000 00:00 0 \n") == 0;
}

void av_early_note(void)
{
	AV_UNCANCELLED;
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t begin, end;
	uint32_t n = 0;
	char *line = NULL;
	size_t room = 0;

	while (maps && n < RANGES && getline(&line, &room, maps) > 0) {
		if (!is_large_private(line, &begin, &end))
			continue;
		atomic_store(&early.range[n].begin, begin);
		atomic_store(&early.range[n++].bytes, end - begin);
	}
	atomic_store(&early.count, n);
	free(line);
	if (maps)
		fclose(maps);
}

bool av_early_has(uint64_t addr, uint64_t bytes)
{
	for (uint32_t i = 0, n = atomic_load(&early.count); i < n; i++)
		if (av_range_within(addr, bytes, atomic_load(&early.range[i].begin),
				    atomic_load(&early.range[i].bytes)))
			return true;
	return false;
}
