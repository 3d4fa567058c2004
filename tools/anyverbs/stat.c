/* SPDX-License-Identifier: MIT */
/* "anyverbs stat": counters of devices, over all processes, and the objects that exist. */
#include "command.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "json_out.h"
#include "memory/odp.h"
#include "others.h"
#include "pick.h"
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
	bool json, prometheus;
	struct av_watch how; /* 0 seconds: once, without rates */
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

/* Groups, then devices. */
static const char *group_or_device(size_t i)
{
	unsigned int count;
	struct av_device *const *list = av_devices(&count);

	if (i < AV_ARRAY_SIZE(groups))
		return groups[i].name;
	i -= AV_ARRAY_SIZE(groups);
	return i < count ? list[i]->ibv.name : NULL;
}

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

static int show_json(const struct group *group, struct av_device *const *devs, unsigned int count)
{
	json_t *devices = json_array();
	bool ok = devices;

	for (unsigned int i = 0; ok && i < count; i++)
		ok = json_array_append_new(devices, make_json(group, devs[i])) == 0;
	if (ok)
		return av_json_write_object(json_pack("{s:s, s:s, s:o}", "version", AV_VERSION,
						      "group", group->name, "devices", devices));
	json_decref(devices);
	return av_json_write_object(NULL);
}

/* --- the command line ------------------------------------------------------------ */

static struct style style;

static int allows(const struct group *group)
{
	const struct av_command *stat = &av_command_stat;

	if (style.prometheus && (style.json || style.how.seconds > 0))
		return av_tool_misuse(stat, "--prometheus goes with neither --json nor --watch");
	if (style.how.seconds == 0 && (style.how.looks || style.how.output))
		return av_tool_misuse(stat, "--count and --output need --watch");
	if (style.how.seconds > 0 && group->scope != AV_SCOPE_DEVICE)
		return av_tool_misuse(stat, "--watch works with the group 'device' only");
	if (style.prometheus && !group->scope)
		return av_tool_misuse(stat, "the group '%s' is not available for Prometheus",
				      group->name);
	return -1;
}

static int no_such_group(const char *word)
{
	const char *nearest =
		av_word_nearest((struct av_word){word, strlen(word)}, group_or_device);
	char hint[AV_HINT_BYTES];

	if (word[0] >= '0' && word[0] <= '9')
		return av_tool_misuse(&av_command_stat,
				      "'%s' is no device; seconds follow at once: --watch=%s", word,
				      word);
	if (av_device_by_name(word))
		return av_tool_misuse(&av_command_stat, "the group comes before the device '%s'",
				      word);
	if (style.how.seconds > 0 || (nearest && !find_group(nearest))) {
		(void)av_pick_one(word); /* says so */
		return AV_EXIT_NO;
	}
	av_tool_complain(
		"there is no group or device '%s'%s", word,
		av_tool_hint(word, group_or_device, "'anyverbs help stat' says more", hint));
	return AV_EXIT_USAGE;
}

static int show(const struct group *group, struct av_device *const *devs, unsigned int count)
{
	bool ok;

	if (style.how.seconds > 0)
		return av_stat_watch(&style.how, devs, count);
	if (style.json)
		return show_json(group, devs, count);
	if (style.prometheus)
		ok = show_prometheus(group, devs, count);
	else
		ok = show_text(group, devs, count);
	if (!ok)
		av_tool_complain("out of memory");
	return ok ? AV_EXIT_OK : AV_EXIT_NO;
}

static int stat_main(int argc, char **argv)
{
	const struct group *group = &groups[0];
	struct av_device *one = argc == 1 ? av_device_by_name(argv[0]) : NULL;
	struct av_pick pick;
	int status;

	if (argc && !one)
		group = find_group(argv[0]);
	if (!group)
		return no_such_group(argv[0]);
	status = allows(group);
	if (status >= 0)
		return status;
	if (!av_pick(&pick, one ? one->ibv.name : argc == 2 ? argv[1] : NULL))
		return AV_EXIT_NO;
	av_others_complain();
	style.how.json = style.json;
	return show(group, pick.list, pick.count);
}

static const struct av_option options[] = {
	{'j', "json", NULL, NULL, &style.json, "write a JSON object, not text", NULL},
	{'p', "prometheus", NULL, NULL, &style.prometheus, "write Prometheus' exposition format",
	 NULL},
	{'w', "watch", "SECONDS", &av_value_seconds, &style.how.seconds,
	 "show rates, every second or every SECONDS", "1"},
	{'n', "count", "N", &av_value_count, &style.how.looks,
	 "stop after N looks, instead of when interrupted", NULL},
	{'o', "output", "FILE", &av_value_file, &style.how.output,
	 "also record all counters, for 'anyverbs plot'", NULL},
	{.name = NULL}};

const struct av_command av_command_stat = {
	.name = "stat",
	.summary = "Show the counters of devices, and the memory registered with them",
	.operands = "[device | port | process | qp | cq | mr | odp | cm] [DEVICE]",
	.most = 2,
	.options = options,
	.details = "  device   counters of the device, over all processes; the default\n"
		   "  port     counters of its port, named as in an adapter's sysfs folder\n"
		   "  process  counters of each process that uses it\n"
		   "  qp       counters of each queue pair\n"
		   "  cq       counters of each completion queue\n"
		   "  mr       memory regions: their owners and their pages\n"
		   "  odp      on-demand paging: page faults, invalidations, prefetches\n"
		   "  cm       port numbers of the connection manager: who listens\n"
		   "\n"
		   "Without DEVICE, shows all devices. They count since 'anyverbs reset' or since\n"
		   "the machine was started, whichever programs come and go.\n",
	.examples = "anyverbs stat port any0\n"
		    "anyverbs stat qp --json\n"
		    "anyverbs stat --watch=0.5 -n 3\n",
	.main = stat_main,
};
