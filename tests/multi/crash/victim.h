/* SPDX-License-Identifier: MIT */
/* The process that has itself killed. */
#ifndef TEST_CRASH_VICTIM_H
#define TEST_CRASH_VICTIM_H

#include <stdint.h>

/*
 * Connects over the socket, moves data of these kinds (enum kind), and dies at a step and after a
 * delay that the seed chooses. Does not return.
 */
void victim_main(int sock, uint64_t seed, unsigned int kinds);

#endif
