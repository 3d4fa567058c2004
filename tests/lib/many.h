/* SPDX-License-Identifier: MIT */
/* A program of many tests: tests/many.cmake. */
#ifndef TEST_MANY_H
#define TEST_MANY_H

#include <stddef.h>

struct many_test {
	const char *name;
	int (*run)(); /* a main(), with or without arguments */
};

/*
 * Run the test that is named by the first argument, or that runs in the process that started this
 * one. @tests ends with a NULL name.
 * Return:  its exit status; 2: there is no such test
 */
int many_run(const struct many_test *tests, int argc, char **argv);

#endif
