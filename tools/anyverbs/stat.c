/* SPDX-License-Identifier: MIT */
/* "anyverbs stat": counters of devices, over all processes, and the objects that exist. */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "memory/odp_counters.h"
#include "stat_cm.h"
#include "stat_mr.h"
#include "stat_rows.h"
#include "stat_watch.h"
#include "stat_write.h"

/*
 * A group of statistics. Groups with a scope show rows of counters (stat_rows.h); others have
 * functions of their own.
 */
struct group {
	const char *name;
	unsigned int scope; /* one or two of enum av_scope, shown one after the other; 0: none */
	const char
		*member; /* name of the array of rows in a device's JSON object; NULL: "counters" */

	void (*print)(const struct av_device *dev);
	json_t *(*make_json)(
		const struct av_device *dev); /* the caller owns the result; NULL: out of memory */
};

/* How to show it. */
struct style {
	bool json, prometheus, watch;
	struct av_watch how;
};

/* --- on-demand paging ------------------------------------------------------------ */

static unsigned int odp_columns(struct av_column column[AV_COLUMNS_MAX])
{
	struct av_column all[AV_COLUMNS_MAX];
	unsigned int count = 0, n = av_columns(AV_SCOPE_DEVICE, all);

	for (unsigned int i = 0; i < n; i++)
		if (!all[i].info)
			column[count++] = all[i];
	return count;
}

static void print_odp(const struct av_device *dev)
{
	struct av_row row = {.device = dev->ibv.name};
	struct av_column column[AV_COLUMNS_MAX];

	av_odp_report(dev->ibv.name, row.odp);
	av_write_list(column, odp_columns(column), &row);
}

static json_t *make_odp_json(const struct av_device *dev)
{
	struct av_row row = {.device = dev->ibv.name};
	struct av_column column[AV_COLUMNS_MAX];
	json_t *rows;

	av_odp_report(dev->ibv.name, row.odp);
	rows = av_json_list(column, odp_columns(column), &row);
	return rows ? json_pack("{s:s, s:o}", "device", dev->ibv.name, "counters", rows) : NULL;
}

static const struct group groups[] = {
	{"device", AV_SCOPE_DEVICE, NULL, NULL, NULL},
	{"port", AV_SCOPE_PORT | AV_SCOPE_HW, NULL, NULL, NULL},
	{"process", AV_SCOPE_PROCESS, "processes", NULL, NULL},
	{"qp", AV_SCOPE_QP, "qps", NULL, NULL},
	{"cq", AV_SCOPE_CQ, "cqs", NULL, NULL},
	{"mr", AV_SCOPE_MR, "regions", av_stat_mr_print, NULL},
	{"odp", 0, NULL, print_odp, make_odp_json},
	{"cm", 0, "ports", av_stat_cm_print, av_stat_cm_json},
};

static const struct group *find_group(const char *name)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(groups); i++)
		if (!strcmp(name, groups[i].name))
			return &groups[i];
	return NULL;
}

/* --- groups with a scope --------------------------------------------------------- */

static bool print_rows(const struct group *group, const struct av_device *dev)
{
	struct av_column column[AV_COLUMNS_MAX];
	unsigned int count = av_columns(group->scope, column);
	struct av_rows rows = {0};
	bool ok;

	av_rows_add(&rows, group->scope, dev);
	if (!group->member && rows.count)
		av_write_list(column, count, rows.list);
	else if (rows.count)
		av_write_table(column, count, rows.list, rows.count);
	else
		printf("%s\n", dev->ibv.name);
	ok = !rows.incomplete;
	av_rows_free(&rows);
	return ok;
}

