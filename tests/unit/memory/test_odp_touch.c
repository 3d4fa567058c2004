/* SPDX-License-Identifier: MIT */
/*
 * Prefetch where the kernel cannot populate: which pages are touched in its place. And where there
 * is no thread that would follow advice later.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "copy/copy.h"
#include "fake_seg.h"
#include "lib/unit.h"
#include "memory/odp.h"

#define PAGE  4096u
#define PAGES 8u
#define READ  IBV_ADVISE_MR_ADVICE_PREFETCH
#define WRITE IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE

static struct fake_seg f;
static uint8_t *room; /* the last two pages can only be read, and not be accessed */
static int answer;    /* the kernel's, to whoever populates */

int madvise(void *addr, size_t bytes, int advice)
{
	errno = answer;
	return -1;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	return EAGAIN;
}

static int set_up(void **state)
{
	fake_open(&f, 1);
	answer = EINVAL;
	room = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return room == MAP_FAILED || mprotect(room + (PAGES - 2) * PAGE, PAGE, PROT_READ) ||
	       mprotect(room + (PAGES - 1) * PAGE, PAGE, PROT_NONE) || av_copy_init();
}

static int tear_down(void **state)
{
	munmap(room, PAGES * PAGE);
	fake_close(&f);
	return 0;
}

static const struct {
	uint64_t off, len;
	bool write;
	int ret;
	unsigned int first, end; /* the pages that are there afterwards */
} rows[] = {
	{PAGE, 3 * PAGE, false, 0, 1, 4},
	{PAGE, 3 * PAGE, true, 0, 1, 4},
	{PAGE + 5, PAGE, true, 0, 1, 3},
	{2 * PAGE - 1, 1, false, 0, 1, 2},
	{5 * PAGE, 2 * PAGE, false, 0, 5, 7},
	{5 * PAGE, 2 * PAGE, true, EFAULT, 0, 0},  /* it is not mapped for that, which is */
	{6 * PAGE, 2 * PAGE, false, EFAULT, 0, 0}, /* known at once */
};

TEST_WITH(the_pages_of_the_range_are_touched, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct av_odp_range range = {(uintptr_t)room + rows[i].off, rows[i].len};
		unsigned char there[PAGES];

		tear_down(state);
		assert_int_equal(set_up(state), 0);
		if (av_odp_advise(&f.seg, &range, 1, rows[i].write ? WRITE : READ, true) !=
		    rows[i].ret)
			fail_msg("row %zu", i);
		assert_int_equal(mincore(room, PAGES * PAGE, there), 0);
		for (unsigned int p = 0; p < PAGES; p++)
			if ((there[p] & 1) != (p >= rows[i].first && p < rows[i].end))
				fail_msg("row %zu: page %u", i, p);
		if (rows[i].ret == 0)
			assert_int_equal(
				fake_missing(&f.seg, range.addr, range.length, rows[i].write), 0);
	}
}

TEST_WITH(what_is_beyond_its_file_is_a_fault, set_up, tear_down)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	uint8_t *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct av_odp_range range = {(uintptr_t)p, 2 * PAGE};

	assert_true(p != MAP_FAILED && ftruncate(fd, PAGE) == 0);
	assert_int_equal(av_odp_advise(&f.seg, &range, 1, READ, true), EFAULT);
	assert_int_equal(fake_missing(&f.seg, range.addr, PAGE, false), 1);
	range.length = PAGE;
	assert_int_equal(av_odp_advise(&f.seg, &range, 1, READ, true), 0);
	munmap(p, 2 * PAGE);
	close(fd);
}

/* There is no memory, or it is broken: to touch it would not help. */
TEST_WITH(other_answers_are_final, set_up, tear_down)
{
	static const int answers[][2] = {{ENOMEM, ENOMEM}, {EFAULT, EFAULT}, {EHWPOISON, EFAULT}};
	struct av_odp_range range = {(uintptr_t)room, PAGE};
	unsigned char there;

	for (size_t i = 0; i < AV_ARRAY_SIZE(answers); i++) {
		answer = answers[i][0];
		assert_int_equal(av_odp_advise(&f.seg, &range, 1, READ, true), answers[i][1]);
		assert_int_equal(mincore(room, PAGE, &there), 0);
		assert_false(there & 1);
	}
}

/* The caller follows the advice itself: what was accepted is done. */
TEST_WITH(without_a_thread_it_is_done_at_once, set_up, tear_down)
{
	struct av_odp_range range = {(uintptr_t)room, PAGE};

	assert_int_equal(av_odp_advise(&f.seg, &range, 1, READ, false), 0);
	assert_int_equal(fake_missing(&f.seg, range.addr, PAGE, false), 0);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
