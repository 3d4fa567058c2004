/* SPDX-License-Identifier: MIT */
/* A process whose threads are cancelled at random instants of verbs. */
#ifndef HARDSHIP_CANCELLED_H
#define HARDSHIP_CANCELLED_H

#include <stdint.h>

/* Does not return if this process was started as one. */
void cancelled_main(int argc, char **argv);

/* Have it cancel so many threads, and wait for its end. */
void cancelled_run(uint64_t count, uint64_t seed);

#endif
