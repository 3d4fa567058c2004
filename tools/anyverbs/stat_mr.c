/* SPDX-License-Identifier: MIT */
#include "stat_mr.h"

#include <inttypes.h>
#include <stdio.h>

#include "hca/page_policy.h"
#include "memory/region_report.h"

static const char *type_of(const struct av_region_info *info)
{
	return info->memory >= AV_REGION_PAGES ? av_alloc_type_name(info->type) : "-";
}

static const char *sharing_of(const struct av_region_info *info)
{
	if (!info->shared)
		return "-";
	if (info->second)
		return "second";
	return info->writable ? "read-write" : "read";
}

static void print_one(const struct av_region_info *info, void *arg)
{
	char pages[64] = "-";

	if (info->huge && info->small)
		snprintf(pages, sizeof(pages), "%" PRIu64 " x 2 MiB + %" PRIu64 " x 4 KiB", info->huge,
			 info->small);
	else if (info->huge)
		snprintf(pages, sizeof(pages), "%" PRIu64 " x 2 MiB", info->huge);
	else if (info->small)
		snprintf(pages, sizeof(pages), "%" PRIu64 " x 4 KiB", info->small);
	printf("  %7" PRId32 "  0x%08" PRIx32 "  0x%012" PRIx64 "  %12" PRIu64 "  %-9s  %-13s  %-10s  %s\n",
	       info->pid, info->key, info->addr, info->length, av_region_memory_name(info->memory),
	       type_of(info), sharing_of(info), pages);
}

void av_stat_mr_print(const struct av_device *dev)
{
	printf("%s\n  %7s  %-10s  %-14s  %12s  %-9s  %-13s  %-10s  %s\n", dev->ibv.name, "PID", "KEY",
	       "ADDRESS", "LENGTH", "MEMORY", "TYPE", "SHARED", "PAGES");
	av_region_report(dev->ibv.name, print_one, NULL);
}

/* A row that there is no memory for makes the array NULL, and with it the whole. */
static void add_one(const struct av_region_info *info, void *arg)
{
	json_t **rows = arg, *row;

	if (!*rows)
		return;
	row = json_pack("{s:i, s:I, s:I, s:I, s:s, s:s, s:s, s:I, s:I}", "pid", (int)info->pid, "key",
			(json_int_t)info->key, "address", (json_int_t)info->addr, "length",
			(json_int_t)info->length, "memory", av_region_memory_name(info->memory), "type",
			type_of(info), "shared", sharing_of(info), "huge_pages", (json_int_t)info->huge,
			"small_pages", (json_int_t)info->small);
	if (json_array_append_new(*rows, row) == 0)
		return;
	json_decref(*rows);
	*rows = NULL;
}

json_t *av_stat_mr_json(const struct av_device *dev)
{
	json_t *rows = json_array();

	av_region_report(dev->ibv.name, add_one, &rows);
	return rows ? json_pack("{s:s, s:o}", "device", dev->ibv.name, "regions", rows) : NULL;
}
