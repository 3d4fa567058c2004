/* SPDX-License-Identifier: MIT */
/* Rows of counters as text, as a JSON object and in Prometheus' exposition format, on standard
 * output. */
#ifndef AV_TOOL_STAT_WRITE_H
#define AV_TOOL_STAT_WRITE_H

#include <jansson.h>

#include "stat_rows.h"

/* All counters of a row, one in a line, with unit and meaning. */
void av_write_list(const struct av_column *column, unsigned int count, const struct av_row *row);

/* A table: a line for each row with its labels and some of the counters. */
void av_write_table(const struct av_column *column, unsigned int count, const struct av_row *row,
		    unsigned int rows);

/* An array of a row's counters, with all that is known of each; and an object of its labels and
 * values. The caller owns it; NULL if there is no memory. */
json_t *av_json_list(const struct av_column *column, unsigned int count, const struct av_row *row);
json_t *av_json_row(const struct av_column *column, unsigned int count, const struct av_row *row);

/* @scope: the word in the metrics' names, "anyverbs_SCOPE_COUNTER". */
void av_write_prometheus(const char *scope, const struct av_column *column, unsigned int count,
			 const struct av_rows *rows);

#endif
