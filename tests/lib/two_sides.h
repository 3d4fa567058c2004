/* SPDX-License-Identifier: MIT */
/* The usual test: between a side in this process and one in another. */
#ifndef TEST_TWO_SIDES_H
#define TEST_TWO_SIDES_H

#include "lib/side.h"

extern struct side a; /* in this process */
extern struct side b; /* in another, which asks for what a has */

/* Begin of main(): the other process does not return from it. A time limit, the sandbox, and both
 * sides, not connected. */
void two_sides_open(int argc, char **argv);

/* End of main(): both are stopped, and have left nothing. Return: its exit status */
int two_sides_close(void);

#endif
