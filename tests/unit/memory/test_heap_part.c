/* SPDX-License-Identifier: MIT */
/*
 * Parts of the shared heap: which of a range are its pages, where the program has them mapped by
 * now, what is discarded, and where peers find them.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/closed_input.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/region.h"
#include "memory/translate.h"
#include "unit/memory/fake_seg.h"

#define PAGE   4096ul
#define RW     (PROT_READ | PROT_WRITE)
#define WINDOW 16u /* pages of the heap's window in which tests map what they want */

static struct av_shared_heap heap = {.file = {.fd = -1}};
static uint8_t *window;
static struct av_own_fd other;

static struct av_own_fd new_file(void)
{
	struct av_own_fd own;

	assert_true(av_own_fd_keep(&own, memfd_create("pages", MFD_CLOEXEC)));
	assert_int_equal(ftruncate(own.fd, (off_t)AV_SHARED_HEAP_BYTES), 0);
	return own;
}

static int set_up(void **state)
{
	window = mmap(NULL, (WINDOW + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (window == MAP_FAILED)
		return -1;
	window += PAGE; /* nothing is near it */
	heap.begin = (uintptr_t)window;
	heap.file = new_file();
	other = new_file();
	av_heap_part_begin(&heap);
	return 0;
}

static int tear_down(void **state)
{
	munmap(window - PAGE, (WINDOW + 2) * PAGE);
	av_own_fd_close(&heap.file);
	av_own_fd_close(&other);
	return 0;
}

/* @pages of @file, from page @first on, at page @where of the window. */
static void map(unsigned int where, const struct av_own_fd *file, unsigned int first,
		unsigned int pages)
{
	void *at = window + where * PAGE;

	assert_ptr_equal(mmap(at, pages * PAGE, RW, MAP_SHARED | MAP_FIXED, file->fd, first * PAGE),
			 at);
}

/* --- is it near ------------------------------------------------------------------- */

TEST(nothing_is_near_before_the_heap_begins)
{
	assert_false(av_heap_is_near(0, UINT64_MAX));
	assert_false(av_heap_is_near((uintptr_t)state, 1));
}

TEST_WITH(the_window_is_near, set_up, tear_down)
{
	const struct {
		uint64_t addr, bytes;
		bool near;
	} rows[] = {
		{heap.begin, 1, true},
		{heap.begin, AV_SHARED_HEAP_BYTES, true},
		{heap.begin - PAGE, PAGE + 1, true},
		{heap.begin + AV_SHARED_HEAP_BYTES - 1, 1, true},
		{heap.begin - PAGE, PAGE, false},
		{heap.begin + AV_SHARED_HEAP_BYTES, PAGE, false},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		if (av_heap_is_near(rows[i].addr, rows[i].bytes) != rows[i].near)
			fail_msg("row %zu", i);
}

/* --- where ------------------------------------------------------------------------ */

/* A part, in pages of the window, and the page of the file. */
struct part {
	unsigned int begin, end, at;
};

/* All parts of [begin, end) of the window, in pages. */
static unsigned int parts_of(unsigned int begin, unsigned int end, struct part *parts)
{
	uint64_t base = heap.begin, at = base + begin * PAGE;
	struct av_heap_extent extent;
	int maps = av_vma_open_own();
	unsigned int n = 0;

	assert_true(maps >= 0);
	for (; av_heap_next(maps, at, base + end * PAGE, &extent); at = extent.end) {
		assert_true(n < WINDOW);
		assert_int_equal(extent.file.fd, heap.file.fd);
		assert_int_equal(extent.file.dev, heap.file.dev);
		assert_int_equal(extent.file.ino, heap.file.ino);
		assert_int_equal((extent.begin | extent.end | extent.at) % PAGE, 0);
		parts[n++] = (struct part){(unsigned int)((extent.begin - base) / PAGE),
					   (unsigned int)((extent.end - base) / PAGE),
					   (unsigned int)(extent.at / PAGE)};
	}
	close(maps);
	return n;
}

static void expect_parts(unsigned int begin, unsigned int end, const struct part *want,
			 unsigned int count)
{
	struct part parts[WINDOW];

	assert_int_equal(parts_of(begin, end, parts), count);
	for (unsigned int i = 0; i < count; i++) {
		assert_int_equal(parts[i].begin, want[i].begin);
		assert_int_equal(parts[i].end, want[i].end);
		assert_int_equal(parts[i].at, want[i].at);
	}
}

#define EXPECT_PARTS(begin, end, ...)                                \
	do {                                                         \
		static const struct part want[] = {__VA_ARGS__};     \
		expect_parts(begin, end, want, AV_ARRAY_SIZE(want)); \
	} while (0)

TEST_WITH(parts_of_a_mapping, set_up, tear_down)
{
	map(4, &heap.file, 4, 4); /* what is before it and behind is of nobody */
	EXPECT_PARTS(0, WINDOW, {4, 8, 4});
	EXPECT_PARTS(4, 8, {4, 8, 4});
	EXPECT_PARTS(0, 5, {4, 5, 4});
	EXPECT_PARTS(7, WINDOW, {7, 8, 7});
	EXPECT_PARTS(5, 7, {5, 7, 5});
	expect_parts(0, 4, NULL, 0);
	expect_parts(8, WINDOW, NULL, 0);
	expect_parts(5, 5, NULL, 0);
}

TEST_WITH(another_file_is_none, set_up, tear_down)
{
	map(0, &heap.file, 0, 8);
	map(2, &other, 2, 2);
	map(10, &other, 10, 2);
	EXPECT_PARTS(0, WINDOW, {0, 2, 0}, {4, 8, 4});
}

/* Numbers of inodes are one device's: the program may have a file of the same number on another. */
TEST_WITH(another_device_is_none, set_up, tear_down)
{
	map(0, &heap.file, 0, WINDOW);
	heap.file.dev++;
	av_heap_part_begin(&heap);
	heap.file.dev--;
	expect_parts(0, WINDOW, NULL, 0);
	memset(window, 1, WINDOW * PAGE);
	av_heap_discard(heap.begin, WINDOW * PAGE);
	for (unsigned int i = 0; i < WINDOW * PAGE; i++)
		assert_int_equal(window[i], 1);
}

/* The program moves a part elsewhere, and has a hole where it was. */
TEST_WITH(a_part_that_was_moved_is_found, set_up, tear_down)
{
	map(8, &heap.file, 8, 4);
	assert_ptr_equal(mremap(window + 9 * PAGE, 2 * PAGE, 2 * PAGE,
				MREMAP_MAYMOVE | MREMAP_FIXED, window + PAGE),
			 window + PAGE);
	EXPECT_PARTS(0, WINDOW, {1, 3, 9}, {8, 9, 8}, {11, 12, 11});
}

/* --- what is discarded -------------------------------------------------------------- */

/* Pages 3 to 6; no descriptor is left open. */
static void discard(void)
{
	unsigned int descriptors = 0, after = 0;

	for (int fd = 0; fd < 256; fd++)
		descriptors += fcntl(fd, F_GETFD) >= 0;
	memset(window, 1, WINDOW * PAGE);
	av_heap_discard(heap.begin + 3 * PAGE, 4 * PAGE);
	for (int fd = 0; fd < 256; fd++)
		after += fcntl(fd, F_GETFD) >= 0;
	assert_int_equal(after, descriptors);
}

static void expect_zeros(uint32_t pages)
{
	for (unsigned int i = 0; i < WINDOW * PAGE; i++)
		assert_int_equal(window[i], !(pages >> i / PAGE & 1));
}

TEST_WITH(the_heaps_pages_are_discarded, set_up, tear_down)
{
	map(0, &heap.file, 0, WINDOW);
	map(5, &other, 5, 1);
	discard();
	expect_zeros(1u << 3 | 1u << 4 | 1u << 6);
}

/* It needs a descriptor to see mappings, and number 0 is one like others. */
TEST_WITH(without_standard_input, set_up, tear_down)
{
	int input = close_input();

	map(0, &heap.file, 0, WINDOW);
	discard();
	input_again(input);
	expect_zeros(0xfu << 3);
}

/* The program has closed our descriptor: the mapping does as well. */
TEST_WITH(without_the_descriptor, set_up, tear_down)
{
	int kept = dup(heap.file.fd);

	map(0, &heap.file, 0, WINDOW);
	close(heap.file.fd);
	discard();
	expect_zeros(0xfu << 3);
	assert_int_equal(dup2(kept, heap.file.fd), heap.file.fd);
	close(kept);
}

/* --- a peer's ------------------------------------------------------------------------ */

#define PART_AT (1ull << 29)
#define ADDR	(1ull << 40)
#define WHOLE	(AV_HEAP_PART_BASE + AV_SHARED_HEAP_BYTES) /* where it ends */

/* A byte of a region of a peer's, as the descriptor says. Return: where it is here */
static const uint8_t *peers_byte(struct av_seg *seg, uint64_t at, uint64_t bytes, uint64_t offset)
{
	struct av_heap_part *part = av_seg_at(seg, PART_AT, sizeof(*part));

	part->addr = ADDR;
	part->bytes = bytes;
	atomic_store(&part->at, at);
	return av_heap_part_at(seg, PART_AT >> AV_HEAP_PART_SHIFT, ADDR + offset, 1);
}

TEST_WITH(a_peer_has_it_mapped, set_up, tear_down)
{
	const uint64_t at = AV_HEAP_PART_BASE;
	struct fake_seg fake;
	const uint8_t *p;

	assert_int_equal(pwrite(heap.file.fd, "h", 1, 2 * PAGE), 1);
	fake_open(&fake, 1);
	fake.seg.head->shared_heap_fd = heap.file.fd;
	fake.seg.head->shared_heap_inode = heap.file.ino;
	fake.seg.head->shared_heap_dev = heap.file.dev;
	fake.seg.same_pidns = false; /* its number is another process's here */
	assert_null(peers_byte(&fake.seg, at, PAGE, 0));
	av_views_forget(&fake.seg);
	fake.seg.same_pidns = true;
	assert_null(peers_byte(&fake.seg, 0, PAGE, 0)); /* private */
	assert_null(peers_byte(&fake.seg, WHOLE, PAGE, 0));
	assert_null(peers_byte(&fake.seg, WHOLE - PAGE, PAGE + 1, 0));
	p = peers_byte(&fake.seg, at + PAGE, 2 * PAGE, PAGE);
	assert_non_null(p);
	assert_int_equal(*p, 'h');
	assert_ptr_equal(peers_byte(&fake.seg, at, AV_SHARED_HEAP_BYTES, 2 * PAGE), p);
	av_views_forget(&fake.seg);
	fake.seg.head->shared_heap_inode++; /* the number is another file's by now */
	assert_null(peers_byte(&fake.seg, at, PAGE, 0));
	fake_close(&fake);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
