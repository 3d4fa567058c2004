/* SPDX-License-Identifier: MIT */
/* Chance, and the history of a run. */
#include "torture/random_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t seed, step, requests_done, requests_denied;

static uint64_t random_state;

void run_begin(uint64_t with)
{
	seed = random_state = with;
}

uint64_t run_state(void)
{
	return random_state;
}

uint64_t rnd(uint64_t n)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return n ? (x ^ x >> 31) % n : 0;
}

bool chance(unsigned int percent)
{
	return rnd(100) < percent;
}

#define HISTORY 40
static char history[HISTORY][360];

void say(const char *fmt, ...)
{
	char *line = history[step % HISTORY];
	int n = snprintf(line, sizeof(history[0]), "%8lu ", step);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(history[0]) - (size_t)n, fmt, ap);
	va_end(ap);
}

/* The model and the device differ: nothing that follows would mean anything. What the device has to
 * say of it is printed, too. */
void differ(const char *file, int line, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (uint64_t i = step >= HISTORY ? step - HISTORY + 1 : 0; i <= step; i++)
		printf("%s\n", history[i % HISTORY]);
	fflush(stdout);
	(void)!system("'" ANYVERBS_TOOL "' explain -n 8; '" ANYVERBS_TOOL "' stat mr");
	die_at(file, line, "step %lu of TORTURE_SEED=%lu: %s", step, seed, text);
}
