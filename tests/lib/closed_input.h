/* SPDX-License-Identifier: MIT */
/* Without a standard input: a program may have closed it, and then what is opened has number 0. */
#ifndef TEST_CLOSED_INPUT_H
#define TEST_CLOSED_INPUT_H

#include <unistd.h>

#include "lib/check.h"

/* Return: for input_again() */
static inline int close_input(void)
{
	int saved = dup(0);

	close(0);
	return saved;
}

static inline void input_again(int saved)
{
	if (saved < 0) /* there was none */
		return;
	CHECK(dup2(saved, 0) == 0);
	close(saved);
}

#endif
