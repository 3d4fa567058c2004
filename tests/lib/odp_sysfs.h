/* SPDX-License-Identifier: MIT */
/* The statistics of on-demand paging as programs find them: files of the virtual sysfs, for each
 * device. */
#ifndef TEST_ODP_SYSFS_H
#define TEST_ODP_SYSFS_H

#include <stdint.h>

enum odp_counter {
	ODP_CONTENTIONS,
	ODP_INVALIDATION_PAGES,
	ODP_INVALIDATIONS,
	ODP_FAULT_PAGES,
	ODP_FAULTS,
	ODP_PREFETCHES,
	ODP_PREFETCH_PAGES,
	ODP_FAILED_RESOLUTIONS,
	ODP_MRS_NOT_FOUND,
	ODP_MR_PAGES,
	ODP_MRS,
	ODP_COUNTERS
};

struct odp_counters {
	uint64_t of[ODP_COUNTERS];
};

/* The number that a file of a sysfs says; ends the program if there is no such file. */
uint64_t sysfs_number(const char *path);

/* Name of the file. */
const char *odp_counter_name(enum odp_counter which);
/* The current value for a device, counted from 0. Ends the program if the file is missing. */
uint64_t odp_counter_of(unsigned int device, enum odp_counter which);
struct odp_counters odp_counters_read(unsigned int device);
/* Wait until the value is at least @least, or @ms have passed. */
void odp_counter_wait(unsigned int device, enum odp_counter which, uint64_t least, unsigned int ms);

/* The value for the first device. */
static inline uint64_t odp_counter(enum odp_counter which)
{
	return odp_counter_of(0, which);
}

#endif
