/* SPDX-License-Identifier: MIT */
/* Switches in force, and those for the next reset. */
#include "device/switches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS 64 /* devices in a file; each has something on */

struct row {
	char device[64];
	uint32_t on;
};

struct table {
	unsigned int count;
	struct row row[ROWS];
};

enum file { CURRENT, NEXT };
#define FILE_BYTES 16384 /* ROWS full lines fit */

/* Both files. Too large for the stacks of the program's threads. */
struct files {
	struct table current, next;
	char text[FILE_BYTES]; /* of the one that is read or written */
};

const struct av_switch_info av_switch_info[AV_SWITCH_N] = {
	[AV_SWITCH_ADVANCED_PCI] = {"ADVANCED_PCI_SETTINGS", "Advanced settings may be changed", 0},
	[AV_SWITCH_CAPI] = {"IBM_CAPI_EN", "On-demand regions use the host's page tables",
			    AV_SWITCH_BIT(AV_SWITCH_ADVANCED_PCI)},
	[AV_SWITCH_TUNNELED_ATOMIC] = {"IBM_TUNNELED_ATOMIC_EN",
				       "Regions can take RDMA WRITEs as atomic operations", 0},
	[AV_SWITCH_AS_NOTIFY] = {"IBM_AS_NOTIFY_EN", "Completion queues can wake a thread directly",
				 0},
};

enum av_switch av_switch_by_name(const char *name, size_t length)
{
	int i = 0;

	while (i < AV_SWITCH_N && (strlen(av_switch_info[i].name) != length ||
				   memcmp(av_switch_info[i].name, name, length)))
		i++;
	return (enum av_switch)i;
}

enum av_switch av_switch_lacking(uint32_t set, enum av_switch *by)
{
	for (int i = 0; i < AV_SWITCH_N; i++) {
		uint32_t lacking = set & AV_SWITCH_BIT(i) ? av_switch_info[i].needs & ~set : 0;

		if (!lacking)
			continue;
		*by = (enum av_switch)i;
		return (enum av_switch)__builtin_ctz(lacking);
	}
	return AV_SWITCH_N;
}

/* --- tables ---------------------------------------------------------------------- */

static struct row *find_switch_row(const struct table *table, const char *device)
{
	for (unsigned int i = 0; i < table->count; i++)
		if (!strcmp(table->row[i].device, device))
			return (struct row *)&table->row[i];
	return NULL;
}

static uint32_t table_get(const struct table *table, const char *device)
{
	const struct row *row = find_switch_row(table, device);

	return row ? row->on : 0;
}

