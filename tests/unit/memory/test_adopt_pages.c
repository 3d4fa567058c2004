/* SPDX-License-Identifier: MIT */
/*
 * Pages move into a segment and out again: the program sees the same bytes at the same addresses,
 * with the same rights, and what the segment shows meanwhile is what the program sees.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "lib/own_directory.h"
#include "lib/sanitized.h"
#include "memory/adopt_pages.h"
#include "memory/page_move.h"
#include "memory/vma.h"

#define PAGE   4096ul
#define PIECE  (4ul << 20) /* what moves at a time */
#define RW     (PROT_READ | PROT_WRITE)
#define NOBODY MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE

static struct av_seg *seg;

static int set_up(void **state)
{
	const struct av_seg_device dev = {.name = "any0"};

	seg = av_seg_create(&dev, 0);
	return !seg;
}

static int tear_down(void **state)
{
	av_seg_end_calls(seg);
	av_seg_close(seg);
	return 0;
}

/* Private memory at an address that is @off behind a multiple of PIECE. No page of it is there. */
static uint8_t *map(size_t bytes, size_t off)
{
	size_t all = off + bytes + PIECE;
	uint8_t *p = mmap(NULL, all, PROT_NONE, NOBODY, -1, 0), *at;

	assert_true(p != MAP_FAILED);
	at = p + (PIECE - (uintptr_t)p % PIECE) % PIECE + off;
	munmap(p, (size_t)(at - p));
	munmap(at + bytes, (size_t)(p + all - (at + bytes)));
	assert_int_equal(mprotect(at, bytes, RW), 0);
	return at;
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i / PAGE * 7 + i % PAGE + 1);
}

/* Every @nth page gets its bytes; the rest are not there. */
static void fill(uint8_t *p, size_t bytes, size_t nth)
{
	for (size_t i = 0; i < bytes; i++)
		if (i / PAGE % nth == 0)
			p[i] = pattern(i);
}

static bool is_filled(const uint8_t *p, size_t bytes, size_t nth)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i] != (i / PAGE % nth == 0 ? pattern(i) : 0))
			return false;
	return true;
}

static struct av_vma mapping(const void *p)
{
	struct av_vma vma = {.begin = 0};
	int maps = av_vma_open_own();

	assert_true(av_vma_next(maps, (uintptr_t)p, &vma));
	close(maps);
	return vma;
}

static bool is_private(const void *p)
{
	const struct av_vma vma = mapping(p);

	return vma.begin <= (uintptr_t)p && vma.anonymous;
}

static struct av_adopt_pages move_in(uint8_t *p, size_t bytes)
{
	struct av_adopt_pages pages = {.seg = seg, .begin = (uintptr_t)p, .bytes = bytes};

	assert_true(av_adopt_place(&pages));
	assert_true(av_page_move_begin(pages.begin, pages.begin + bytes));
	assert_true(av_adopt_move_in(&pages));
	av_page_move_end();
	return pages;
}

static void move_out(const struct av_adopt_pages *pages)
{
	assert_true(av_page_move_begin(pages->begin, pages->begin + pages->bytes));
	assert_true(av_adopt_move_out(pages));
	av_page_move_end();
}

static bool in_place(const struct av_adopt_pages *pages)
{
	return av_adopt_in_place(pages, pages->begin, pages->bytes);
}

/* --- there and back ----------------------------------------------------------------- */

static const struct {
	size_t off, bytes; /* of its begin behind a multiple of PIECE */
	size_t nth;	   /* page that is there */
} memories[] = {
	{0, PAGE, 1},
	{0, PAGE, 2},
	{PAGE, 16 * PAGE, 1},
	{0, 200 * PAGE, 2}, /* more runs of pages than are told at a time */
	{0, PIECE, 3},
	{PIECE - PAGE, 2 * PAGE, 1},
	{PIECE - 2 * PAGE, PIECE + 4 * PAGE, 5},
	{PAGE, 2 * PIECE, 1025}, /* a piece without any page */
};

