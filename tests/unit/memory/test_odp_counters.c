/* SPDX-License-Identifier: MIT */
/* The table of ODP statistics, and the gauges. */
#include "fake_seg.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/odp.h"

/* As the documentation lists them. */
static const struct {
	const char *name;
	bool debug, gauge;
} documented[] = {
	{"invalidations_faults_contentions", false, false},
	{"num_invalidation_pages", false, false},
	{"num_invalidations", false, false},
	{"num_page_fault_pages", false, false},
	{"num_page_faults", false, false},
	{"num_prefetchs_handled", false, false},
	{"num_prefetch_pages", false, false},
	{"num_failed_resolutions", true, false},
	{"num_mrs_not_found", true, false},
	{"num_odp_mr_pages", true, true},
	{"num_odp_mrs", true, true},
};

TEST(every_documented_counter_is_there)
{
	assert_int_equal(AV_ODP_COUNTER_N, sizeof(documented) / sizeof(documented[0]));
	for (int i = 0; i < AV_ODP_COUNTER_N; i++) {
		assert_string_equal(av_odp_counter_info[i].name, documented[i].name);
		assert_int_equal(av_odp_counter_info[i].debug, documented[i].debug);
		assert_int_equal(av_odp_counter_info[i].gauge, documented[i].gauge);
		assert_non_null(av_odp_counter_info[i].unit);
		assert_non_null(av_odp_counter_info[i].help);
	}
}

TEST(counts_and_gauges)
{
	struct fake_seg f;

	fake_open(&f, 1);
	av_odp_count(&f.seg, AV_ODP_COUNT_FAULTS, 2);
	av_odp_count(&f.seg, AV_ODP_COUNT_FAULTS, 0);
	assert_int_equal(counted(&f, AV_ODP_COUNT_FAULTS), 2);
	av_odp_region_gauge(&f.seg, 0, 5 * 4096, 1);
	av_odp_region_gauge(&f.seg, 0, SIZE_MAX, 1);
	assert_int_equal(f.gauge.regions, 2);
	assert_int_equal(f.gauge.pages, 5);
	av_odp_region_gauge(&f.seg, 0, 5 * 4096, -1);
	assert_int_equal(f.gauge.regions, 1);
	assert_int_equal(f.gauge.pages, 0);
	f.seg.odp = NULL;
	f.seg.odp_gauge = NULL;
	av_odp_count(&f.seg, AV_ODP_COUNT_FAULTS, 1);
	av_odp_region_gauge(&f.seg, 0, 4096, 1);
	fake_close(&f);
}

/* Of a device that nobody has opened. */
TEST(a_report_has_every_counter)
{
	uint64_t value[AV_ODP_COUNTER_N + 1];

	memset(value, 0xff, sizeof(value));
	av_odp_report("nobodys", value);
	for (int i = 0; i < AV_ODP_COUNTER_N; i++)
		assert_int_equal(value[i], 0);
	assert_int_equal(value[AV_ODP_COUNTER_N], UINT64_MAX);
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
