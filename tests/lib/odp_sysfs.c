/* SPDX-License-Identifier: MIT */
#include "lib/odp_sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/wait.h"

#define STANDARD "/sys/class/infiniband_verbs/uverbs%u"
#define DEBUG	 "/sys/kernel/debug/mlx5/anyverbs.%u/odp_stats"

static const struct {
	const char *name;
	bool debug;
} files[ODP_COUNTERS] = {
	[ODP_CONTENTIONS] = {"invalidations_faults_contentions", false},
	[ODP_INVALIDATION_PAGES] = {"num_invalidation_pages", false},
	[ODP_INVALIDATIONS] = {"num_invalidations", false},
	[ODP_FAULT_PAGES] = {"num_page_fault_pages", false},
	[ODP_FAULTS] = {"num_page_faults", false},
	[ODP_PREFETCHES] = {"num_prefetchs_handled", false},
	[ODP_PREFETCH_PAGES] = {"num_prefetch_pages", false},
	[ODP_FAILED_RESOLUTIONS] = {"num_failed_resolutions", true},
	[ODP_MRS_NOT_FOUND] = {"num_mrs_not_found", true},
	[ODP_MR_PAGES] = {"num_odp_mr_pages", true},
	[ODP_MRS] = {"num_odp_mrs", true},
};

const char *odp_counter_name(enum odp_counter which)
{
	return files[which].name;
}

uint64_t sysfs_number(const char *path)
{
	char text[64], *end;
	int fd = open(path, O_RDONLY);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	uint64_t value;

	if (n <= 0)
		DIE("%s: errno %d", path, errno);
	close(fd);
	text[n] = '\0';
	value = strtoull(text, &end, 10);
	EXPECT(end != text && !strcmp(end, "\n"), "%s says '%s'", path, text);
	return value;
}

uint64_t odp_counter_of(unsigned int device, enum odp_counter which)
{
	char path[128];

	snprintf(path, sizeof(path), files[which].debug ? DEBUG "/%s" : STANDARD "/%s", device,
		 files[which].name);
	return sysfs_number(path);
}

struct odp_counters odp_counters_read(unsigned int device)
{
	struct odp_counters now;

	for (int i = 0; i < ODP_COUNTERS; i++)
		now.of[i] = odp_counter_of(device, (enum odp_counter)i);
	return now;
}

void odp_counter_wait(unsigned int device, enum odp_counter which, uint64_t least, unsigned int ms)
{
	(void)WAIT_UNTIL(odp_counter_of(device, which) >= least, ms);
}