static void bytes_stay(void **state)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(memories); i++) {
		size_t bytes = memories[i].bytes, nth = memories[i].nth;
		uint8_t *p = map(bytes, memories[i].off);
		struct av_adopt_pages pages;
		uint8_t *shown;

		fill(p, bytes, nth);
		pages = move_in(p, bytes);
		shown = av_seg_at(seg, pages.at, bytes);
		assert_true(in_place(&pages));
		assert_true(is_filled(p, bytes, nth) && is_filled(shown, bytes, nth));
		shown[bytes - 1] ^= 0xff;
		p[0] ^= 0xff;
		assert_int_equal(p[bytes - 1], shown[bytes - 1]);
		assert_int_equal(p[0], shown[0]);
		move_out(&pages);
		assert_true(is_private(p) && is_private(p + bytes - 1));
		assert_false(in_place(&pages));
		p[0] ^= 0xff;
		p[bytes - 1] ^= 0xff;
		assert_true(is_filled(p, bytes, nth));
		munmap(p, bytes);
	}
}

static void room_is_limited(void **state)
{
	struct av_adopt_pages pages = {.seg = seg, .begin = PIECE, .bytes = AV_SEG_BYTES};

	assert_false(av_adopt_place(&pages));
}

static void rights_stay(void **state)
{
	static const int rights[] = {RW, PROT_READ, PROT_NONE, PROT_WRITE, RW};
	size_t bytes = AV_ARRAY_SIZE(rights) * PAGE;
	uint8_t *p = map(bytes, 0);
	struct av_adopt_pages pages;

	fill(p, bytes, 1);
	pages = move_in(p, bytes);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rights); i++)
		assert_int_equal(mprotect(p + i * PAGE, PAGE, rights[i]), 0);
	move_out(&pages);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rights); i++) {
		const struct av_vma vma = mapping(p + i * PAGE);

		assert_true(vma.anonymous);
		assert_int_equal(av_vma_rights(&vma), rights[i]);
	}
	assert_int_equal(mprotect(p, bytes, RW), 0);
	assert_true(is_filled(p, bytes, 1));
	munmap(p, bytes);
}

/* --- what the program maps elsewhere ------------------------------------------------ */

static bool page_in_place(const struct av_adopt_pages *pages, size_t page, size_t count)
{
	return av_adopt_in_place(pages, pages->begin + page * PAGE, count * PAGE);
}

/* Pages 1 to 5 are, in this order: another's, 4 instead of 2, nobody's, the program's, its own. */
static void only_its_own_pages_are_in_place(void **state)
{
	static const bool mine[] = {true, false, false, false, false, true};
	const size_t count = AV_ARRAY_SIZE(mine);
	uint8_t *p = map(count * PAGE, 0);
	int other = memfd_create("other", MFD_CLOEXEC);
	struct av_adopt_pages pages;

	fill(p, count * PAGE, 1);
	pages = move_in(p, count * PAGE);
	assert_int_equal(ftruncate(other, AV_SEG_BYTES), 0);
	assert_true(mmap(p + PAGE, PAGE, RW, MAP_SHARED | MAP_FIXED, other,
			 (off_t)(pages.at + PAGE)) != MAP_FAILED);
	assert_true(mmap(p + 2 * PAGE, PAGE, RW, MAP_SHARED | MAP_FIXED, seg->file.fd,
			 (off_t)(pages.at + 4 * PAGE)) != MAP_FAILED);
	munmap(p + 3 * PAGE, PAGE);
	assert_true(mmap(p + 4 * PAGE, PAGE, RW, MAP_PRIVATE | MAP_FIXED, seg->file.fd,
			 (off_t)(pages.at + 4 * PAGE)) != MAP_FAILED);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(page_in_place(&pages, i, 1), mine[i]);
	assert_false(page_in_place(&pages, 0, 2) || page_in_place(&pages, 4, 2));
	assert_false(in_place(&pages));
	move_out(&pages);
	for (size_t i = 0; i < count; i += 5)
		assert_true(is_private(p + i * PAGE) && p[i * PAGE] == pattern(i * PAGE));
	assert_true(mapping(p + PAGE).shared);
	munmap(p, count * PAGE);
	close(other);
}

/* Wherever the program has moved them; what is there instead is not touched. */
static void pages_are_found_elsewhere(void **state)
{
	size_t bytes = 8 * PAGE;
	uint8_t *p = map(bytes, 0), *to = map(bytes, 0);
	struct av_adopt_pages pages;

	fill(p, bytes, 1);
	pages = move_in(p, bytes);
	assert_true(mremap(p + 2 * PAGE, 3 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			   to + PAGE) == to + PAGE);
	assert_true(mmap(p + 2 * PAGE, 3 * PAGE, PROT_READ, NOBODY | MAP_FIXED, -1, 0) !=
		    MAP_FAILED);
	move_out(&pages);
	for (size_t i = 0; i < 8; i++) {
		const uint8_t *at = i >= 2 && i < 5 ? to + (i - 1) * PAGE : p + i * PAGE;

		assert_true(is_private(at));
		assert_int_equal(at[5], pattern(i * PAGE + 5));
	}
	assert_int_equal(p[2 * PAGE], 0);
	assert_int_equal(mapping(p + 2 * PAGE).writable, false);
	munmap(p, bytes);
	munmap(to, bytes);
}

