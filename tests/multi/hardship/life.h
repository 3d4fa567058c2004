/* SPDX-License-Identifier: MIT */
/* A victim: a process that opens, registers, connects, moves data and closes, again and again. */
#ifndef HARDSHIP_LIFE_H
#define HARDSHIP_LIFE_H

#include <stdint.h>

#define LIFE_WORD "--life"

/*
 * Does not return if this process was started as one. It gets its seed; each time that it has
 * opened it tells its struct gear_info, and connects with whom it is told in time, or itself. It
 * ends when the socket does.
 */
void life_main(int argc, char **argv);

#endif
