/* SPDX-License-Identifier: MIT */
/*
 * Which pages are adopted: where the program has them mapped by now, what of a range is theirs, and
 * what is discarded. The shared heap's row comes last: it is for good.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "lib/closed_input.h"
#include "memory/adopted.h"
#include "memory/vma.h"
#include "unit/memory/fake_seg.h"

#define PAGE	   4096ul
#define RW	   (PROT_READ | PROT_WRITE)
#define FILE_PAGES 64u
#define FAR	   (1ull << 46) /* an address where nothing is looked at */

static struct av_own_fd file, other;

static struct av_own_fd new_file(void)
{
	struct av_own_fd own;

	assert_true(av_own_fd_keep(&own, memfd_create("pages", MFD_CLOEXEC)));
	assert_int_equal(ftruncate(own.fd, FILE_PAGES * PAGE), 0);
	return own;
}

static int set_up(void **state)
{
	file = new_file();
	other = new_file();
	return 0;
}

static int tear_down(void **state)
{
	av_own_fd_close(&file);
	av_own_fd_close(&other);
	return 0;
}

/* A window of address space in which tests map what they want; nothing is near it. */
static uint8_t *window(unsigned int pages)
{
	uint8_t *p = mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p + PAGE;
}

static void close_window(uint8_t *p, unsigned int pages)
{
	munmap(p - PAGE, (pages + 2) * PAGE);
}

/* @pages of @f, from page @first on, at page @where of the window. */
static void map(uint8_t *p, unsigned int where, const struct av_own_fd *f, unsigned int first,
		unsigned int pages)
{
	void *at = p + where * PAGE;

	assert_ptr_equal(mmap(at, pages * PAGE, RW, MAP_SHARED | MAP_FIXED, f->fd, first * PAGE),
			 at);
}

/* Entry @i: @pages of the file from page @first on, which were adopted at page @where. */
static void show(uint32_t i, const uint8_t *p, unsigned int where, unsigned int first,
		 unsigned int pages)
{
	uint64_t begin = (uintptr_t)p + where * PAGE;
	const struct av_adopted_piece piece = {begin, begin + pages * PAGE, file, first * PAGE};

	av_adopted_show(i, &piece);
}

/* --- is there any -------------------------------------------------------------------------- */

static void test_any(void **state)
{
	const uint8_t *p = (const uint8_t *)FAR;

	assert_false(av_adopted_any(FAR, PAGE));
	show(3, p, 0, 0, 1);
	assert_true(av_adopted_any(FAR + (1ull << 40), PAGE)); /* it may have moved anywhere */
	show(0, p, 4, 4, 1);
	av_adopted_hide(3);
	assert_true(av_adopted_any(FAR, PAGE));
	av_adopted_hide(0);
	assert_false(av_adopted_any(FAR, PAGE));
}

static void test_overlaps(void **state)
{
	static const struct {
		unsigned int at, bytes; /* behind the page before the first */
		bool overlaps;
	} rows[] = {
		{PAGE, 1, true},     {3 * PAGE - 1, 1, true}, {0, PAGE + 1, true},
		{0, 4 * PAGE, true}, {0, PAGE, false},	      {3 * PAGE, PAGE, false},
	};
	static const uint32_t entries[] = {0, 1, 7, AV_ADOPTIONS - 1};

	for (unsigned int e = 0; e < sizeof(entries) / sizeof(entries[0]); e++) {
		show(entries[e], (const uint8_t *)FAR, 1, 0, 2);
		for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			assert_int_equal(av_adopted_overlaps(FAR + rows[i].at, rows[i].bytes),
					 rows[i].overlaps);
		av_adopted_hide(entries[e]);
		assert_false(av_adopted_overlaps(FAR, 4 * PAGE));
	}
}

/* --- where ---------------------------------------------------------------------------------- */

#define WINDOW 16u

/* A part, in pages of the window, and the page of the file. */
struct part {
	unsigned int begin, end, at;
};

