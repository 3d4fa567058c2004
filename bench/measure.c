/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>

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
	return value < 1 ? 6 : value < 1000 ? 2 : 0;
}

void series_print(struct series *s, const char *name, const char *size)
{
	double median, width;

	if (s->count != BENCH_RUNS)
		DIE("%s: %d values", name, s->count);
	qsort(s->value, BENCH_RUNS, sizeof(s->value[0]), ascending);
	median = s->value[BENCH_RUNS / 2];
	width = s->value[BENCH_RUNS - 1] - s->value[0];
	printf("%-24s %10s %12.*f %12.2f\n", name, size, decimals(median), median,
	       median > 0 ? width / median : 0.0);
	/* A table that grows tells which benchmark takes long. */
	fflush(stdout);
}
