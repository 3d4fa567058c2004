/* SPDX-License-Identifier: MIT */
/* The page that is not as it should be, by the text of /proc/self/maps and by the kernel itself. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/unit.h"
#include "memory/odp.h"
#include "observe/check.h"

#define PAGES 8

static size_t page;
static char *area; /* PAGES of them, readable and writable; its neighbours are nobody's */

static int set_up(void **state)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	area = mmap(NULL, (PAGES + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return -1;
	area += page;
	av_diag_drop();
	return mprotect(area, PAGES * page, PROT_READ | PROT_WRITE);
}

static int tear_down(void **state)
{
	return munmap(area - page, (PAGES + 2) * page);
}

static uint64_t at(size_t number)
{
	return (uint64_t)(uintptr_t)area + number * page;
}

static void is_noted(enum av_check check, uint64_t where, const char *detail)
{
	const struct av_flight_record *r = av_diag_pending();

	assert_string_equal(av_check_row(r->check)->name, av_check_row(check)->name);
	assert_int_equal(r->error, EFAULT);
	assert_int_equal(r->wanted, where);
	assert_int_equal(!!(r->has & AV_HAS_DETAIL), detail != NULL);
	if (detail)
		assert_string_equal(r->detail, detail);
}

TEST_WITH(nothing_is_missing, set_up, tear_down)
{
	assert_false(av_missing_note(at(0) + 8, PAGES * page - 8, true));
	assert_int_equal(av_diag_pending()->check, AV_CHECK_NONE);
}

TEST_WITH(a_hole_in_the_middle, set_up, tear_down)
{
	munmap(area + 3 * page, page);
	assert_true(av_missing_note(at(0) + 8, PAGES * page - 8, true));
	is_noted(AV_CHECK_MEMORY_HOLE, at(3), "rw-p anonymous memory");
	assert_int_equal(av_diag_pending()->limit, at(3));
	assert_true(av_missing_note(at(3), 1, false)); /* the mapping before is not in the range */
	is_noted(AV_CHECK_MEMORY_HOLE, at(3), "rw-p anonymous memory");
}

TEST_WITH(nothing_below, set_up, tear_down)
{
	assert_true(av_missing_note(8, 100, false));
	is_noted(AV_CHECK_MEMORY_LOW, 0, NULL);
}

TEST_WITH(not_writable, set_up, tear_down)
{
	mprotect(area + 5 * page, page, PROT_READ);
	assert_false(av_missing_note(at(0), PAGES * page, false));
	assert_true(av_missing_note(at(0), PAGES * page, true));
	is_noted(AV_CHECK_MEMORY_FORBIDS, at(5), "r--p anonymous memory");
	assert_true(av_missing_note(at(6), 3 * page, false));
	is_noted(AV_CHECK_MEMORY_FORBIDS, at(PAGES), "---p anonymous memory");
}

/* Pages behind the end of a file; a long name is cut at its beginning. */
TEST_WITH(behind_the_file, set_up, tear_down)
{
	char name[200], wanted[64];
	int fd;

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	fd = memfd_create(name, MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(5 * page)), 0);
	assert_ptr_equal(
		mmap(area, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
		area);
	assert_true(av_missing_note(at(1) + 8, PAGES * page - page - 8, true));
	snprintf(wanted, sizeof(wanted), "rw-s ...%.*s (deleted)", 51 - 3 - 10, name);
	is_noted(AV_CHECK_MEMORY_UNUSABLE, at(5), wanted);
	close(fd);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
