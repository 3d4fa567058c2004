/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks share: a figure is measured several times, and its line says what is typical and how
 * far the measurements lay apart. Nothing is judged here: other load on the machine is seen in the spread.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#define BENCH_RUNS 7 /* odd: one of them is the median */

struct series {
	double value[BENCH_RUNS];
	int count;
};

void series_add(struct series *s, double value);

/* One line of the table: name, size, median and (maximum - minimum) / median. */
void series_print(struct series *s, const char *name, const char *size);

#endif
