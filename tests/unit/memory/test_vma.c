/* SPDX-License-Identifier: MIT */
/* The mappings of a process, one by one: by a request to the kernel and by its text, and both the
 * same. And memory that has holes, or fewer rights than are wanted. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/closed_input.h"
#include "lib/few_descriptors.h"
#include "lib/unit.h"
#include "memory/region.h"

/* Another file with the text of @maps, which takes no requests. */
static int copy_text(int maps)
{
	int copy = memfd_create("maps", MFD_CLOEXEC);
	char text[4096];
	ssize_t n;

	while ((n = read(maps, text, sizeof(text))) > 0)
		assert_int_equal(write(copy, text, (size_t)n), n);
	assert_int_equal(n, 0);
	return copy;
}

TEST(mappings_one_by_one)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), as_text;
	uint64_t addr = 0;
	struct av_vma vma, text;
	int n = 0;

	assert_true(maps >= 0);
	as_text = copy_text(maps);
	while (av_vma_next(maps, addr, &vma)) {
		assert_true(vma.end > addr && vma.end > vma.begin);
		assert_true(av_vma_next(as_text, addr, &text));
		assert_int_equal(vma.begin, text.begin);
		assert_int_equal(vma.end, text.end);
		assert_int_equal(vma.anonymous, text.anonymous);
		assert_true(av_vma_next(as_text, vma.end - 1, &text));
		assert_int_equal(vma.begin, text.begin);
		addr = vma.end;
		n++;
	}
	assert_true(n > 5);
	assert_false(av_vma_next(as_text, UINT64_MAX - 4096, &text));
	close(maps);
	close(as_text);
	assert_false(av_vma_next(maps, 0, &vma));
}

/* The pages: writable, readable, writable, not there, not readable, writable. */
#define PAGES 6u
static const struct {
	uint32_t first, bytes, pages; /* from its last 8 bytes on: so many bytes, and pages */
	int readable, writable;
} ranges[] = {
	{0, 0, 0, 0, 0},	   {0, 8, 0, 0, 0},	      {0, 9, 0, 0, EFAULT},
	{0, 8, 1, 0, EFAULT},	   {0, 8, 2, 0, EFAULT},      {0, 9, 2, EFAULT, EFAULT},
	{1, 8, 0, 0, EFAULT},	   {2, 8, 0, 0, 0},	      {2, 9, 0, EFAULT, EFAULT},
	{3, 8, 0, EFAULT, EFAULT}, {4, 8, 0, EFAULT, EFAULT}, {4, 9, 0, EFAULT, EFAULT},
	{5, 8, 0, 0, 0},
};

TEST(memory_without_holes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	assert_true(at != MAP_FAILED);
	assert_int_equal(mprotect(at + page, page, PROT_READ), 0);
	assert_int_equal(munmap(at + 3 * page, page), 0);
	assert_int_equal(mprotect(at + 4 * page, page, PROT_NONE), 0);
	for (size_t i = 0; i < AV_ARRAY_SIZE(ranges); i++) {
		uint64_t begin = (uintptr_t)at + (ranges[i].first + 1) * page - 8;
		uint64_t bytes = ranges[i].bytes + ranges[i].pages * page;

		if (av_mapped_check(begin, bytes, false) != ranges[i].readable ||
		    av_mapped_check(begin, bytes, true) != ranges[i].writable)
			fail_msg("row %zu", i);
	}
	munmap(at, 3 * page);
	munmap(at + 4 * page, 2 * page);
}

/* A program may have closed its standard input, or have no descriptor left. */
TEST(whatever_descriptors_there_are)
{
	static uint8_t byte;
	struct rlimit was;
	int saved = close_input();

	assert_int_equal(av_mapped_check((uintptr_t)&byte, 1, true), 0);
	assert_int_equal(fcntl(0, F_GETFD), -1); /* none is left open */
	input_again(saved);
	was = few_descriptors(0);
	assert_int_equal(av_mapped_check((uintptr_t)&byte, 1, true), EFAULT);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