static json_t *json_of_rows(const struct group *group, const struct av_rows *rows)
{
	struct av_column column[AV_COLUMNS_MAX];
	unsigned int count = av_columns(group->scope, column);
	json_t *list;

	if (!group->member)
		return rows->count ? av_json_list(column, count, rows->list) : NULL;
	list = json_array();
	for (unsigned int i = 0; list && i < rows->count; i++)
		if (json_array_append_new(list, av_json_row(column, count, &rows->list[i]))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static json_t *make_json(const struct group *group, const struct av_device *dev)
{
	struct av_rows rows = {0};
	json_t *list;

	if (group->make_json)
		return group->make_json(dev);
	av_rows_add(&rows, group->scope, dev);
	list = rows.incomplete ? NULL : json_of_rows(group, &rows);
	av_rows_free(&rows);
	return list ? json_pack("{s:s, s:o}", "device", dev->ibv.name,
				group->member ? group->member : "counters", list)
		    : NULL;
}

static bool show_prometheus(const struct group *group, struct av_device *const *devs,
			    unsigned int count)
{
	struct av_column column[AV_COLUMNS_MAX];
	unsigned int columns = av_columns(group->scope, column);
	struct av_rows rows = {0};
	bool ok;

	for (unsigned int i = 0; i < count; i++)
		av_rows_add(&rows, group->scope, devs[i]);
	av_write_prometheus(group->name, column, columns, &rows);
	ok = !rows.incomplete;
	av_rows_free(&rows);
	return ok;
}

/* --- all groups ------------------------------------------------------------------ */

static bool show_text(const struct group *group, struct av_device *const *devs, unsigned int count)
{
	bool ok = true;

	for (unsigned int i = 0; i < count; i++) {
		if (i)
			putchar('\n');
		if (group->print)
			group->print(devs[i]);
		else
			ok = print_rows(group, devs[i]) && ok;
	}
	return ok;
}

static bool show_json(const struct group *group, struct av_device *const *devs, unsigned int count)
{
	json_t *all, *devices = json_array();
	bool ok = devices;

	for (unsigned int i = 0; ok && i < count; i++)
		ok = json_array_append_new(devices, make_json(group, devs[i])) == 0;
	all = ok ? json_pack("{s:s, s:s, s:O}", "version", AV_VERSION, "group", group->name,
			     "devices", devices)
		 : NULL;
	ok = all && json_dumpf(all, stdout, JSON_INDENT(2)) == 0;
	json_decref(all);
	json_decref(devices);
	putchar('\n');
	return ok;
}

static int show(const struct group *group, const struct style *style, struct av_device *const *devs,
		unsigned int count)
{
	bool ok;

	if (style->watch)
		return av_stat_watch(&style->how, devs, count);
	if (style->prometheus)
		ok = show_prometheus(group, devs, count);
	else if (style->json)
		ok = show_json(group, devs, count);
	else
		ok = show_text(group, devs, count);
	if (!ok)
		av_tool_complain("cannot write the output");
	return ok ? AV_EXIT_OK : AV_EXIT_NO;
}

/* --- the command line ------------------------------------------------------------ */

static bool parse_seconds(const char *text, double *seconds)
{
	char *end;

	*seconds = text ? strtod(text, &end) : 1;
	return !text || (end != text && !*end && *seconds >= 0.01 && *seconds <= 86400);
}

static bool parse_count(const char *text, unsigned long *count)
{
	char *end;

	errno = 0;
	*count = strtoul(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *count > 0;
}

/* Return: false if the options contradict each other or are wrong. */
static bool parse(int argc, char **argv, struct style *style)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},	  {"prometheus", no_argument, NULL, 'p'},
		{"watch", optional_argument, NULL, 'w'},  {"count", required_argument, NULL, 'n'},
		{"output", required_argument, NULL, 'o'}, {NULL, 0, NULL, 0}};
	bool ok = true;
	int c;

	while (ok && (c = getopt_long(argc, argv, "jpw::n:o:", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			style->json = true;
			break;
		case 'p':
			style->prometheus = true;
			break;
		case 'w':
			style->watch = true;
			ok = parse_seconds(optarg, &style->how.seconds);
			break;
		case 'n':
			ok = parse_count(optarg, &style->how.looks);
			break;
		case 'o':
			style->how.output = optarg;
			break;
		default:
			return false;
		}
	}
	style->how.json = style->json;
	return ok && !(style->prometheus && (style->json || style->watch)) &&
	       (style->watch || (!style->how.looks && !style->how.output));
}

static bool allows(const struct group *group, const struct style *style)
{
	if (style->watch && group->scope != AV_SCOPE_DEVICE) {
		av_tool_complain("--watch works with the group 'device' only");
		return false;
	}
	if (style->prometheus && !group->scope) {
		av_tool_complain("the group '%s' is not available for Prometheus", group->name);
		return false;
	}
	return true;
}

static int stat_main(int argc, char **argv)
{
	const struct group *group = &groups[0];
	struct style style = {0};
	struct av_device *const *list, *one;
	unsigned int count;

	if (!parse(argc, argv, &style) || argc - optind > 2)
		return av_tool_usage(&av_command_stat);
	list = av_devices(&count);
	one = argc - optind == 1 ? av_device_by_name(argv[optind]) : NULL;
	if (argc > optind && !one) {
		group = find_group(argv[optind]);
		if (!group) {
			av_tool_complain("there is no group or device '%s'; 'anyverbs help stat' "
					 "and 'anyverbs devices' list them",
					 argv[optind]);
			return AV_EXIT_USAGE;
		}
	}
	if (!allows(group, &style))
		return AV_EXIT_USAGE;
	if (argc - optind == 2) {
		one = av_device_by_name(argv[optind + 1]);
		if (!one) {
			av_tool_complain("there is no device '%s'; 'anyverbs devices' lists them",
					 argv[optind + 1]);
			return AV_EXIT_NO;
		}
	}
	return show(group, &style, one ? &one : list, one ? 1 : count);
}

const struct av_command av_command_stat = {
	.name = "stat",
	.summary = "Show the counters of devices, and the memory registered with them",
	.synopsis = "[device | port | process | qp | cq | mr | odp] [DEVICE] [OPTION]...",
	.details =
		"  device   counters of the device, over all processes; the default\n"
		"  port     counters of its port, named as in an adapter's sysfs folder\n"
		"  process  counters of each process that uses it\n"
		"  qp       counters of each queue pair\n"
		"  cq       counters of each completion queue\n"
		"  mr       memory regions: their owners and their pages\n"
		"  odp      on-demand paging: page faults, invalidations, prefetches\n"
		"\n"
		"  -j, --json             write a JSON object instead of text\n"
		"  -p, --prometheus       write Prometheus' exposition format\n"
		"  -w, --watch[=SECONDS]  show rates, every second or every SECONDS\n"
		"  -n, --count N          stop after N lines, instead of when interrupted\n"
		"  -o, --output FILE      also record all counters, for 'anyverbs plot'\n"
		"\n"
		"Without DEVICE, shows all devices. Counting starts when the first process uses\n"
		"any device, and ends with the last process.\n",
	.main = stat_main,
};
