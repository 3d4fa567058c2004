/* SPDX-License-Identifier: MIT */
/* The ODP statistics of a device as one row of numbers. */
#ifndef AV_MEMORY_ODP_REPORT_H
#define AV_MEMORY_ODP_REPORT_H

#include <stdint.h>

#include "memory/odp_counters.h"

/**
 * av_odp_report() - the current values of all statistics of @device, counters and gauges
 *
 * Opens files but joins nothing. Context: any thread, no lock held.
 */
void av_odp_report(const char *device, uint64_t value[AV_ODP_COUNTER_N]);

#endif
