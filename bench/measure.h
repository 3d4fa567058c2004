/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks share: a figure is measured several times, and its line says what is typical
 * and how far the measurements lay apart. Other load on the machine is seen in the spread. A bound
 * is for ratios within one run and for sizes, not for times; whether it is met is said, and nothing
 * else follows.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_RUNS 7 /* odd: one of them is the median */

struct series {
	double value[BENCH_RUNS];
	int count;
};

void series_add(struct series *s, double value);

/* One line of the table: name, size, median and (maximum - minimum) / median. */
void series_print(struct series *s, const char *name, const char *size);

/* The same, and whether the median is at most that. */
void series_print_most(struct series *s, const char *name, const char *size, double most);

/* The median of values that make up one; they are sorted then. */
double median_of(double *values, int count);

/* As many as that; or so few that nothing is measured, with BENCH_QUICK in the environment: to see
 * that the program runs. */
int bench_count(int count, int few);
static inline size_t bench_bytes(size_t bytes, size_t few)
{
	return bench_count(0, 1) ? few : bytes;
}

/* Time since @begin (now_ns()), of each of @count. */
double us_each(uint64_t begin, int count);
double ns_each(uint64_t begin, int count);

/* Anonymous memory of the program's own; @flags beside MAP_PRIVATE | MAP_ANONYMOUS. Given back by
 * munmap().
 */
void *bench_map(size_t bytes, int prot, int flags);

#endif
