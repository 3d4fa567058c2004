/* SPDX-License-Identifier: MIT */
/* Registration brings in all pages of a region and no others, and finds what is not mapped. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "fake_seg.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/odp.h"
#include "memory/region.h"

#define PAGE	 4096l
#define WRITABLE 8l
#define PAGES	 10l /* the last ones can only be read; a hole is before and behind them */
#define LARGE	 (20l << 20)
#define LOCAL	 IBV_ACCESS_LOCAL_WRITE
#define READ	 IBV_ACCESS_REMOTE_READ
#define BIND	 IBV_ACCESS_MW_BIND

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#define POPULATE_READ 22 /* MADV_POPULATE_READ, which libraries of old do not name */

static struct fake_seg f;
static uint8_t *room;

/* Sanitizers would map something of their own into a hole. */
static int make_hole(uint8_t *p)
{
	return SANITIZED ? mprotect(p, PAGE, PROT_NONE) : munmap(p, PAGE);
}

static uint8_t *map(long bytes)
{
	uint8_t *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(madvise(p, (size_t)bytes, MADV_NOHUGEPAGE), 0);
	return p;
}

static void map_room(void)
{
	room = map((PAGES + 2) * PAGE);
	room += PAGE;
	assert_int_equal(make_hole(room - PAGE), 0);
	assert_int_equal(make_hole(room + PAGES * PAGE), 0);
	assert_int_equal(mprotect(room + WRITABLE * PAGE, (PAGES - WRITABLE) * PAGE, PROT_READ), 0);
}

static void unmap_room(void)
{
	munmap(room, PAGES * PAGE);
	if (SANITIZED) { /* else somebody may have mapped something there */
		munmap(room - PAGE, PAGE);
		munmap(room + PAGES * PAGE, PAGE);
	}
}

static int setup(void **state)
{
	fake_open(&f, 1);
	return 0;
}

static int teardown(void **state)
{
	av_odp_notify_end(&f.seg);
	fake_close(&f);
	return 0;
}

static bool present(const uint8_t *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	assert_true(fd >= 0 && pread(fd, &entry, 8, (off_t)((uintptr_t)p / PAGE * 8)) == 8);
	close(fd);
	return entry >> 63;
}

static int prepare(uint8_t *p, uint64_t length, uint32_t access, struct av_key *what)
{
	const struct av_region_request req = {.addr = (uintptr_t)p,
					      .length = length,
					      .iova = (uintptr_t)p,
					      .access = access,
					      .private = true};

	return av_region_prepare(&f.seg, &req, what);
}

static const struct {
	long begin, length;
	uint32_t access;
	int err;
	long first, end; /* pages that are there afterwards */
} rows[] = {
	{0, 1, LOCAL, 0, 0, 1},
	{0, PAGE, LOCAL, 0, 0, 1},
	{0, PAGE, READ, 0, 0, 1},
	{PAGE, PAGE + 1, LOCAL, 0, 1, 3},
	{PAGE - 1, 2, LOCAL, 0, 0, 2},
	{PAGE - 1, 2, READ, 0, 0, 2},
	{PAGE - 1, PAGE + 1, LOCAL, 0, 0, 2},
	{PAGE - 1, PAGE + 2, LOCAL, 0, 0, 3},
	{PAGE + 1, 3 * PAGE, READ, 0, 1, 5},
	{0, WRITABLE *PAGE, LOCAL, 0, 0, WRITABLE},
	{0, PAGES *PAGE, READ, 0, 0, PAGES},
	{2 * PAGE, 0, LOCAL, 0, 0, 0},
	/* rights */
	{WRITABLE * PAGE, 1, READ, 0, WRITABLE, WRITABLE + 1},
	{WRITABLE * PAGE, 1, 0, 0, WRITABLE, WRITABLE + 1},
	{WRITABLE * PAGE, 1, LOCAL, EFAULT, 0, 0},
	{WRITABLE * PAGE, 1, BIND, EFAULT, 0, 0},
	{WRITABLE * PAGE - 1, 2, LOCAL, EFAULT, 0, 0},
	{WRITABLE * PAGE - 1, 1, LOCAL, 0, WRITABLE - 1, WRITABLE},
	/* holes */
	{-1, 1, READ, EFAULT, 0, 0},
	{-1, 2, READ, EFAULT, 0, 0},
	{PAGES * PAGE, 1, READ, EFAULT, 0, 0},
	{PAGES * PAGE - 1, 2, READ, EFAULT, 0, 0},
	{-PAGE, 0, READ, 0, 0, 0},
};

