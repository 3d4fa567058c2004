/* SPDX-License-Identifier: MIT */
/* "anyverbs stat mr": the memory regions, and the pages behind each. */
#pragma once

#include "device/device.h"
#include "memory/region.h"

/* Print the regions of a device as a table, with some of their counters. */
void av_stat_mr_print(const struct av_device *dev);

/*
 * The allocation type requested, and what other processes may do with a shared region; "-": does
 * not apply.
 */
const char *av_region_type(const struct av_region_info *info);
const char *av_region_sharing(const struct av_region_info *info);
