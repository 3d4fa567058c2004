/* SPDX-License-Identifier: MIT */
/*
 * Writes rows of counters to standard output: as text, as JSON and in Prometheus' exposition
 * format.
 */
#pragma once

#include <jansson.h>

#include "stat_rows.h"

/* All counters of a row, one per line, with unit and meaning. */
void av_write_list(const struct av_column *column, unsigned int count, const struct av_row *row);

/* A table with a line per row: its labels and some of its counters. */
void av_write_table(const struct av_column *column, unsigned int count, const struct av_row *row,
		    unsigned int rows);

/*
 * An array of a row's counters with all that is known about each; and an object of its labels and
 * values. The caller owns the result; NULL: out of memory.
 */
json_t *av_json_list(const struct av_column *column, unsigned int count, const struct av_row *row);
json_t *av_json_row(const struct av_column *column, unsigned int count, const struct av_row *row);

/* @scope: part of the metric names, "anyverbs_SCOPE_COUNTER". */
void av_write_prometheus(const char *scope, const struct av_column *column, unsigned int count,
			 const struct av_rows *rows);
