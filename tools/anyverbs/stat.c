/* SPDX-License-Identifier: MIT */
/* "anyverbs stat": what devices have counted, of all processes together, and what regions there are. */
#include "command.h"

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "hca/device.h"
#include "memory/odp_report.h"
#include "stat_mr.h"

/* One number of a device, as it is shown. */
struct statistic {
	const char *name, *unit, *help;
	bool gauge; /* what is now, not what has been since the device came into being */
	uint64_t value;
};

#define STATISTICS_MAX AV_ODP_COUNTER_N /* of the largest group */

struct group {
	const char *name;
	const char *summary;

	void (*print)(const struct av_device *dev);
	json_t *(*make_json)(
		const struct av_device *dev); /* owned by the caller; NULL if there is no memory */
};

static unsigned int read_odp(const struct av_device *dev, struct statistic list[STATISTICS_MAX])
{
	uint64_t value[AV_ODP_COUNTER_N];

	av_odp_report(dev->ibv.name, value);
	for (unsigned int i = 0; i < AV_ODP_COUNTER_N; i++) {
		const struct av_odp_counter_info *info = &av_odp_counter_info[i];

		list[i] = (struct statistic){info->name, info->unit, info->help, info->gauge, value[i]};
	}
	return AV_ODP_COUNTER_N;
}

static void print_odp(const struct av_device *dev)
{
	struct statistic list[STATISTICS_MAX];
	unsigned int count = read_odp(dev, list);
	size_t width = strlen("COUNTER");

	for (unsigned int i = 0; i < count; i++)
		if (strlen(list[i].name) > width)
			width = strlen(list[i].name);
	printf("%s\n  %-*s  %12s  %-7s  %s\n", dev->ibv.name, (int)width, "COUNTER", "VALUE", "UNIT",
	       "MEANING");
	for (unsigned int i = 0; i < count; i++)
		printf("  %-*s  %12" PRIu64 "  %-7s  %s\n", (int)width, list[i].name, list[i].value,
		       list[i].unit, list[i].help);
}

static json_t *make_odp_json(const struct av_device *dev)
{
	struct statistic list[STATISTICS_MAX];
	unsigned int count = read_odp(dev, list);
	json_t *rows = json_array();

	for (unsigned int i = 0; rows && i < count; i++) {
		json_t *row = json_pack("{s:s, s:I, s:s, s:b, s:s}", "counter", list[i].name, "value",
					(json_int_t)list[i].value, "unit", list[i].unit, "gauge",
					list[i].gauge, "help", list[i].help);

		if (json_array_append_new(rows, row)) {
			json_decref(rows);
			return NULL;
		}
	}
	return rows ? json_pack("{s:s, s:o}", "device", dev->ibv.name, "counters", rows) : NULL;
}

static const struct group groups[] = {
	{"odp", "On-demand paging: page faults, invalidations, prefetches", print_odp, make_odp_json},
	{"mr", "Memory regions: whose they are, and what pages they are on", av_stat_mr_print,
	 av_stat_mr_json},
};

static void print_groups(void)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(groups); i++)
		printf("%-8s  %s\n", groups[i].name, groups[i].summary);
}

static const struct group *find_group(const char *name)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(groups); i++)
		if (!strcmp(name, groups[i].name))
			return &groups[i];
	return NULL;
}

static bool print_json(const struct group *group, json_t *devices)
{
	json_t *all =
		json_pack("{s:s, s:s, s:O}", "version", AV_VERSION, "group", group->name, "devices", devices);
	bool ok = all && json_dumpf(all, stdout, JSON_INDENT(2)) == 0;

	json_decref(all);
	putchar('\n');
	return ok;
}

static int show(const struct group *group, struct av_device *const *devs, unsigned int count, bool json)
{
	json_t *devices = json ? json_array() : NULL;
	bool written = !json || devices;

	for (unsigned int i = 0; written && i < count; i++) {
		if (json) {
			written = json_array_append_new(devices, group->make_json(devs[i])) == 0;
			continue;
		}
		if (i)
			putchar('\n');
		group->print(devs[i]);
	}
	if (json)
		written = written && print_json(group, devices);
	json_decref(devices);
	if (!written)
		av_tool_complain("cannot write the output");
	return written ? AV_EXIT_OK : AV_EXIT_NO;
}

static int stat_main(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
	const struct group *group;
	struct av_device *const *list, *one;
	unsigned int count;
	bool json = false;
	int c;

	while ((c = getopt_long(argc, argv, "j", options, NULL)) != -1) {
		if (c != 'j')
			return av_tool_usage(&av_command_stat);
		json = true;
	}
	if (argc - optind > 2 || (argc == optind && json))
		return av_tool_usage(&av_command_stat);
	if (argc == optind) {
		print_groups();
		return AV_EXIT_OK;
	}
	group = find_group(argv[optind]);
	if (!group) {
		av_tool_complain("there are no statistics '%s'; 'anyverbs stat' lists them", argv[optind]);
		return AV_EXIT_USAGE;
	}
	list = av_devices(&count);
	if (argc - optind == 2) {
		one = av_device_by_name(argv[optind + 1]);
		if (!one) {
			av_tool_complain("there is no device '%s'; 'anyverbs devices' lists them",
					 argv[optind + 1]);
			return AV_EXIT_NO;
		}
		list = &one;
		count = 1;
	}
	return show(group, list, count, json);
}

const struct av_command av_command_stat = {
	.name = "stat",
	.summary = "Show what devices have counted and what is registered with them",
	.synopsis = "[odp | mr [DEVICE] [--json]]",
	.details = "Without arguments, the groups of statistics there are. Without DEVICE, all devices.\n"
		   "\n"
		   "  -j, --json  write a JSON object instead of text\n"
		   "\n"
		   "Of all processes that use the device, since the first of those that do now began.\n",
	.main = stat_main,
};
