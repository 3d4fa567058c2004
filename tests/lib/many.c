/* SPDX-License-Identifier: MIT */
#include "lib/many.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names the test to programs that it starts as /proc/self/exe. */
#define VARIABLE "TEST_OF_MANY"

static const struct many_test *find(const struct many_test *tests, const char *name)
{
	while (name && tests->name && strcmp(tests->name, name) != 0)
		tests++;
	return name && tests->name ? tests : NULL;
}

int many_run(const struct many_test *tests, int argc, char **argv)
{
	const struct many_test *test = argc > 1 ? find(tests, argv[1]) : NULL;

	if (test && setenv(VARIABLE, test->name, 1) == 0)
		return test->run(argc - 1, argv + 1);
	test = find(tests, getenv(VARIABLE));
	if (test)
		return test->run(argc, argv);
	fprintf(stderr, "usage: %s TEST [ARGUMENT]...; the tests are:\n", argv[0]);
	for (; tests->name; tests++)
		fprintf(stderr, "  %s\n", tests->name);
	return 2;
}