/* All parts of [begin, end) of the window, in pages. */
static unsigned int parts_of(uint8_t *p, unsigned int begin, unsigned int end, struct part *parts)
{
	uint64_t base = (uintptr_t)p, at = base + begin * PAGE;
	struct av_adopted_piece piece;
	int maps = av_vma_open_own();
	unsigned int n = 0;

	assert_true(maps >= 0);
	for (; av_adopted_next(maps, at, base + end * PAGE, &piece); at = piece.end) {
		assert_true(n < WINDOW);
		assert_int_equal(piece.file.fd, file.fd);
		assert_int_equal(piece.file.dev, file.dev);
		assert_int_equal(piece.file.ino, file.ino);
		assert_int_equal((piece.begin | piece.end | piece.at) % PAGE, 0);
		parts[n++] = (struct part){(unsigned int)((piece.begin - base) / PAGE),
					   (unsigned int)((piece.end - base) / PAGE),
					   (unsigned int)(piece.at / PAGE)};
	}
	close(maps);
	return n;
}

static void expect_parts(uint8_t *p, unsigned int begin, unsigned int end, const struct part *want,
			 unsigned int count)
{
	struct part parts[WINDOW];

	assert_int_equal(parts_of(p, begin, end, parts), count);
	for (unsigned int i = 0; i < count; i++) {
		assert_int_equal(parts[i].begin, want[i].begin);
		assert_int_equal(parts[i].end, want[i].end);
		assert_int_equal(parts[i].at, want[i].at);
	}
}

#define EXPECT_PARTS(p, begin, end, ...)                                           \
	do {                                                                       \
		static const struct part want[] = {__VA_ARGS__};                   \
		expect_parts(p, begin, end, want, sizeof(want) / sizeof(want[0])); \
	} while (0)

static void expect_none(uint8_t *p, unsigned int begin, unsigned int end)
{
	expect_parts(p, begin, end, NULL, 0);
}

static void test_next(void **state)
{
	uint8_t *p = window(WINDOW);

	map(p, 4, &file, 10, 4); /* two before it and two behind are of nobody */
	expect_none(p, 0, WINDOW);
	show(0, p, 4, 10, 4);
	EXPECT_PARTS(p, 0, WINDOW, {4, 8, 10});
	EXPECT_PARTS(p, 4, 8, {4, 8, 10});
	EXPECT_PARTS(p, 0, 5, {4, 5, 10});
	EXPECT_PARTS(p, 7, WINDOW, {7, 8, 13});
	EXPECT_PARTS(p, 5, 7, {5, 7, 11});
	expect_none(p, 0, 4);
	expect_none(p, 8, WINDOW);
	expect_none(p, 5, 5);
	av_adopted_hide(0);
	expect_none(p, 0, WINDOW);
	close_window(p, WINDOW);
}

/* The mapping may show more of the file than was adopted, or another file's same pages. */
static void test_next_other_pages(void **state)
{
	uint8_t *p = window(WINDOW);

	map(p, 0, &file, 8, 8);
	map(p, 8, &other, 10, 4);
	map(p, 12, &file, 20, 4);
	show(0, p, 2, 10, 4);
	EXPECT_PARTS(p, 0, WINDOW, {2, 6, 10});
	EXPECT_PARTS(p, 0, 3, {2, 3, 10});
	expect_none(p, 0, 2);
	av_adopted_hide(0);
	close_window(p, WINDOW);
}

/* Numbers of inodes are one device's: the program may have a file of the same number on another. */
static void test_next_other_device(void **state)
{
	uint8_t *p = window(WINDOW);

	map(p, 0, &file, 0, WINDOW);
	file.dev++;
	show(0, p, 2, 2, 4);
	file.dev--;
	expect_none(p, 0, WINDOW);
	memset(p, 1, WINDOW * PAGE);
	av_adopted_discard((uintptr_t)p, WINDOW * PAGE);
	for (unsigned int i = 0; i < WINDOW * PAGE; i++)
		assert_int_equal(p[i], 1);
	av_adopted_hide(0);
	close_window(p, WINDOW);
}

