/* SPDX-License-Identifier: MIT */
/*
 * Every clock of a test program, as the test turns it (base/clock.h). It stands still otherwise,
 * so that the same run has the same times, and a timeout takes no time.
 *
 * Whoever asks again and again until a moment has passed would ask for ever: after
 * @turned_clock_asks readings without a turn, each one moves it on by a microsecond.
 */
#ifndef TEST_TURNED_CLOCK_H
#define TEST_TURNED_CLOCK_H

#include <stdint.h>

#define TURNED_TICK_NS 4000000u /* of the coarse clocks */

extern unsigned int turned_clock_asks; /* 32, unless a test does much at one moment */

/* Nanoseconds. At the beginning an hour. */
uint64_t turned_clock_ns(void);

/* Not backwards: a moment that is over turns nothing. */
void turned_clock_to(uint64_t ns);

#endif
