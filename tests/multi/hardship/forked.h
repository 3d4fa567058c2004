/* SPDX-License-Identifier: MIT */
/* A process that forks while an io_uring and RDMA write to its registered memory. */
#ifndef HARDSHIP_FORKED_H
#define HARDSHIP_FORKED_H

#include <stdbool.h>
#include <stdint.h>

/* Does not return if this process was started as one. */
void forked_main(int argc, char **argv);

/* Does this system allow an io_uring? */
bool forked_possible(void);

/* Have it fork so many times, and wait for its end. */
void forked_run(uint64_t count);

#endif
