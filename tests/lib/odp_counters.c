/* SPDX-License-Identifier: MIT */
#include "lib/odp_counters.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/expect.h"

#define STANDARD "/sys/class/infiniband_verbs/uverbs0"
#define DEBUG	 "/sys/kernel/debug/mlx5/anyverbs.0/odp_stats"

static const struct {
	const char *folder, *name;
} files[ODP_COUNTERS] = {
	[ODP_CONTENTIONS] = {STANDARD, "invalidations_faults_contentions"},
	[ODP_INVALIDATION_PAGES] = {STANDARD, "num_invalidation_pages"},
	[ODP_INVALIDATIONS] = {STANDARD, "num_invalidations"},
	[ODP_FAULT_PAGES] = {STANDARD, "num_page_fault_pages"},
	[ODP_FAULTS] = {STANDARD, "num_page_faults"},
	[ODP_PREFETCHES] = {STANDARD, "num_prefetchs_handled"},
	[ODP_PREFETCH_PAGES] = {STANDARD, "num_prefetch_pages"},
	[ODP_FAILED_RESOLUTIONS] = {DEBUG, "num_failed_resolutions"},
	[ODP_MRS_NOT_FOUND] = {DEBUG, "num_mrs_not_found"},
	[ODP_MR_PAGES] = {DEBUG, "num_odp_mr_pages"},
	[ODP_MRS] = {DEBUG, "num_odp_mrs"},
};

const char *odp_counter_name(enum odp_counter which)
{
	return files[which].name;
}

uint64_t odp_counter(enum odp_counter which)
{
	char path[128], text[64], *end;
	uint64_t value;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", files[which].folder, files[which].name);
	fd = open(path, O_RDONLY);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (n <= 0)
		DIE("%s: errno %d", path, errno);
	close(fd);
	text[n] = '\0';
	value = strtoull(text, &end, 10);
	EXPECT(end != text && !strcmp(end, "\n"), "%s says '%s'", path, text);
	return value;
}

struct odp_counters odp_counters_read(void)
{
	struct odp_counters now;

	for (int i = 0; i < ODP_COUNTERS; i++)
		now.of[i] = odp_counter((enum odp_counter)i);
	return now;
}

void odp_counter_wait(enum odp_counter which, uint64_t least, unsigned int ms)
{
	const struct timespec moment = {.tv_nsec = 100000};
	uint64_t end = now_ms() + ms;

	while (odp_counter(which) < least && now_ms() < end)
		nanosleep(&moment, NULL);
}
