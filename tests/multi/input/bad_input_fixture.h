/* SPDX-License-Identifier: MIT */
/*
 * What the tests of refused calls (test_bad_input_*.c) share: two contexts to confuse.
 */
#ifndef TEST_BAD_INPUT_FIXTURE_H
#define TEST_BAD_INPUT_FIXTURE_H

#include <errno.h>

#include "lib/expect.h"
#include "lib/side.h"

#define PAGE 4096ul

extern struct side here, there; /* two contexts of this process */
extern struct node *n, *m;	/* theirs */

/* The test: open both, call @run, and close them again. Return: exit status for main(). */
int bad_input_test(int argc, char **argv, void (*run)(void));

#endif
