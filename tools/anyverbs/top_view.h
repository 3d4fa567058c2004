/* SPDX-License-Identifier: MIT */
/* The data behind "anyverbs top", independent of a terminal: processes and their rates, sorted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "stat_rows.h"

/* Columns of numbers. Each has a key that sorts by it. */
enum av_top_column {
	AV_TOP_PID,
	AV_TOP_QPS,
	AV_TOP_XMIT,
	AV_TOP_RCV,
	AV_TOP_MESSAGES,
	AV_TOP_FAULTS,
	AV_TOP_ERRORS,
	AV_TOP_REGISTERED,
	AV_TOP_N
};

struct av_top_column_info {
	const char *heading; /* "--sort" takes the same word in lower case */
	char key;
	int width, decimals;
	const char *help;
	const char *member; /* of a JSON object */
};
extern const struct av_top_column_info av_top_column[AV_TOP_N];

struct av_top_row {
	const char *device;
	char command[17];
	double value[AV_TOP_N];
};

struct av_top_view {
	const struct av_device *only; /* NULL: all devices */
	enum av_top_column sort;
	bool reverse;

	struct av_top_row *row; /* sorted */
	size_t rows;
	struct av_top_row
		*device; /* sums over processes; value[AV_TOP_PID] is the number of processes */
	size_t devices;

	double moment; /* time of the last look */
	struct av_rows last, last_device;
};

/*
 * Look again. Rates cover the time since the last look; the first look has none. Return: false if
 * out of memory.
 */
bool av_top_look(struct av_top_view *view);

/* Sort again after a change of @sort or @reverse. */
void av_top_sort(struct av_top_view *view);

void av_top_end(struct av_top_view *view);

#define AV_TOP_DEVICE_LINES 2 /* so that each fits a terminal of 80 columns */

/*
 * Lines of text without newline: for a device (line @which, from 0), the headings, a process. @size
 * as in snprintf().
 */
void av_top_device_line(const struct av_top_row *device, unsigned int which, char *line,
			size_t size);
void av_top_heading(char *line, size_t size);
void av_top_line(const struct av_top_row *row, char *line, size_t size);

/* The live view. Return: exit status */
int av_top_screen(struct av_top_view *view, double seconds, uint64_t looks);
