/* SPDX-License-Identifier: MIT */
/*
 * The files that say which switches are on: where they are, reading and writing them. See
 * device/switches.h.
 */
#ifndef AV_DEVICE_SWITCHES_FILE_H
#define AV_DEVICE_SWITCHES_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define AV_SWITCH_ROWS 64 /* devices in a file; each has something on */

struct av_switch_row {
	char device[64];
	uint32_t on;
};

struct av_switch_table {
	unsigned int count;
	struct av_switch_row row[AV_SWITCH_ROWS];
};

enum av_switch_file { AV_SWITCH_FILE_CURRENT, AV_SWITCH_FILE_NEXT };

/**
 * av_switch_file_read() - read a file
 * @table: out; empty if there is no file, or others may write it
 *
 * Lines and words that make no sense are skipped.
 * Return: is there such a file?
 */
bool av_switch_file_read(enum av_switch_file which, struct av_switch_table *table);

/**
 * av_switch_file_write() - replace a file; readers see either the old text or the new one
 *
 * Context: within a change of the directory
 * Return: 0 or -errno
 */
AV_MUST_USE int av_switch_file_write(enum av_switch_file which,
				     const struct av_switch_table *table);

/* Remove the file if there is one. */
void av_switch_file_remove(enum av_switch_file which);

/* The switches of a device in a table. */
uint32_t av_switch_table_get(const struct av_switch_table *table, const char *device);

/* Set the switches of a device in a table. Return: 0 or -ENOSPC. */
AV_MUST_USE int av_switch_table_put(struct av_switch_table *table, const char *device, uint32_t on);

#endif
