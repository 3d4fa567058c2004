/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "lib/expect.h"

void series_add(struct series *s, double value)
{
	if (s->count == BENCH_RUNS)
		DIE("more than %d values", BENCH_RUNS);
	s->value[s->count++] = value;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int decimals(double value)
{
	return value < 0.01 ? 6 : value < 1000 ? 2 : 0;
}

double median_of(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(values[0]), ascending);
	return values[count / 2];
}

/* Print a line without its newline. Return: the median. */
static double print(struct series *s, const char *name, const char *size)
{
	double median, width;

	if (s->count != BENCH_RUNS)
		DIE("%s: %d values", name, s->count);
	median = median_of(s->value, BENCH_RUNS);
	width = s->value[BENCH_RUNS - 1] - s->value[0];
	printf("%-28s %10s %12.*f %8.2f", name, size, decimals(median), median,
	       median > 0 ? width / median : 0.0);
	return median;
}

void series_print(struct series *s, const char *name, const char *size)
{
	print(s, name, size);
	printf("\n");
	/* Flushed, so that the growing table shows which benchmark is slow. */
	fflush(stdout);
}

void series_print_most(struct series *s, const char *name, const char *size, double most)
{
	double median = print(s, name, size);
	char bound[32];

	snprintf(bound, sizeof(bound), "<= %g", most);
	printf(" %12s %s\n", bound, median <= most ? "met" : "NOT");
	fflush(stdout);
}

int bench_count(int count, int few)
{
	return getenv("BENCH_QUICK") ? few : count;
}

double us_each(uint64_t begin, int count)
{
	return ns_each(begin, count) / 1000;
}

double ns_each(uint64_t begin, int count)
{
	return (double)(now_ns() - begin) / count;
}

uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void *bench_map(size_t bytes, int prot, int flags)
{
	void *at = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (at == MAP_FAILED)
		DIE("mmap of %zu bytes: errno %d", bytes, errno);
	return at;
}
