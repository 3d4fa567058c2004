/* SPDX-License-Identifier: MIT */
/* One run: chance, which its seed decides, and what has happened in it. */
#ifndef TORTURE_RANDOM_RUN_H
#define TORTURE_RANDOM_RUN_H

#include "lib/expect.h"

extern uint64_t seed, step;
extern uint64_t requests_done, requests_denied;

void run_begin(uint64_t seed);
/* A number that two runs of the same steps have in common. */
uint64_t run_state(void);

/* Below @n; 0: any number. */
uint64_t rnd(uint64_t n);
bool chance(unsigned int percent);

/* What this step does: shown if something goes wrong in it or soon after. Once in each step. */
void say(const char *fmt, ...) TEST_PRINTF(1, 2);

/* The model and the device differ: nothing that follows would mean anything. Shows the history,
 * ends the program. */
void differ(const char *file, int line, const char *fmt, ...) TEST_PRINTF(3, 4)
	__attribute__((noreturn));

#define MUST(cond, ...)                                          \
	do {                                                     \
		if (!(cond))                                     \
			differ(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

#endif
