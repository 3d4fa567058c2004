/* SPDX-License-Identifier: MIT */
/*
 * cmocka, with the headers that it needs before it, and the cases of a unit test. TEST(name) begins
 * one; run_cases(), the end of main(), runs all of the file in their order.
 */
#ifndef TEST_UNIT_H
#define TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

struct unit_case {
	struct CMUnitTest test;
	int line;
	struct unit_case *next;
};

/* Those of this file, by line. */
static struct unit_case *unit_cases;

static inline void unit_add(struct unit_case *c)
{
	struct unit_case **at = &unit_cases;

	while (*at && (*at)->line < c->line)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
}

/* Set-up and tear-down of the case, or NULL; its body follows. */
#define TEST_WITH(name, set_up, tear_down)                                                   \
	static void name(void **state);                                                      \
	__attribute__((constructor)) static void add_##name(void)                            \
	{                                                                                    \
		static struct unit_case c = {.test = {#name, name, set_up, tear_down, NULL}, \
					     .line = __LINE__};                              \
                                                                                             \
		unit_add(&c);                                                                \
	}                                                                                    \
	static void name(void **state)

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Set-up and tear-down of all cases together, or NULL. Return: how many failed */
static inline int run_cases(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
	struct CMUnitTest tests[64];
	size_t n = 0;

	for (struct unit_case *c = unit_cases; c; c = c->next) {
		if (n == sizeof(tests) / sizeof(tests[0]))
			abort();
		tests[n++] = c->test;
	}
	return _cmocka_run_group_tests("tests", tests, n, set_up, tear_down);
}

#endif
