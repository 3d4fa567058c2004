/* SPDX-License-Identifier: MIT */
/* Which pages are in memory: by the request of newer kernels and by what older ones have. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/closed_input.h"
#include "lib/few_descriptors.h"
#include "lib/unit.h"
#include "memory/odp_prefetch.c" /* with what is static in it */

#define PAGE  4096ull
#define PAGES 1024ull

static bool old_kernel;

/* A kernel before 6.7 has no such request. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *arg;

	va_start(list, request);
	arg = va_arg(list, void *);
	va_end(list);
	if (!old_kernel)
		return (int)syscall(SYS_ioctl, fd, request, arg);
	errno = ENOTTY;
	return -1;
}

static int scan_as_before(uint64_t *begin, uint64_t end, struct page_run *runs)
{
	int ret;

	old_kernel = true;
	ret = scan_pages_in_memory(begin, end, runs);
	old_kernel = false;
	return ret;
}

typedef int scan_function(uint64_t *begin, uint64_t end, struct page_run *runs);

static uint8_t *map(uint64_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* Touched pages; the runs that follow from them. */
struct touched_row {
	const char *name;
	uint64_t every, length; /* @length pages of each @every */
};

static bool touched(const struct touched_row *row, uint64_t page)
{
	return row->every && page % row->every < row->length;
}

/* Every page that was touched is in a run and no other one is; runs ascend and do not meet. */
static void expect_touched(scan_function *scan, const struct touched_row *row,
			   const uint8_t *memory, uint64_t first, uint64_t last)
{
	struct page_run runs[PAGE_RUNS];
	uint64_t at = (uintptr_t)memory + first * PAGE, end = (uintptr_t)memory + last * PAGE,
		 page = first;

	while (at < end) {
		uint64_t before = at;
		int n = scan(&at, end, runs);

		assert_true(n >= 0 && n <= PAGE_RUNS && at > before && at <= end);
		for (int i = 0; i < n; i++) {
			assert_true(runs[i].begin >= before && runs[i].end > runs[i].begin &&
				    runs[i].end <= end);
			for (; (uintptr_t)memory + page * PAGE < runs[i].begin; page++)
				assert_false(touched(row, page));
			for (; (uintptr_t)memory + page * PAGE < runs[i].end; page++)
				assert_true(touched(row, page));
		}
	}
	for (; page < last; page++)
		assert_false(touched(row, page));
}

TEST(present)
{
	static const struct touched_row rows[] = {
		{"none", 0, 0},
		{"all", 1, 1},
		{"every other", 2, 1},
		{"runs", 7, 3},
		{"few", 512, 100},
		{"65 runs", PAGES / 65, 1},
		{"64 runs", PAGES / 64, 1},
	};
	static const uint64_t parts[][2] = {{0, PAGES}, {1, PAGES - 1}, {3, 4}, {500, 700}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint8_t *memory = map(PAGES * PAGE);

		assert_int_equal(madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE), 0);
		for (uint64_t page = 0; page < PAGES; page++)
			if (touched(&rows[i], page))
				memory[page * PAGE] = 1;
		for (size_t k = 0; k < AV_ARRAY_SIZE(parts); k++) {
			expect_touched(scan_pages_in_memory, &rows[i], memory, parts[k][0],
				       parts[k][1]);
			expect_touched(scan_as_before, &rows[i], memory, parts[k][0], parts[k][1]);
		}
		munmap(memory, PAGES * PAGE);
	}
}

static int scan_all(scan_function *scan, const uint8_t *from, uint64_t bytes, struct page_run *runs)
{
	uint64_t begin = (uintptr_t)from;
	int n = scan(&begin, (uintptr_t)from + bytes, runs);

	assert_int_equal(begin, (uintptr_t)from + bytes);
	return n;
}

TEST(nothing_is_mapped)
{
	struct page_run runs[PAGE_RUNS];
	uint8_t *memory = map(PAGES * PAGE);

	munmap(memory, PAGES * PAGE);
	assert_int_equal(scan_all(scan_pages_in_memory, memory, PAGES * PAGE, runs), 0);
	assert_int_equal(scan_all(scan_as_before, memory, PAGES * PAGE, runs), 0);
}

/* Whatever the kernel has to tell, adjacent pages are one run. */
TEST(adjacent_pages_are_one_run)
{
	struct page_run runs[PAGE_RUNS];
	uint8_t *memory = map(PAGES * PAGE);

	for (uint64_t at = 0; at < PAGES * PAGE; at += PAGE)
		memory[at] = 1;
	assert_int_equal(scan_all(scan_as_before, memory, PAGES * PAGE, runs), 1);
	assert_int_equal(runs[0].begin, (uintptr_t)memory);
	assert_int_equal(runs[0].end, (uintptr_t)memory + PAGES * PAGE);
	munmap(memory, PAGES * PAGE);
}

/* Where no process has memory, the kernel has no entry. */
TEST(nothing_can_be_mapped)
{
	struct page_run runs[PAGE_RUNS];
	uint64_t begin = 1ull << 62;

	assert_true(scan_as_before(&begin, begin + PAGE, runs) < 0);
}

/* A program may have closed its standard input, or have no descriptor left. */
TEST(whatever_descriptors_there_are)
{
	struct page_run runs[PAGE_RUNS];
	struct rlimit was;
	uint8_t *memory = map(PAGE);
	uint64_t begin = (uintptr_t)memory;
	int saved = close_input();

	memory[0] = 1;
	assert_int_equal(scan_all(scan_pages_in_memory, memory, PAGE, runs), 1);
	assert_int_equal(scan_all(scan_as_before, memory, PAGE, runs), 1);
	assert_int_equal(fcntl(0, F_GETFD), -1); /* none is left open */
	input_again(saved);
	was = few_descriptors(0);
	assert_true(scan_pages_in_memory(&begin, begin + PAGE, runs) < 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	munmap(memory, PAGE);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
