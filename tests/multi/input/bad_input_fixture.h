/* SPDX-License-Identifier: MIT */
/*
 * What the tests of refused calls (test_bad_input_*.c) share: two contexts to confuse, and
 * expectations of what a call says.
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

/* What a call says: a pointer; an errno value, errno set to the same; or -1. Macros, to be printed
 * with their lines. */
#define expect_null(call, want)                                                         \
	do {                                                                            \
		const void *p_ = (call);                                                \
		EXPECT(!p_, "succeeded");                                               \
		EXPECT(p_ || errno == (want), "errno %d instead of %d", errno, (want)); \
	} while (0)

#define expect_errno(call, want)                                                                 \
	do {                                                                                     \
		int ret_ = (call);                                                               \
		EXPECT(ret_ == (want), "returned %d instead of %d", ret_, (want));               \
		EXPECT((want) == 0 || errno == (want), "errno %d instead of %d", errno, (want)); \
	} while (0)

#define expect_minus_one(call, want)                                                               \
	do {                                                                                       \
		int ret_ = (call);                                                                 \
		EXPECT(ret_ == -1 && errno == (want), "returned %d, errno %d instead of %d", ret_, \
		       errno, (want));                                                             \
	} while (0)

#endif
