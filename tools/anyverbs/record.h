/* SPDX-License-Identifier: MIT */
/*
 * What "anyverbs stat --watch -o FILE" records and "anyverbs plot" reads: for each device and
 * moment, all counters of the device as they stood. As CSV: a line of names, "time", "device" and
 * the counters, then a line for each. As JSON lines: one object per line with the same members.
 * Time is in seconds since 1970.
 */
#ifndef AV_TOOL_RECORD_H
#define AV_TOOL_RECORD_H

#include <stdio.h>

#include "stat_rows.h"

struct av_record {
	FILE *file;
	bool json;
	bool begun;
};

/* @path: one whose name ends in .json, .jsonl or .ndjson gets JSON lines, others CSV. Return: false
 * and errno
 */
bool av_record_open(struct av_record *record, const char *path);

/* Write one moment of one device. Return: false and errno */
bool av_record_write(struct av_record *record, double time, const struct av_column *column,
		     unsigned int count, const struct av_row *row);

/* Return: false and errno if something could not be written, now or before */
bool av_record_close(struct av_record *record);

/* One line of a recording; what it does not have is 0. */
struct av_recorded {
	double time;
	char device[64];
	double value[AV_COLUMNS_MAX]; /* by the reader's columns */
};

/**
 * av_record_read() - read a recording of either kind
 * @name: the counters that are wanted, @count of them
 * @list: out, owned by the caller (free); @rows: out
 * Return: NULL, or what is wrong with it: static text
 */
const char *av_record_read(FILE *file, const char *const *name, unsigned int count,
			   struct av_recorded **list, size_t *rows);

#endif