/* --- threads and children ------------------------------------------------------------ */

static void *beside_another_thread(void *arg)
{
	move_out(arg);
	return NULL;
}

/* The file's pages are freed: what the program discards later reads as zeros. */
static void bytes_stay_beside_threads(void **state)
{
	size_t bytes = PIECE + 3 * PAGE;
	uint8_t *p = map(bytes, PIECE - PAGE);
	struct av_adopt_pages pages;
	pthread_t thread;

	fill(p, bytes, 2);
	pages = move_in(p, bytes);
	assert_int_equal(mprotect(p + bytes - PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(pthread_create(&thread, NULL, beside_another_thread, &pages), 0);
	pthread_join(thread, NULL);
	assert_false(in_place(&pages));
	assert_true(is_filled(p, bytes, 2));
	assert_false(mapping(p).shared);
	assert_false(mapping(p + bytes - PAGE).writable);
	assert_int_equal(madvise(p, PAGE, MADV_DONTNEED), 0);
	assert_int_equal(p[0], 0);
	munmap(p, bytes);
}

/* In a child: are all bytes there, in memory of its own? */
static bool is_left(const struct av_adopt_pages *pages, uint8_t *p, void *copy)
{
	av_adopt_leave_in_child(pages, copy);
	p[0] ^= 0xff; /* nobody else sees it */
	p[0] ^= 0xff;
	return !mapping(p).shared && !mapping(p + pages->bytes - 1).shared &&
	       is_filled(p, pages->bytes, 3);
}

static void a_child_has_its_own(void **state)
{
	size_t bytes = PIECE + PAGE;
	uint8_t *p = map(bytes, PIECE - PAGE);
	struct av_adopt_pages pages;

	fill(p, bytes, 3);
	pages = move_in(p, bytes);
	for (int with_copy = 0; with_copy < 2; with_copy++) {
		void *copy = with_copy ? av_adopt_copy(&pages) : NULL;
		int status;
		pid_t child;

		assert_int_equal(copy != NULL, with_copy);
		if (copy) /* the child does not see what comes later */
			p[PAGE] ^= 0xff;
		child = fork();
		if (child == 0)
			_exit(!is_left(&pages, p, copy));
		waitpid(child, &status, 0);
		assert_int_equal(status, 0);
		if (copy)
			munmap(copy, bytes);
	}
	p[PAGE] ^= 0xff;
	assert_true(in_place(&pages) && is_filled(p, bytes, 3));
	move_out(&pages);
	munmap(p, bytes);
}

/* The program has closed the segment's descriptor. Last: the segment is of no use then. */
static void bytes_stay_without_the_file(void **state)
{
	size_t bytes = PIECE + 2 * PAGE;
	uint8_t *p = map(bytes, PIECE - PAGE);
	struct av_adopt_pages pages;
	int saved;

	fill(p, bytes, 2);
	pages = move_in(p, bytes);
	assert_int_equal(mprotect(p + PAGE, PAGE, PROT_READ), 0);
	saved = dup(seg->file.fd);
	close(seg->file.fd);
	move_out(&pages);
	assert_int_equal(dup2(saved, seg->file.fd), seg->file.fd);
	close(saved);
	assert_true(is_private(p) && is_private(p + bytes - 1));
	assert_false(mapping(p + PAGE).writable);
	assert_true(is_filled(p, bytes, 2));
	munmap(p, bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_stay, set_up, tear_down),
		cmocka_unit_test_setup_teardown(room_is_limited, set_up, tear_down),
		cmocka_unit_test_setup_teardown(rights_stay, set_up, tear_down),
		cmocka_unit_test_setup_teardown(only_its_own_pages_are_in_place, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pages_are_found_elsewhere, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bytes_stay_beside_threads, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_child_has_its_own, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bytes_stay_without_the_file, set_up, tear_down),
	};

	if (UNDER_TSAN) /* it has a thread of its own */
		return 77;
	return cmocka_run_group_tests(tests, own_directory_join, own_directory_leave);
}
