/* SPDX-License-Identifier: MIT */
/*
 * Rows of counters for "anyverbs stat" and "top". A row describes a device, a process, a queue
 * pair, a CQ or a region.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "memory/odp.h"
#include "observe/counters.h"

#define AV_COLUMNS_MAX 80
#define AV_LABELS_MAX  10

/* One counter of a scope. */
struct av_column {
	const char *name, *unit, *help;
	bool gauge;
	const struct av_counter_info *info; /* NULL: the ODP counter @odp */
	enum av_odp_counter odp;	    /* if @info is NULL */
};

/* A property that names or describes the row's object: @text, or @number if @text is NULL. */
struct av_label {
	const char *name;
	const char *text;
	int64_t number;
	bool identity; /* constant while the object exists */
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
	bool incomplete; /* memory ran out before all rows were added */
};

/* The counters of one scope of enum av_scope, in display order. Return: their number. */
unsigned int av_columns(unsigned int scope, struct av_column column[AV_COLUMNS_MAX]);

/* The column of that name, or NULL. */
const struct av_column *av_column_find(const struct av_column *column, unsigned int count,
				       const char *name);

uint64_t av_column_value(const struct av_column *column, const struct av_row *row);

/*
 * Add the current rows of a device. AV_SCOPE_PORT and AV_SCOPE_HW add one row, like
 * AV_SCOPE_DEVICE.
 */
void av_rows_add(struct av_rows *rows, unsigned int scope, const struct av_device *dev);

/* Free all rows. */
void av_rows_free(struct av_rows *rows);
