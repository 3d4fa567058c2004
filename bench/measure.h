/* SPDX-License-Identifier: MIT */
/*
 * Shared by the benchmarks. A figure is measured several times; its line shows the typical value
 * and the spread, in which other load on the machine shows up. Bounds exist for ratios within one
 * run and for sizes, not for times. A missed bound is reported and has no other effect.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BENCH_RUNS 7 /* odd, so that one of them is the median */

struct series {
	double value[BENCH_RUNS];
	int count;
};

void series_add(struct series *s, double value);

/* Print one line: name, size, median and (maximum - minimum) / median. */
void series_print(struct series *s, const char *name, const char *size);

/* The same, and whether the median is at most @most. */
void series_print_most(struct series *s, const char *name, const char *size, double most);

/* The median of values that make up one figure. Sorts @values. */
double median_of(double *values, int count);

/*
 * Return @count; with BENCH_QUICK in the environment return @few: measures nothing, only shows that
 * the program runs.
 */
int bench_count(int count, int few);
static inline size_t bench_bytes(size_t bytes, size_t few)
{
	return bench_count(0, 1) ? few : bytes;
}

/* Time since @begin (now_ns()), divided by @count. */
double us_each(uint64_t begin, int count);
double ns_each(uint64_t begin, int count);

/* CPU time of this thread, so that other load does not count. */
uint64_t cpu_ns(void);

/*
 * Map anonymous private memory; @flags are added to MAP_PRIVATE | MAP_ANONYMOUS. Freed by munmap().
 */
void *bench_map(size_t bytes, int prot, int flags);
