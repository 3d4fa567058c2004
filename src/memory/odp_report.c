/* SPDX-License-Identifier: MIT */
#include "memory/odp_report.h"

#include <stddef.h>

#include "registry/directory.h"

#define GAUGE(member) (offsetof(struct av_odp_gauge, member) / sizeof(uint64_t))

_Static_assert(AV_ODP_COUNTER_N <= AV_DIR_COUNTERS, "the directory has room for all counters");
_Static_assert(sizeof(struct av_odp_gauge) == AV_DIR_GAUGES * sizeof(uint64_t),
	       "and for the gauges");

void av_odp_report(const char *device, uint64_t value[AV_ODP_COUNTER_N])
{
	uint64_t counters[AV_DIR_COUNTERS], gauges[AV_DIR_GAUGES];

	av_dir_read(device, counters, gauges);
	for (int i = 0; i < AV_ODP_COUNTER_N; i++)
		value[i] = counters[i];
	value[AV_ODP_COUNT_MR_PAGES] = gauges[GAUGE(pages)];
	value[AV_ODP_COUNT_MRS] = gauges[GAUGE(regions)];
}
