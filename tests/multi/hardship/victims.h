/* SPDX-License-Identifier: MIT */
/* What is done to victims (life.h) from outside. */
#ifndef HARDSHIP_VICTIMS_H
#define HARDSHIP_VICTIMS_H

#include <stdint.h>

/* So many are killed, each at a random instant of its life, and replaced. */
void victims_kill(uint64_t count, uint64_t seed);
/* A few are stopped for 1 to 50 ms each, at random instants, so many times altogether. */
void victims_stop(uint64_t count, uint64_t seed);

#endif
