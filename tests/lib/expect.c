/* SPDX-License-Identifier: MIT */
#include "lib/expect.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PRINTED_MAX 60 /* failures printed; all are counted */

static char name[300] = "(before the first row)";
static unsigned int rows, failed, failed_rows;
static bool row_failed;

void row(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	rows++;
	row_failed = false;
}

const char *row_name(void)
{
	return name;
}

void fail_at(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	failed_rows += !row_failed;
	row_failed = true;
	if (failed++ >= PRINTED_MAX)
		return;
	printf("FAIL %s\n     ", name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (%s:%d)\n", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line);
	fflush(stdout);
}

void die_at(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	printf("DIED in %s\n     ", name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (%s:%d)\n", file, line);
	exit(1);
}

unsigned int failures(void)
{
	return failed;
}

int summary(void)
{
	printf("%u rows, %u failed\n", rows, failed_rows);
	fflush(stdout);
	return failed ? 1 : 0;
}

static void too_long(int sig)
{
	static const char head[] = "TIME LIMIT exceeded in row: ";

	(void)!write(1, head, sizeof(head) - 1);
	(void)!write(1, name, strlen(name));
	(void)!write(1, "\n", 1);
	_exit(1);
}

void time_limit(unsigned int seconds)
{
	signal(SIGALRM, too_long);
	alarm(TEST_SANITIZED ? 2 * seconds : seconds);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