/* Return: 0 or -ENOSPC. */
static int table_put(struct table *table, const char *device, uint32_t on)
{
	struct row *row = find_switch_row(table, device);

	if (!row && on) {
		if (table->count == ROWS)
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

static void parse_line(struct table *table, char *line)
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
		(void)!table_put(table, device, on);
}

static void parse_switch_table(struct table *table, char *text)
{
	char *line;

	while ((line = strsep(&text, "\n")))
		parse_line(table, line);
}

static size_t print_line(char *to, size_t room, const struct row *row)
{
	size_t at = (size_t)snprintf(to, room, "%s", row->device);

	for (int i = 0; i < AV_SWITCH_N; i++)
		if (row->on & AV_SWITCH_BIT(i))
			at += (size_t)snprintf(to + at, room - at, " %s", av_switch_info[i].name);
	return at + (size_t)snprintf(to + at, room - at, "\n");
}

/* --- places ---------------------------------------------------------------------- */

static int base_path(char path[PATH_MAX], enum file which)
{
	int n = snprintf(path, PATH_MAX, "%s/anyverbs-%u.%s", av_folder_base(),
			 (unsigned int)geteuid(), which == CURRENT ? "current" : "next-boot");

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* @suffix in the user's configuration folder. Return: false: too long, no folder, unusable */
static bool config_path(char path[PATH_MAX], const char *suffix)
{
	const char *xdg = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
	const char *dir = secure_getenv("ANYVERBS_DIR");
	bool named = xdg && xdg[0] == '/';

	if ((dir && *dir) || (!named && (!home || home[0] != '/')))
		return false;
	return snprintf(path, PATH_MAX, "%s%s%s", named ? xdg : home, named ? "" : "/.config",
			suffix) < PATH_MAX;
}

/* --- files ----------------------------------------------------------------------- */

static bool read_path(struct files *f, const char *path, struct table *table)
{
	if (!av_small_file_read(path, f->text, sizeof(f->text)))
		return false;
	parse_switch_table(table, f->text);
	return true;
}

/* Lines and words that make no sense are skipped. Return: is there such a file? */
static bool file_read(struct files *f, enum file which, struct table *table)
{
	char path[PATH_MAX];

	table->count = 0;
	if (which == NEXT && config_path(path, "/anyverbs/next-boot") && read_path(f, path, table))
		return true;
	return base_path(path, which) == 0 && read_path(f, path, table);
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

/* Replace the file as a whole. Context: within a change. Return: 0 or -errno. */
static int file_write(struct files *f, enum file which, const struct table *table)
{
	char path[PATH_MAX];
	size_t at = 0;
	int ret;

	for (unsigned int i = 0; i < table->count; i++)
		at += print_line(f->text + at, sizeof(f->text) - at, &table->row[i]);
	ret = base_path(path, which);
	if (ret)
		return ret;
	if (which == NEXT && write_config(f->text, at)) {
		unlink(path); /* from when there was no other folder */
		return 0;
	}
	return av_small_file_write(path, f->text, at);
}

static void file_remove(enum file which)
{
	char path[PATH_MAX];

	if (base_path(path, which) == 0)
		unlink(path);
	if (which == NEXT && config_path(path, "/anyverbs/next-boot"))
		unlink(path);
}

/* --- switches -------------------------------------------------------------------- */

static void read_both(struct files *f)
{
	bool there = file_read(f, CURRENT, &f->current);

	(void)file_read(f, NEXT, &f->next);
	if (!there)
		f->current = f->next;
}

struct av_switches av_switches_read(const char *device)
{
	struct files *f = malloc(sizeof(*f));
	struct av_switches ret;

	if (!f)
		return (struct av_switches){0};
	read_both(f);
	ret = (struct av_switches){
		.current = table_get(&f->current, device),
		.next = table_get(&f->next, device),
	};
	free(f);
	return ret;
}

/* If everything has its default, there are no files. Context: within a change. */
static int write_both(struct files *f)
{
	int ret = file_write(f, CURRENT, &f->current);

	if (ret == 0)
		ret = file_write(f, NEXT, &f->next);
	if (ret == 0 && !f->current.count && !f->next.count) {
		file_remove(NEXT);
		file_remove(CURRENT);
	}
	return ret;
}

/* Context: within a change. */
static int set_next_switches(struct files *f, const char *device, uint32_t mask, uint32_t on)
{
	enum av_switch by;
	int ret;

	read_both(f);
	on = (table_get(&f->next, device) & ~mask) | (on & mask);
	if (av_switch_lacking(on, &by) != AV_SWITCH_N)
		return -EPERM;
	ret = table_put(&f->next, device, on);
	return ret ? ret : write_both(f);
}

int av_switches_set(const char *device, uint32_t mask, uint32_t on)
{
	struct files *f = malloc(sizeof(*f));
	int ret = f ? av_dir_change_begin() : -ENOMEM;

	if (ret == 0) {
		ret = set_next_switches(f, device, mask, on);
		av_dir_change_end();
	}
	free(f);
	return ret;
}

static bool is_among(uint32_t ref, const uint32_t *refs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (refs[i] == ref)
			return true;
	return false;
}

/* Is a context of the device open that is not one of @failed? Context: within a change. */
static bool is_device_in_use(const char *device, const uint32_t *failed, size_t count)
{
	uint32_t place = av_dir_find_device(av_dir, device);

	for (uint32_t slot = 0; place && slot < av_dir_rows(&av_dir->context_end, AV_REF_SLOTS);
	     slot++) {
		const struct av_dir_context *c = &av_dir->context[slot];
		uint32_t ref = atomic_load(&c->ref);

		if (ref && atomic_load(&c->device) == place && !is_among(ref, failed, count) &&
		    av_dir_proc_alive(atomic_load(&c->proc)))
			return true;
	}
	return false;
}

/* Context: within a change. */
static int apply_next_switches(struct files *f, const char *device)
{
	int ret;

	read_both(f);
	ret = table_put(&f->current, device, table_get(&f->next, device));
	return ret ? ret : write_both(f);
}

int av_switches_reset(const char *device, const uint32_t *failed, size_t count)
{
	struct files *f = malloc(sizeof(*f));
	int ret = f ? -EBUSY : -ENOMEM;

	if (f && av_dir_change_begin() == 0) {
		if (!is_device_in_use(device, failed, count))
			ret = apply_next_switches(f, device);
		if (ret == 0)
			av_dir_counters_reset(device);
		av_dir_change_end();
	}
	free(f);
	return ret;
}

int av_switches_take(const char *device, uint32_t *on)
{
	struct files *f = malloc(sizeof(*f));
	bool changing;

	if (!f)
		return -ENOMEM;
	/*
	 * A later reset finds the context, whose device is already known. While somebody is stopped
	 * within a change, a reset does not happen, unless it is that one: its writer goes last.
	 */
	changing = av_dir_change_soon();
	read_both(f);
	*on = table_get(&f->current, device);
	if (changing)
		av_dir_change_end();
	free(f);
	return 0;
}
