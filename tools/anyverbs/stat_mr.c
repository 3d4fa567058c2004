/* SPDX-License-Identifier: MIT */
#include "stat_mr.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "segment/pages.h"

const char *av_region_type(const struct av_region_info *info)
{
	return info->memory >= AV_REGION_PAGES ? av_alloc_type_name(info->type) : "-";
}

const char *av_region_sharing(const struct av_region_info *info)
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
	bool *early = arg;

	*early |= info->memory == AV_REGION_EARLY;
	if (info->huge && info->small)
		snprintf(pages, sizeof(pages), "%" PRIu64 " x 2 MiB + %" PRIu64 " x 4 KiB",
			 info->huge, info->small);
	else if (info->huge)
		snprintf(pages, sizeof(pages), "%" PRIu64 " x 2 MiB", info->huge);
	else if (info->small)
		snprintf(pages, sizeof(pages), "%" PRIu64 " x 4 KiB", info->small);
	printf("  %7" PRId32 "  0x%08" PRIx32 "  0x%012" PRIx64 "  %12" PRIu64
	       "  %-9s  %-13s  %-10s  %-23s  %8" PRIu64 "  %8" PRIu64 "  %8" PRIu64 "  %8" PRIu64
	       "\n",
	       info->pid, info->key, info->addr, info->length, av_region_memory_name(info->memory),
	       av_region_type(info), av_region_sharing(info), pages, info->counted[AV_MR_FAULTS],
	       info->counted[AV_MR_INVALIDATIONS], info->counted[AV_MR_REFUSED],
	       info->counted[AV_MR_REREGISTERED]);
}

void av_stat_mr_print(const struct av_device *dev)
{
	bool early = false;

	printf("%s\n  %7s  %-10s  %-14s  %12s  %-9s  %-13s  %-10s  %-23s  %8s  %8s  %8s  %8s\n",
	       dev->ibv.name, "PID", "KEY", "ADDRESS", "LENGTH", "MEMORY", "TYPE", "SHARED",
	       "PAGES", "FAULTS", "INVALID", "REFUSED", "REREG");
	av_region_report(dev->ibv.name, print_one, &early);
	if (early)
		puts("  early: allocated before the device was opened; 'anyverbs run "
		     "--shared-heap' shares such memory, too");
}
