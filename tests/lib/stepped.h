/* SPDX-License-Identifier: MIT */
/* A child that is stopped at each of its instructions. */
#ifndef TEST_STEPPED_H
#define TEST_STEPPED_H

#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/check.h"

/* A child that will do @what and end. It is stopped. */
static inline pid_t start_stopped(void (*what)(void))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0) {
		CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
		raise(SIGSTOP);
		what();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
	return child;
}

/* One instruction of it. Return: false: it has ended */
static inline bool step(pid_t child)
{
	int status;

	CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSTOPPED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
	return WIFSTOPPED(status);
}

/* So that it is stopped in about 50 different places; sanitized code is ten times as long. */
static inline unsigned int stride_of(void (*what)(void))
{
	pid_t child = start_stopped(what);
	unsigned int steps = 0;

	while (step(child))
		steps++;
	return steps / 50 + 1;
}

#endif
