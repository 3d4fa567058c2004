/* SPDX-License-Identifier: MIT */
/* Files with lines of "DEVICE SWITCH SWITCH...". They are replaced as a whole. */
#include "device/switches_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "registry/folder.h"
#include "registry/small_file.h"
#include "device/switches.h"

#define FILE_BYTES 16384 /* AV_SWITCH_ROWS full lines fit */

/* --- tables ---------------------------------------------------------------------- */

static struct av_switch_row *find(const struct av_switch_table *table, const char *device)
{
	for (unsigned int i = 0; i < table->count; i++)
		if (!strcmp(table->row[i].device, device))
			return (struct av_switch_row *)&table->row[i];
	return NULL;
}

uint32_t av_switch_table_get(const struct av_switch_table *table, const char *device)
{
	const struct av_switch_row *row = find(table, device);

	return row ? row->on : 0;
}

int av_switch_table_put(struct av_switch_table *table, const char *device, uint32_t on)
{
	struct av_switch_row *row = find(table, device);

	if (!row && on) {
		if (table->count == AV_SWITCH_ROWS)
			return -ENOSPC;
		row = &table->row[table->count++];
		snprintf(row->device, sizeof(row->device), "%s", device);
	}
	if (row)
		row->on = on;
	if (row && !on)
		*row = table->row[--table->count];
	return 0;
}

/* --- text ------------------------------------------------------------------------ */

static void parse_line(struct av_switch_table *table, char *line)
{
	char *rest = line, *device = strsep(&rest, " "), *word;
	uint32_t on = 0;

	if (strlen(device) >= sizeof(table->row[0].device))
		return;
	while ((word = strsep(&rest, " "))) {
		enum av_switch which = av_switch_by_name(word, strlen(word));

		if (which != AV_SWITCH_N)
			on |= AV_SWITCH_BIT(which);
	}
	if (*device && on)
		(void)!av_switch_table_put(table, device, on);
}

static void parse(struct av_switch_table *table, char *text)
{
	char *line;

	while ((line = strsep(&text, "\n")))
		parse_line(table, line);
}

static size_t print_line(char *to, size_t room, const struct av_switch_row *row)
{
	size_t at = (size_t)snprintf(to, room, "%s", row->device);

	for (int i = 0; i < AV_SWITCH_N; i++)
		if (row->on & AV_SWITCH_BIT(i))
			at += (size_t)snprintf(to + at, room - at, " %s", av_switch_info[i].name);
	return at + (size_t)snprintf(to + at, room - at, "\n");
}

/* --- places ---------------------------------------------------------------------- */

static int base_path(char path[PATH_MAX], enum av_switch_file which)
{
	int n = snprintf(path, PATH_MAX, "%s/anyverbs-%u.%s", av_folder_base(),
			 (unsigned int)geteuid(),
			 which == AV_SWITCH_FILE_CURRENT ? "current" : "next-boot");

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* The user's configuration folder. Return: false if there is none, or it must not be used. */
static bool config_folder(char path[PATH_MAX])
{
	const char *xdg = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
	int n = PATH_MAX;

	if (secure_getenv("ANYVERBS_DIR"))
		return false;
	if (xdg && xdg[0] == '/')
		n = snprintf(path, PATH_MAX, "%s", xdg);
	else if (home && home[0] == '/')
		n = snprintf(path, PATH_MAX, "%s/.config", home);
	return n < PATH_MAX;
}

/*
 * The path of the configuration folder, followed by @suffix. Return: false if that is too long, or
 * there is no folder.
 */
static bool config_path(char path[PATH_MAX], const char *suffix)
{
	size_t n;

	if (!config_folder(path))
		return false;
	n = strlen(path);
	return (size_t)snprintf(path + n, PATH_MAX - n, "%s", suffix) < PATH_MAX - n;
}

/* --- files ----------------------------------------------------------------------- */

static bool read_path(const char *path, struct av_switch_table *table)
{
	char text[FILE_BYTES];

	if (!av_small_file_read(path, text, sizeof(text)))
		return false;
	parse(table, text);
	return true;
}

bool av_switch_file_read(enum av_switch_file which, struct av_switch_table *table)
{
	char path[PATH_MAX];

	table->count = 0;
	if (which == AV_SWITCH_FILE_NEXT && config_path(path, "/anyverbs/next-boot") &&
	    read_path(path, table))
		return true;
	return base_path(path, which) == 0 && read_path(path, table);
}

/* Write to the configuration folder, which is made if needed. Return: false if that fails. */
static bool write_config(const char *text, size_t bytes)
{
	char path[PATH_MAX];

	if (config_path(path, ""))
		(void)!mkdir(path, 0700);
	if (config_path(path, "/anyverbs"))
		(void)!mkdir(path, 0700);
	return config_path(path, "/anyverbs/next-boot") &&
	       av_small_file_write(path, text, bytes) == 0;
}

int av_switch_file_write(enum av_switch_file which, const struct av_switch_table *table)
{
	char text[FILE_BYTES], path[PATH_MAX];
	size_t at = 0;
	int ret;

	for (unsigned int i = 0; i < table->count; i++)
		at += print_line(text + at, sizeof(text) - at, &table->row[i]);
	ret = base_path(path, which);
	if (ret)
		return ret;
	if (which == AV_SWITCH_FILE_NEXT && write_config(text, at)) {
		unlink(path); /* from when there was no other folder */
		return 0;
	}
	return av_small_file_write(path, text, at);
}

void av_switch_file_remove(enum av_switch_file which)
{
	char path[PATH_MAX];

	if (base_path(path, which) == 0)
		unlink(path);
	if (which == AV_SWITCH_FILE_NEXT && config_path(path, "/anyverbs/next-boot"))
		unlink(path);
}
