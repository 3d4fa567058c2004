/* SPDX-License-Identifier: MIT */
/* Which memory can be watched, what a thread remembers of it, and what is plain. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "fake_seg.h"
#include "lib/unit.h"
#include "memory/odp.h"

#define PAGE 4096ull

/* Pages: private, private, read-only, shared, shared, and one that is not there. */
enum { PRIVATE = 0, READ_ONLY = 2, SHARED = 3, HOLE = 5, PAGES };

static struct fake_seg f;
static uint8_t *pages;

static uint64_t at(unsigned int page)
{
	return (uintptr_t)pages + page * PAGE;
}

static int set_up(void **state)
{
	int fd = memfd_create("shared", MFD_CLOEXEC);
	uint8_t *shared;

	fake_open(&f, 1);
	av_odp_notify_begin(&f.seg);
	pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	if (pages == MAP_FAILED || ftruncate(fd, 2 * PAGE) ||
	    mprotect(pages + READ_ONLY * PAGE, PAGE, PROT_READ))
		return -1;
	shared = mmap(pages + SHARED * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_FIXED, fd, 0);
	close(fd);
	/* Sanitizers would map something of their own into a hole. */
	return shared == MAP_FAILED || (SANITIZED ? 0 : munmap(pages + HOLE * PAGE, PAGE));
}

static int tear_down(void **state)
{
	av_odp_notify_end(&f.seg);
	munmap(pages, PAGES * PAGE);
	fake_close(&f);
	return 0;
}

/* --- what is watched ------------------------------------------------------------- */

static const struct {
	unsigned int page;
	int64_t off; /* from its begin on */
	uint64_t len;
	bool whole, plain;
} ranges[] = {
	{PRIVATE, 0, 2 * PAGE, true, true},
	{PRIVATE, 5, 1, true, true},
	{PRIVATE, 0, 2 * PAGE + 1, true, false}, /* more than one mapping */
	{READ_ONLY, 0, PAGE, true, true},
	{SHARED, 0, 2 * PAGE, true, false},
	{PRIVATE, 0, HOLE *PAGE, true, false},
	{HOLE, -1, 1, true, false},
	{HOLE, -1, 2, false, false},
	{HOLE, 0, 1, false, false},
	{PRIVATE, 1, HOLE *PAGE, false, false},
	{HOLE, 0, 0, true, false},
};

TEST_WITH(a_range_is_watched_if_all_of_it_is_there, set_up, tear_down)
{
	if (fake_uffd(&f) < 0 || SANITIZED)
		skip();
	for (size_t i = 0; i < AV_ARRAY_SIZE(ranges); i++) {
		uint64_t addr = at(ranges[i].page) + (uint64_t)ranges[i].off;

		atomic_fetch_add(&av_odp_root(&f.seg)->unmaps, 1);
		if (ranges[i].len)
			assert_false(av_odp_is_plain(&f.seg, addr, ranges[i].len));
		if (av_odp_track(&f.seg, addr, ranges[i].len) != ranges[i].whole)
			fail_msg("row %zu: tracked", i);
		if (ranges[i].len &&
		    av_odp_is_plain(&f.seg, addr, ranges[i].len) != ranges[i].plain)
			fail_msg("row %zu: plain", i);
	}
}

/* Each of several mappings: the listener hears of what happens to the last one. */
TEST_WITH(each_mapping_of_a_range_is_watched, set_up, tear_down)
{
	uint64_t stamp;

	if (fake_uffd(&f) < 0)
		skip();
	assert_true(av_odp_prepare(&f.seg, at(PRIVATE), HOLE * PAGE, &stamp));
	assert_true(av_odp_track(&f.seg, at(PRIVATE), HOLE * PAGE));
	av_odp_set(&f.seg, at(PRIVATE), HOLE * PAGE, true);
	for (unsigned int i = 0; i < HOLE; i += i < READ_ONLY ? READ_ONLY : 1) {
		assert_int_equal(madvise(pages + i * PAGE, PAGE, MADV_DONTNEED), 0);
		av_odp_settle(&f.seg);
		assert_int_equal(fake_missing(&f.seg, at(i), PAGE, false), 1);
	}
}

/*
 * A peer borrows the descriptor, unless the kernel has refused it the memory, or there is none:
 * then nothing is watched. Here it is a peer of itself.
 */
static const struct {
	bool vm_refused, no_process, watched;
} peers[] = {{false, false, true}, {true, false, false}, {false, true, false}};

TEST_WITH(a_peer_watches_with_the_owners_descriptor, set_up, tear_down)
{
	uint64_t stamp;

	if (fake_uffd(&f) < 0)
		skip();
	for (size_t i = 0; i < AV_ARRAY_SIZE(peers); i++) {
		int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

		if (pidfd < 0)
			skip();
		tear_down(state);
		assert_int_equal(set_up(state), 0);
		assert_true(av_odp_prepare(&f.seg, at(PRIVATE), PAGE, &stamp));
		f.seg.own = false;
		f.seg.vm_refused = peers[i].vm_refused;
		if (!peers[i].no_process)
			assert_true(av_own_fd_keep(&f.seg.process, dup(pidfd)));
		close(pidfd);
		assert_true(av_odp_track(&f.seg, at(PRIVATE), PAGE));
		f.seg.own = true;
		av_odp_set(&f.seg, at(PRIVATE), PAGE, true);
		assert_int_equal(madvise(pages, PAGE, MADV_DONTNEED), 0);
		av_odp_settle(&f.seg);
		if (fake_missing(&f.seg, at(PRIVATE), PAGE, false) != peers[i].watched)
			fail_msg("row %zu", i);
		if (!peers[i].no_process)
			av_own_fd_close(&f.seg.process);
	}
}

