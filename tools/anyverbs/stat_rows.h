/* SPDX-License-Identifier: MIT */
/* What "anyverbs stat" and "top" show: rows of counters, each of a device, a process, a queue pair,
 * a CQ or a region.
 */
#ifndef AV_TOOL_STAT_ROWS_H
#define AV_TOOL_STAT_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "memory/odp_counters.h"
#include "observe/counters.h"

#define AV_COLUMNS_MAX 80
#define AV_LABELS_MAX  10

/* One counter, of a row of some scope. */
struct av_column {
	const char *name, *unit, *help;
	bool gauge;
	const struct av_counter_info *info; /* NULL: a statistic of on-demand paging, */
	enum av_odp_counter odp;	    /* this one */
};

/* What a row is about: text, or else a number. */
struct av_label {
	const char *name;
	const char *text;
	int64_t number;
	bool identity; /* it stays the same while the thing exists */
};

struct av_row {
	const char *device;
	unsigned int labels;
	struct av_label label[AV_LABELS_MAX];
	struct av_counted counted;
	uint64_t odp[AV_ODP_COUNTER_N];
};

struct av_rows {
	struct av_row *list;
	unsigned int count, room;
	bool incomplete; /* there was no memory for all */
};

/* The counters of a scope (enum av_scope, one), in the order in which they are shown. Return: their
 * number */
unsigned int av_columns(unsigned int scope, struct av_column column[AV_COLUMNS_MAX]);

/* The column of that name, or NULL. */
const struct av_column *av_column_find(const struct av_column *column, unsigned int count,
				       const char *name);

uint64_t av_column_value(const struct av_column *column, const struct av_row *row);

/* Add the rows of a device, as of now. AV_SCOPE_PORT and AV_SCOPE_HW: one, as AV_SCOPE_DEVICE. */
void av_rows_add(struct av_rows *rows, unsigned int scope, const struct av_device *dev);

/* Forget all rows; frees the memory. */
void av_rows_free(struct av_rows *rows);

/* "RC" and so on; "INIT" and so on. */
const char *av_qp_type_name(uint32_t type);
const char *av_qp_state_name(uint32_t state);

#endif
