/* SPDX-License-Identifier: MIT */
/* Runs rows that must hold wherever the two sides are. */
#ifndef TEST_WAYS_H
#define TEST_WAYS_H

#include "lib/side.h"

/*
 * Call @rows with both sides in two processes, in two contexts of this process, and in one context,
 * and tell it which. Enter the sandbox first. Both sides are stopped afterwards.
 */
void three_ways(struct side *a, struct side *b, void (*rows)(const char *way));

#endif
