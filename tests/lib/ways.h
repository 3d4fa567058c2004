/* SPDX-License-Identifier: MIT */
/* Rows that hold wherever the two sides are. */
#ifndef TEST_WAYS_H
#define TEST_WAYS_H

#include "lib/side.h"

/*
 * Have both sides in two processes, in two contexts of this one, and in one context, and call @rows
 * each time, with what that is called. The sandbox has been entered; both sides are stopped
 * afterwards.
 */
void three_ways(struct side *a, struct side *b, void (*rows)(const char *way));

#endif