/* Entries are not in the order of their addresses, and one mapping may show pages of several. */
static void test_next_several(void **state)
{
	uint8_t *p = window(WINDOW);

	map(p, 1, &file, 1, 14);
	show(2, p, 2, 2, 2);
	show(0, p, 8, 8, 2);
	show(1, p, 5, 5, 1);
	EXPECT_PARTS(p, 0, WINDOW, {2, 4, 2}, {5, 6, 5}, {8, 10, 8});
	EXPECT_PARTS(p, 3, 9, {3, 4, 3}, {5, 6, 5}, {8, 9, 8});
	av_adopted_hide(2);
	EXPECT_PARTS(p, 0, WINDOW, {5, 6, 5}, {8, 10, 8});
	av_adopted_hide(0);
	EXPECT_PARTS(p, 0, WINDOW, {5, 6, 5});
	av_adopted_hide(1);
	close_window(p, WINDOW);
}

/* The program moves a part elsewhere, and has a hole where it was. */
static void test_next_moved(void **state)
{
	uint8_t *p = window(WINDOW);

	map(p, 8, &file, 0, 4);
	show(0, p, 8, 0, 4);
	assert_ptr_equal(
		mremap(p + 9 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + PAGE),
		p + PAGE);
	EXPECT_PARTS(p, 0, WINDOW, {1, 3, 1}, {8, 9, 0}, {11, 12, 3});
	av_adopted_hide(0);
	close_window(p, WINDOW);
}

/* --- what is discarded ----------------------------------------------------------------------- */

static void discard(uint8_t *p)
{
	unsigned int descriptors = 0, after = 0;

	for (int fd = 0; fd < 256; fd++)
		descriptors += fcntl(fd, F_GETFD) >= 0;
	memset(p, 1, WINDOW * PAGE);
	av_adopted_discard((uintptr_t)p + 3 * PAGE, 4 * PAGE);
	for (int fd = 0; fd < 256; fd++)
		after += fcntl(fd, F_GETFD) >= 0;
	assert_int_equal(after, descriptors);
}

static void expect_zeros(const uint8_t *p, uint32_t pages)
{
	for (unsigned int i = 0; i < WINDOW * PAGE; i++)
		assert_int_equal(p[i], !(pages >> i / PAGE & 1));
}

static void test_discard(void **state)
{
	uint8_t *p = window(WINDOW);

	map(p, 0, &file, 0, WINDOW);
	discard(p);
	expect_zeros(p, 0); /* nothing is adopted */
	show(0, p, 2, 2, 2);
	show(1, p, 5, 5, 6);
	discard(p);
	expect_zeros(p, 1u << 3 | 1u << 5 | 1u << 6);
	av_adopted_hide(1);
	discard(p);
	expect_zeros(p, 1u << 3);
	av_adopted_hide(0);
	close_window(p, WINDOW);
}

/* It needs a descriptor to see mappings, and number 0 is one like others. */
static void test_discard_without_input(void **state)
{
	uint8_t *p = window(WINDOW);
	int input = close_input();

	map(p, 0, &file, 0, WINDOW);
	show(0, p, 4, 4, 2);
	discard(p);
	input_again(input);
	expect_zeros(p, 1u << 4 | 1u << 5);
	av_adopted_hide(0);
	close_window(p, WINDOW);
}

/* The program has closed our descriptor: the mapping does as well. */
static void test_discard_closed(void **state)
{
	uint8_t *p = window(WINDOW);
	int kept = dup(file.fd);

	map(p, 0, &file, 0, WINDOW);
	show(0, p, 4, 4, 2);
	close(file.fd);
	discard(p);
	expect_zeros(p, 1u << 4 | 1u << 5);
	av_adopted_hide(0);
	assert_int_equal(dup2(kept, file.fd), file.fd);
	close(kept);
	close_window(p, WINDOW);
}

/* --- the shared heap -------------------------------------------------------------------------- */

/* A file of the heap's size, with a byte in its third page. */
static int heap_file(void)
{
	int fd = memfd_create("heap", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)AV_SHARED_HEAP_BYTES), 0);
	assert_int_equal(pwrite(fd, "h", 1, 2 * PAGE), 1);
	return fd;
}

