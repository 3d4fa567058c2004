/* SPDX-License-Identifier: MIT */
/*
 * The recordings that "anyverbs stat --watch -o FILE" writes and "anyverbs plot" reads: for each
 * device and moment, the values of all device counters. CSV: a header "time,device,COUNTER...",
 * then one line per device and moment. JSON lines: one object per line with the same members. Time
 * is in seconds since 1970.
 */
#pragma once

#include <stdio.h>

#include "stat_rows.h"

struct av_record {
	FILE *file;
	bool json;
	bool begun;
};

/*
 * Create a recording. A @path that ends in .json, .jsonl or .ndjson gets JSON lines, any other CSV.
 * Return: false and errno
 */
bool av_record_open(struct av_record *record, const char *path);

/* Write one moment of one device. Return: false and errno */
bool av_record_write(struct av_record *record, double time, const struct av_column *column,
		     unsigned int count, const struct av_row *row);

/* Return: false and errno if anything could not be written, now or earlier */
bool av_record_close(struct av_record *record);

/* One line of a recording. Missing values are 0. */
struct av_recorded {
	double time;
	char device[64];
	double value[AV_COLUMNS_MAX]; /* in the order of the reader's @name */
};

/**
 * av_record_read() - read a recording in either format
 * @name: the counters wanted, @count of them
 * @list: out, freed by the caller
 * @rows: out
 * Return: NULL, or a static text that says what is wrong
 */
const char *av_record_read(FILE *file, const char *const *name, unsigned int count,
			   struct av_recorded **list, size_t *rows);
