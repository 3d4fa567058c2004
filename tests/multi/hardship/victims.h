/* SPDX-License-Identifier: MIT */
/* What is done to victims (life.h) from outside. */
#ifndef HARDSHIP_VICTIMS_H
#define HARDSHIP_VICTIMS_H

#include <stdint.h>

/* So many are killed, each at a random instant of its life, and replaced. */
void victims_kill(uint64_t count, uint64_t seed);
/* A few are stopped for 1 ms to stop_max_ms each, at random instants, so many times altogether. */
extern uint64_t stop_max_ms;
void victims_stop(uint64_t count, uint64_t seed);

#endif
