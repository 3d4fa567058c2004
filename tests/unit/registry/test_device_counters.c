/* SPDX-License-Identifier: MIT */
/* What devices have counted, when the directory comes and goes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/unit.h"
#include "registry/directory.h"

static char base[] = "/dev/shm/anyverbs-test-XXXXXX", folder[256], totals[300];

static void join(void)
{
	assert_int_equal(av_dir_join(NULL), 0);
	snprintf(folder, sizeof(folder), "%s", av_dir_path());
	snprintf(totals, sizeof(totals), "%s/" AV_DIR_TOTALS, folder);
}

static uint64_t read_first(const char *device)
{
	uint64_t counters[AV_DIR_COUNTERS], gauges[AV_DIR_GAUGES];

	av_dir_read(device, counters, gauges);
	return counters[0];
}

static void count(const char *device, uint64_t n)
{
	atomic_fetch_add(av_dir_counters(device), n);
}

static void reset(const char *device)
{
	assert_int_equal(av_dir_change_begin(), 0);
	av_dir_counters_reset(device);
	av_dir_change_end();
}

TEST(they_outlive_the_directory)
{
	for (uint64_t i = 1; i <= 3; i++) {
		join();
		(void)av_dir_counters("idle0");
		count("any0", 2);
		count("any1", 5);
		assert_int_equal(read_first("any0"), 2 * i);
		av_dir_leave();
		assert_int_equal(access(totals, F_OK), 0);
		assert_int_equal(read_first("any0"), 2 * i);
		assert_int_equal(read_first("any1"), 5 * i);
		assert_int_equal(read_first("idle0"), 0);
		assert_int_equal(read_first("nobody"), 0);
	}
}

TEST(a_reset_is_of_one_device)
{
	join();
	reset("any0");
	reset("nobody");
	av_dir_leave();
	assert_int_equal(read_first("any0"), 0);
	assert_int_equal(read_first("any1"), 15);
	join();
	reset("any1");
	av_dir_leave();
	assert_int_equal(access(folder, F_OK), -1); /* nothing is left to keep */
	assert_int_equal(read_first("any1"), 0);
}

/* A file that makes no sense is none; one that is cut short has what is there. */
TEST(damaged_files_do_no_harm)
{
	static const struct {
		uint32_t rows;
		off_t bytes;
	} rows[] = {{AV_DIR_DEVICES + 1, 4096}, {UINT32_MAX, 4096}, {1, 4}, {1, 0}, {2, 20}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd;

		join();
		count("any0", 1);
		av_dir_leave();
		fd = open(totals, O_RDWR | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(pwrite(fd, &rows[i].rows, sizeof(rows[i].rows), 0), 4);
		assert_int_equal(ftruncate(fd, rows[i].bytes), 0);
		close(fd);
		assert_int_equal(read_first("any0"), 0);
		join();
		assert_int_equal(read_first("any0"), 0);
		count("any0", 3);
		av_dir_leave();
		assert_int_equal(read_first("any0"), 3);
		join();
		reset("any0");
		av_dir_leave();
	}
}

/* Who cannot read them because it has no descriptor left does not write others in their place. */
TEST(no_descriptor_does_no_harm)
{
	struct rlimit limit, few;

	join();
	count("any0", 7);
	av_dir_leave();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (rlim_t n = 0; n < 12; n++) {
		few = (struct rlimit){n, limit.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		if (av_dir_join(NULL) == 0)
			av_dir_leave();
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		assert_int_equal(read_first("any0"), 7);
	}
	join();
	reset("any0");
	av_dir_leave();
}

static int setup(void **state)
{
	return !mkdtemp(base) || setenv("ANYVERBS_DIR", base, 1);
}

static int teardown(void **state)
{
	return rmdir(base);
}

int main(void)
{
	return run_cases(setup, teardown);
}
