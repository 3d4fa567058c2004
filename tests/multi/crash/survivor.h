/* SPDX-License-Identifier: MIT */
/* What a process sees of the death of its peer. */
#ifndef TEST_CRASH_SURVIVOR_H
#define TEST_CRASH_SURVIVOR_H

#include <stdint.h>

#include "crash/end.h"

/*
 * One round: a victim is started, lives and dies as @seed says; the requests to it end, and the
 * exchange with the third process, which has been started, goes on.
 */
void one_round(struct end *here, uint64_t seed);

/* The longest wait for an end; requests to the dead that succeeded. */
extern uint64_t slowest_ms, late_successes;

#endif
