/* SPDX-License-Identifier: MIT */
/* The parts of a file that are no holes, for every row of written and unwritten pages. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "lib/unit.h"

#define PAGE  4096u
#define PAGES 8u
#define BYTES (PAGES * PAGE)

/* Bit n of @written: page n is. Return: the file */
static int file_of(unsigned int written)
{
	int fd = av_memfd("sparse", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, BYTES), 0);
	for (unsigned int n = 0; n < PAGES; n++)
		if (written >> n & 1) {
			uint8_t byte = (uint8_t)(n + 1);

			assert_int_equal(pwrite(fd, &byte, 1, n * PAGE), 1);
		}
	return fd;
}

/* Return: the pages in [first, last) that were found, each of them once */
static unsigned int found(int fd, unsigned int first, unsigned int last)
{
	uint64_t at = first * PAGE, end, least = at;
	unsigned int pages = 0;

	for (; av_sparse_next(fd, &at, last * PAGE, &end); at = least = end) {
		assert_true(at >= least && at < end && end <= last * PAGE);
		for (uint64_t pos = at; pos < end; pos += PAGE)
			pages |= 1u << pos / PAGE;
	}
	return pages;
}

TEST(each_written_page_is_found_once_and_no_hole)
{
	for (unsigned int written = 0; written < 1u << PAGES; written++) {
		int fd = file_of(written);

		for (unsigned int first = 0; first <= PAGES; first++)
			for (unsigned int last = first; last <= PAGES; last++) {
				unsigned int range = (1u << last) - (1u << first);

				assert_int_equal(found(fd, first, last), written & range);
			}
		close(fd);
	}
}

TEST(pages_in_a_row_are_two_parts_at_most)
{
	uint64_t at = 0, end;
	int fd = file_of(0x7e);

	assert_true(av_sparse_next(fd, &at, BYTES, &end));
	assert_int_equal(at, PAGE);
	assert_int_equal(end, 2 * PAGE);
	at = end;
	assert_true(av_sparse_next(fd, &at, BYTES, &end));
	assert_int_equal(at, 2 * PAGE);
	assert_int_equal(end, 7 * PAGE);
	close(fd);
}

TEST(what_is_read_is_what_was_written)
{
	static uint8_t bytes[BYTES];

	for (unsigned int written = 0; written < 1u << PAGES; written++) {
		int fd = file_of(written);

		memset(bytes, 0, sizeof(bytes));
		assert_true(av_sparse_read(fd, 0, BYTES, bytes));
		for (unsigned int n = 0; n < PAGES; n++)
			assert_int_equal(bytes[n * PAGE], written >> n & 1 ? n + 1 : 0);
		close(fd);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
