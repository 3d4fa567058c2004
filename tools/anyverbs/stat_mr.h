/* SPDX-License-Identifier: MIT */
/* "anyverbs stat mr": the regions there are, and what pages each is on. */
#ifndef AV_TOOL_STAT_MR_H
#define AV_TOOL_STAT_MR_H

#include "device/device.h"
#include "memory/region_report.h"

/* The regions of a device as a table, with some of their counters. */
void av_stat_mr_print(const struct av_device *dev);

/* The allocation type that was wished for, and what others may do with a shared region: "-" if
 * there is none.
 */
const char *av_region_type(const struct av_region_info *info);
const char *av_region_sharing(const struct av_region_info *info);

#endif