TEST_WITH(all_pages_of_a_region_are_brought_in, setup, teardown)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct av_key what;
		int err;

		map_room();
		err = prepare(room + rows[i].begin, (uint64_t)rows[i].length, rows[i].access,
			      &what);
		if (err != rows[i].err)
			fail_msg("row %zu: %d, not %d", i, err, rows[i].err);
		for (long page = 0; !err && page < PAGES; page++)
			if (present(room + page * PAGE) !=
			    (page >= rows[i].first && page < rows[i].end))
				fail_msg("row %zu: page %ld", i, page);
		unmap_room();
	}
}

/* Memory that is there from the beginning, and has not been unmapped since. */
TEST_WITH(unmapping_is_noticed_from_then_on, setup, teardown)
{
	struct av_key what;

	map_room();
	assert_int_equal(prepare(room, PAGE, LOCAL, &what), 0);
	assert_int_equal(atomic_load(&what.intact), av_unmapped_now(&f.seg));
	assert_int_equal(what.share, 0);
	unmap_room();
}

/* Nothing is brought in of a large range with a hole: it may be a mistake. */
TEST_WITH(a_large_range_is_looked_at_first, setup, teardown)
{
	for (int hole = 0; hole < 2; hole++) {
		struct av_key what;

		room = map(LARGE + 2 * PAGE);
		if (hole)
			assert_int_equal(make_hole(room + LARGE), 0);
		assert_int_equal(prepare(room, (uint64_t)(LARGE + 2 * PAGE), LOCAL, &what),
				 hole ? EFAULT : 0);
		assert_int_equal(present(room), !hole);
		assert_int_equal(present(room + LARGE + PAGE), !hole);
		munmap(room, (size_t)LARGE);
		munmap(room + LARGE + PAGE, PAGE);
		if (SANITIZED || !hole)
			munmap(room + LARGE, PAGE);
	}
}

/* --- memory without pages of its own -------------------------------------------------- */

/* Only root may map a device; but each program has pages of the kernel's clock. */
static uint8_t *clock_page(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long begin, found = 0;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "[vvar]") && sscanf(line, "%lx-", &begin) == 1)
			found = begin;
	fclose(maps);
	return (uint8_t *)found;
}

/* Pages that the kernel itself can no longer reach. */
static uint8_t *secret_page(void)
{
	int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
	uint8_t *p = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, PAGE) == 0)
		p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static void check_unpinnable(uint8_t *p)
{
	struct av_key what;

	assert_int_equal(prepare(p, PAGE, READ, &what), EFAULT);
	assert_int_equal(prepare(p + 8, 8, READ, &what), EFAULT);
}

TEST_WITH(what_cannot_be_pinned_cannot_be_registered, setup, teardown)
{
	uint8_t *clock = clock_page(), *secret = secret_page(), *p = map(PAGE);
	struct av_key what;

	if (madvise(p, PAGE, POPULATE_READ) || (!clock && !secret)) {
		munmap(p, PAGE);
		skip();
	}
	if (clock)
		check_unpinnable(clock);
	if (secret) {
		check_unpinnable(secret);
		munmap(secret, PAGE);
	}
	assert_int_equal(prepare(p, PAGE, READ, &what), 0);
	munmap(p, PAGE);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
