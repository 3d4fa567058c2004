/* SPDX-License-Identifier: MIT */
/* Which pages are in memory: what the kernel's map of the process says. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "lib/closed_input.h"
#include "lib/few_descriptors.h"
#include "lib/unit.h"
#include "memory/region.h"

#define PAGE  4096ull
#define PAGES 1024ull

static uint8_t *map(uint64_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(madvise(p, bytes, MADV_NOHUGEPAGE), 0);
	return p;
}

static size_t count_present(const uint8_t *p, size_t pages)
{
	uint64_t entry[PAGES];
	size_t n = av_pagemap_read((uintptr_t)p, entry, pages), count = 0;

	assert_int_equal(n, pages);
	for (size_t i = 0; i < n; i++)
		count += (entry[i] & AV_PAGEMAP_PRESENT) != 0;
	return count;
}

TEST(present_as_they_are_touched)
{
	static const struct {
		uint64_t every, length; /* touched: @length pages of each @every */
	} rows[] = {{PAGES, 0}, {1, 1}, {2, 1}, {7, 3}, {512, 100}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint8_t *memory = map(PAGES * PAGE);
		size_t count = 0;

		for (uint64_t page = 0; page < PAGES; page++)
			if (page % rows[i].every < rows[i].length)
				memory[page * PAGE] = 1, count++;
		assert_int_equal(count_present(memory, PAGES), count);
		assert_int_equal(count_present(memory + rows[i].length * PAGE, 1),
				 rows[i].every == rows[i].length);
		munmap(memory, PAGES * PAGE);
	}
}

TEST(nothing_is_mapped)
{
	uint8_t *memory = map(PAGES * PAGE);

	munmap(memory, PAGES * PAGE);
	assert_int_equal(count_present(memory, PAGES), 0);
}

TEST(shared_pages_are_marked)
{
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
		*own = map(PAGE);
	uint64_t entry;

	assert_ptr_not_equal(p, MAP_FAILED);
	p[0] = own[0] = 1;
	assert_int_equal(av_pagemap_read((uintptr_t)p, &entry, 1), 1);
	assert_true((entry & AV_PAGEMAP_FILE) && (entry & AV_PAGEMAP_PRESENT));
	assert_int_equal(av_pagemap_read((uintptr_t)own, &entry, 1), 1);
	assert_false(entry & AV_PAGEMAP_FILE);
	munmap(p, PAGE);
	munmap(own, PAGE);
}

/* Where no process has memory, the kernel has no entry. */
TEST(nothing_can_be_mapped)
{
	uint64_t entry;

	assert_int_equal(av_pagemap_read(1ull << 62, &entry, 1), 0);
}

/* A program may have closed its standard input, or have no descriptor left. */
TEST(whatever_descriptors_there_are)
{
	uint8_t *memory = map(PAGE);
	struct rlimit was;
	uint64_t entry;
	int saved = close_input();

	memory[0] = 1;
	assert_int_equal(count_present(memory, 1), 1);
	assert_int_equal(fcntl(0, F_GETFD), -1); /* none is left open */
	input_again(saved);
	was = few_descriptors(0);
	assert_int_equal(av_pagemap_read((uintptr_t)memory, &entry, 1), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	munmap(memory, PAGE);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
