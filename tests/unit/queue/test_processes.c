/* SPDX-License-Identifier: MIT */
/* Which contexts are one process in a report, and that it has the sum of what they count. */
#include <stdlib.h>

#include "base/compiler.h"
#include "device/device.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "queue/objects.h"

#define DEVICE "any0"

/* In the order in which they are opened. A number of a process means nothing without its space. */
static const struct {
	int32_t pid;
	uint64_t pidns;
} contexts[] = {{1, 7}, {2, 7}, {1, 8}, {1, 7}, {2, 7}, {1, 7}};

static struct {
	int32_t pid;
	uint64_t pidns, contexts; /* how many it has */
	uint64_t ones;		  /* sum of 1 << the number of each */
	bool seen;
} processes[] = {
	{1, 7, 3, 1 << 0 | 1 << 3 | 1 << 5, false},
	{2, 7, 2, 1 << 1 | 1 << 4, false},
	{1, 8, 1, 1 << 2, false},
};

static void expect_process(const struct av_process_info *info, void *arg)
{
	size_t i = 0;

	while (i < AV_ARRAY_SIZE(processes) &&
	       (processes[i].pid != info->pid || processes[i].pidns != info->pidns))
		i++;
	assert_true(i < AV_ARRAY_SIZE(processes) && !processes[i].seen);
	processes[i].seen = true;
	assert_int_equal(info->counted.gauge[AV_GAUGE_CONTEXTS], processes[i].contexts);
	for (int n = 0; n < AV_ODP_COUNTER_N; n++)
		assert_int_equal(info->odp[n], processes[i].ones << n);
	++*(size_t *)arg;
}

TEST(contexts_of_one_process_are_summed_up)
{
	struct av_seg *segs[AV_ARRAY_SIZE(contexts)];
	size_t seen = 0;
	struct {
		int32_t pid;
		uint64_t pidns;
	} own;

	for (size_t i = 0; i < AV_ARRAY_SIZE(contexts); i++) {
		segs[i] = av_device_open(av_device_by_name(DEVICE), 0);
		assert_non_null(segs[i]);
		own.pid = segs[i]->head->pid;
		own.pidns = segs[i]->head->pidns;
		segs[i]->head->pid = contexts[i].pid;
		segs[i]->head->pidns = contexts[i].pidns;
		for (int n = 0; n < AV_DIR_COUNTERS; n++)
			atomic_store(&segs[i]->head->counter[n], 1ull << i << n);
	}
	av_report_processes(DEVICE, expect_process, &seen);
	assert_int_equal(seen, AV_ARRAY_SIZE(processes));
	for (size_t i = 0; i < AV_ARRAY_SIZE(contexts); i++) {
		segs[i]->head->pid = own.pid;
		segs[i]->head->pidns = own.pidns;
		for (int n = 0; n < AV_DIR_COUNTERS; n++)
			atomic_store(&segs[i]->head->counter[n], 0);
		av_seg_close(segs[i]);
	}
}

int main(void)
{
	unsetenv("ANYVERBS_DEVICES");
	return run_cases(own_directory_join, own_directory_leave);
}
