/* SPDX-License-Identifier: MIT */
/* What is made of the kernel's refusals to watch a mapping. They are made up here. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/real_calls.h"
#include "fake_seg.h"
#include "lib/closed_input.h"
#include "lib/unit.h"
#include "memory/odp.h"

#define PAGE	4096ull
#define PAGES	4u
#define NUMBER	1000 /* of the descriptor, which nobody looks at */
#define ERRORS	3u
#define LOOKS	16u  /* at a mapping that changes each time */
#define FOREVER (-1) /* the same error again and again */

static struct fake_seg f;
static uint8_t *pages;

static struct {
	int errors[ERRORS];
	unsigned int calls, changes_at; /* the call during which the mapping changes, from 1 */
} kernel;

AV_FIND_NEXT(syscall);

/* The mapping ends earlier: what was asked for is none. */
static void change_mapping(void)
{
	CHECK(munmap(pages + (PAGES - 1) * PAGE, PAGE) == 0);
}

/* More than were given are read, as the C library does. */
long syscall(long number, ...)
{
	unsigned int call = kernel.calls;
	va_list list;
	long a[6];

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number != SYS_ioctl || (unsigned long)a[1] != UFFDIO_REGISTER)
		return AV_NEXT_OF(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	assert_int_equal(a[0], NUMBER);
	if (++kernel.calls == kernel.changes_at)
		change_mapping();
	errno = kernel.errors[1] == FOREVER ? kernel.errors[0]
		: call < ERRORS		    ? kernel.errors[call]
					    : 0;
	return errno ? -1 : 0;
}

static void map(bool file)
{
	int fd = file ? memfd_create("file", MFD_CLOEXEC) : -1;

	CHECK(!file || ftruncate(fd, PAGES * PAGE) == 0);
	pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
		     file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	CHECK(pages != MAP_FAILED);
	if (file)
		close(fd);
}

static int set_up(void **state)
{
	static uint64_t unmaps; /* what was remembered of an earlier context is not believed */
	struct av_odp_root *root;

	fake_open(&f, 1);
	root = av_odp_root_make(&f.seg);
	CHECK(root != NULL);
	atomic_store(&root->uffd, NUMBER + 1);
	atomic_store(&root->unmaps, unmaps += 1000);
	return 0;
}

/* What the thread remembers of mappings. */
static void forget(void)
{
	atomic_fetch_add(&av_odp_root(&f.seg)->unmaps, 1);
}

static int tear_down(void **state)
{
	fake_close(&f);
	return 0;
}

/* The first page of a mapping is asked for, of private memory or of a file. */
static const struct {
	bool file;
	int errors[ERRORS];
	unsigned int changes_at;
	bool tracked, plain;
	unsigned int calls;
} rows[] = {
	{false, {0}, 0, true, true, 1},
	{true, {0}, 0, true, false, 1},
	/* the kernel has no memory; or it was a hole, since such memory can be watched */
	{false, {ENOMEM}, 0, true, true, 2},
	{true, {ENOMEM}, 0, true, false, 2},
	{false, {EINVAL}, 0, true, true, 2},
	{false, {EINVAL, ENOMEM, EINVAL}, 0, true, true, 4},
	/* such a file cannot be watched, or it was a hole */
	{true, {EINVAL}, 0, true, false, 2},
	{true, {EINVAL, EINVAL, EINVAL}, 0, true, false, 3},
	/* somebody else watches it */
	{false, {EBUSY}, 0, true, false, 1},
	{true, {EBUSY}, 0, true, false, 1},
	/* it has changed, so that the answer was about something else */
	{false, {0}, 1, true, true, 2},
	{false, {EBUSY}, 1, true, true, 2},
	{true, {EINVAL, EINVAL}, 2, true, false, 3},
	/* not for ever */
	{false, {ENOMEM, FOREVER}, 0, false, false, LOOKS},
	{false, {EINVAL, FOREVER}, 0, false, false, LOOKS},
};

TEST_WITH(each_refusal_has_its_meaning, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint64_t addr;

		map(rows[i].file);
		addr = (uintptr_t)pages;
		forget();
		kernel.calls = 0;
		kernel.changes_at = rows[i].changes_at;
		memcpy(kernel.errors, rows[i].errors, sizeof(kernel.errors));
		if (av_odp_track(&f.seg, addr, 1) != rows[i].tracked ||
		    av_odp_is_plain(&f.seg, addr, 1) != rows[i].plain ||
		    kernel.calls != rows[i].calls)
			fail_msg("row %zu: %u calls", i, kernel.calls);
		munmap(pages, PAGES * PAGE);
	}
}

/* What was watched is remembered, and so is what cannot be. */
TEST_WITH(an_answer_is_remembered, set_up, tear_down)
{
	for (unsigned int refused = 0; refused < 2; refused++) {
		map(false);
		forget();
		kernel.calls = kernel.changes_at = 0;
		memset(kernel.errors, 0, sizeof(kernel.errors));
		kernel.errors[0] = refused ? EBUSY : 0;
		for (unsigned int i = 0; i < PAGES; i++)
			assert_true(av_odp_track(&f.seg, (uintptr_t)pages + i * PAGE, PAGE));
		assert_int_equal(kernel.calls, 1);
		munmap(pages, PAGES * PAGE);
	}
}

/* A program may have closed its standard input. */
TEST_WITH(any_descriptor_is_good, set_up, tear_down)
{
	int saved;

	map(false);
	forget();
	memset(&kernel, 0, sizeof(kernel));
	saved = close_input();
	assert_true(av_odp_track(&f.seg, (uintptr_t)pages, PAGE));
	assert_int_equal(kernel.calls, 1);
	assert_int_equal(fcntl(0, F_GETFD), -1); /* none is left open */
	input_again(saved);
	munmap(pages, PAGES * PAGE);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