/* --- what is remembered ---------------------------------------------------------- */

TEST_WITH(what_was_unmapped_is_looked_at_again, set_up, tear_down)
{
	struct av_odp_root *root = av_odp_root(&f.seg);

	if (fake_uffd(&f) < 0)
		skip();
	assert_true(av_odp_track(&f.seg, at(PRIVATE), PAGE));
	assert_true(av_odp_is_plain(&f.seg, at(PRIVATE), PAGE));
	assert_false(av_odp_is_plain(&f.seg, at(SHARED), PAGE));
	atomic_fetch_add(&root->unmaps, 1);
	assert_false(av_odp_is_plain(&f.seg, at(PRIVATE), PAGE));
	assert_true(av_odp_track(&f.seg, at(PRIVATE), PAGE));
	assert_true(av_odp_is_plain(&f.seg, at(PRIVATE), PAGE));
	f.seg.ref++; /* another context has another descriptor */
	assert_false(av_odp_is_plain(&f.seg, at(PRIVATE), PAGE));
	f.seg.ref--;
}

/* Of the last four mappings. */
TEST_WITH(four_mappings_are_remembered, set_up, tear_down)
{
	const unsigned int first[] = {PRIVATE, READ_ONLY, SHARED};

	if (fake_uffd(&f) < 0)
		skip();
	for (unsigned int turn = 0; turn < 4; turn++) {
		atomic_fetch_add(&av_odp_root(&f.seg)->unmaps, 1);
		for (unsigned int i = 0; i < turn; i++) /* of the same mapping, but forgotten */
			assert_true(av_odp_track(&f.seg, at(SHARED), PAGE));
		for (unsigned int i = 0; i < AV_ARRAY_SIZE(first); i++)
			assert_true(av_odp_track(&f.seg, at(first[i]), PAGE));
		assert_true(av_odp_is_plain(&f.seg, at(PRIVATE), PAGE));
		assert_true(av_odp_is_plain(&f.seg, at(READ_ONLY), PAGE));
	}
}

/* --- what is not ----------------------------------------------------------------- */

TEST_WITH(nobody_watches, set_up, tear_down)
{
	struct fake_seg g;

	fake_open(&g, 2);
	assert_true(av_odp_track(&g.seg, PAGE, 1)); /* no table: what is not there, too */
	assert_non_null(av_odp_root_make(&g.seg));
	assert_true(av_odp_track(&g.seg, PAGE, 1)); /* no descriptor */
	assert_false(av_odp_is_plain(&g.seg, at(PRIVATE), PAGE));
	fake_close(&g);
}

/* Of a range that is exchanged, nothing is reported, also if another thread has tracked it. */
TEST_WITH(what_is_exchanged_stays_valid, set_up, tear_down)
{
	if (fake_uffd(&f) < 0)
		skip();
	for (unsigned int tracked = 0; tracked < 2; tracked++) {
		uint64_t stamp;

		assert_true(av_odp_prepare(&f.seg, at(PRIVATE), PAGE, &stamp));
		assert_true(av_odp_track(&f.seg, at(PRIVATE), 2 * PAGE));
		av_odp_set(&f.seg, at(PRIVATE), 2 * PAGE, true);
		av_odp_untrack(at(PRIVATE), 2 * PAGE);
		atomic_fetch_add(&av_odp_root(&f.seg)->unmaps, 1);
		if (tracked)
			assert_true(av_odp_track(&f.seg, at(PRIVATE), 2 * PAGE));
		assert_ptr_equal(mmap(pages, 2 * PAGE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
				 pages);
		av_odp_retrack(at(PRIVATE), 2 * PAGE);
		av_odp_settle(&f.seg);
		assert_int_equal(fake_missing(&f.seg, at(PRIVATE), 2 * PAGE, true), 0);
		assert_int_equal(madvise(pages, PAGE, MADV_DONTNEED), 0); /* watched again */
		av_odp_settle(&f.seg);
		assert_int_equal(fake_missing(&f.seg, at(PRIVATE), 2 * PAGE, true), 1);
	}
}

/* What stays in a segment when its context is closed is exchanged later: others may watch it. */
TEST_WITH(a_closed_context_has_it_watched_for_others, set_up, tear_down)
{
	struct fake_seg g;
	uint64_t stamp;

	if (fake_uffd(&f) < 0)
		skip();
	fake_open(&g, 2);
	av_odp_notify_begin(&g.seg);
	assert_true(av_odp_prepare(&g.seg, at(PRIVATE), PAGE, &stamp));
	assert_true(av_odp_track(&g.seg, at(PRIVATE), PAGE));
	av_odp_set(&g.seg, at(PRIVATE), PAGE, true);
	av_odp_notify_end(&f.seg);
	av_odp_untrack(at(PRIVATE), PAGE);
	av_odp_retrack(at(PRIVATE), PAGE);
	assert_int_equal(madvise(pages, PAGE, MADV_DONTNEED), 0);
	av_odp_settle(&g.seg);
	assert_int_equal(fake_missing(&g.seg, at(PRIVATE), PAGE, false), 1);
	av_odp_notify_end(&g.seg);
	fake_close(&g);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