static void test_in_heap(void **state)
{
	struct fake_seg fake;
	struct stat st;
	int fd = heap_file();
	uint8_t *p;

	fake_open(&fake, 1);
	assert_int_equal(fstat(fd, &st), 0);
	fake.seg.head->shared_heap_fd = fd;
	fake.seg.head->shared_heap_inode = st.st_ino;
	fake.seg.same_pidns = false; /* its number is another process's here */
	assert_null(av_adopted_in_heap(&fake.seg, 0, PAGE, 0));
	fake.seg.same_pidns = true;
	assert_null(av_adopted_in_heap(&fake.seg, AV_SHARED_HEAP_BYTES, PAGE, 0));
	assert_null(av_adopted_in_heap(&fake.seg, AV_SHARED_HEAP_BYTES - PAGE, PAGE + 1, 0));
	p = av_adopted_in_heap(&fake.seg, PAGE, 2 * PAGE, PAGE);
	assert_non_null(p);
	assert_int_equal(*p, 'h');
	assert_ptr_equal(av_adopted_in_heap(&fake.seg, 0, AV_SHARED_HEAP_BYTES, 2 * PAGE), p);
	av_shared_heap_forget(&fake.seg.shared_heap);
	fake.seg.head->shared_heap_inode++; /* the number is another file's by now */
	assert_null(av_adopted_in_heap(&fake.seg, 0, PAGE, 0));
	fake_close(&fake);
	close(fd);
}

static void test_heap(void **state)
{
	uint8_t *p = window(WINDOW);
	struct av_shared_heap heap = {.begin = (uintptr_t)p, .fd = heap_file()};
	uint64_t end = heap.begin + AV_SHARED_HEAP_BYTES;
	struct stat st;

	assert_int_equal(fstat(heap.fd, &st), 0);
	file = (struct av_own_fd){heap.fd, st.st_dev, st.st_ino};
	map(p, 0, &file, 0, 4);
	assert_false(av_adopted_any(heap.begin, PAGE));
	av_adopted_show_heap(&heap);
	assert_true(av_adopted_any(heap.begin, 1));
	assert_true(av_adopted_any(end - 1, 1));
	assert_true(av_adopted_any(heap.begin - PAGE, PAGE + 1));
	assert_false(av_adopted_any(heap.begin - PAGE, PAGE));
	assert_false(av_adopted_any(end, PAGE));
	assert_false(av_adopted_overlaps(heap.begin, PAGE)); /* nothing that could move out */
	EXPECT_PARTS(p, 0, WINDOW, {0, 4, 0});
	memset(p, 1, 4 * PAGE);
	av_adopted_discard(heap.begin + PAGE, 2 * PAGE);
	for (unsigned int i = 0; i < 4 * PAGE; i++)
		assert_int_equal(p[i], i / PAGE == 0 || i / PAGE == 3);
	close_window(p, WINDOW);
	close(heap.fd);
}

/* Pages are a file's also when they are not adopted any more. The inode alone is nobody's. */
static void test_is_file(void **state)
{
	struct av_vma vma = {.inode = file.ino, .dev = file.dev};
	uint8_t *p = window(WINDOW);

	assert_false(av_adopted_is_file(&vma));
	show(0, p, 0, 0, 4);
	assert_true(av_adopted_ever());
	assert_true(av_adopted_is_file(&vma));
	av_adopted_hide(0);
	assert_true(av_adopted_ever());
	assert_true(av_adopted_is_file(&vma));
	vma.dev++;
	assert_false(av_adopted_is_file(&vma));
	vma = (struct av_vma){.inode = other.ino, .dev = other.dev};
	assert_false(av_adopted_is_file(&vma));
	vma.inode = 0;
	assert_false(av_adopted_is_file(&vma));
	close_window(p, WINDOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_any, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_overlaps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_next, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_next_other_pages, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_next_other_device, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_next_several, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_next_moved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_discard, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_discard_without_input, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_discard_closed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_is_file, set_up, tear_down),
		cmocka_unit_test(test_in_heap),
		cmocka_unit_test(test_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
