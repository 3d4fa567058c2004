/* SPDX-License-Identifier: MIT */
/* Blocks of a segment: whole, apart from each other, aligned, zeroed, little larger than asked,
 * used again.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/unit.h"
#include "segment/pages.h"
#include "segment/segment.h"

#define BEGIN 4096ul
#define END   (64ul << 20)

static struct av_seg seg;

static int open_heap(void **state)
{
	memset(&seg, 0, sizeof(seg));
	assert_true(av_own_fd_keep(&seg.file, memfd_create("heap", MFD_CLOEXEC)));
	assert_int_equal(ftruncate(seg.file.fd, END), 0);
	seg.head = mmap(NULL, END, PROT_READ | PROT_WRITE, MAP_SHARED, seg.file.fd, 0);
	assert_ptr_not_equal(seg.head, MAP_FAILED);
	seg.tables = seg.file;
	assert_true(av_heap_create(&seg, BEGIN, END, 1));
	return 0;
}

static int close_heap(void **state)
{
	av_heap_destroy(&seg);
	munmap(seg.head, END);
	av_own_fd_close(&seg.file);
	return 0;
}

static uint8_t *bytes_at(uint64_t at)
{
	return (uint8_t *)seg.head + at;
}

/* Is the block where it may be, aligned as promised and zeroed? It is filled with @mark then. */
static void check_block(uint64_t at, uint64_t size, uint8_t mark)
{
	uint64_t align = size & -size;

	assert_true(at >= BEGIN && at + size <= END);
	assert_int_equal(at % 64, 0);
	assert_int_equal(at % (align < 4096 ? align : 4096), 0);
	for (uint64_t i = 0; i < size; i++)
		assert_int_equal(bytes_at(at)[i], 0);
	memset(bytes_at(at), mark, size);
}

static void check_mark(uint64_t at, uint64_t size, uint8_t mark)
{
	for (uint64_t i = 0; i < size; i++)
		assert_int_equal(bytes_at(at)[i], mark);
}

/* Around every boundary between two sizes of blocks. */
static unsigned int sizes_of(uint64_t size[], unsigned int room)
{
	unsigned int count = 0;

	size[count++] = 1;
	for (uint64_t power = 64; power <= 128 << 10; power *= 2)
		for (uint64_t quarter = 4; quarter < 8; quarter++)
			for (uint64_t around = 0; around < 3; around++)
				size[count++] = power / 4 * quarter + around - 1;
	assert_true(count <= room);
	return count;
}

TEST_WITH(blocks_of_every_size_lie_apart, open_heap, close_heap)
{
	uint64_t size[256], at[256];
	unsigned int count = sizes_of(size, 256);

	for (unsigned int i = 0; i < count; i++) {
		at[i] = av_seg_alloc(&seg, size[i]);
		check_block(at[i], size[i], (uint8_t)(i + 1));
	}
	for (unsigned int i = 0; i < count; i++)
		check_mark(at[i], size[i], (uint8_t)(i + 1));
	for (unsigned int i = 0; i < count; i++)
		av_seg_free(&seg, at[i], size[i]);
	for (unsigned int i = 0; i < count; i++)
		check_block(av_seg_alloc(&seg, size[i]), size[i], 1);
}

TEST_WITH(a_block_is_little_larger_than_asked, open_heap, close_heap)
{
	uint64_t size[256];
	unsigned int count = sizes_of(size, 256);

	for (unsigned int i = 0; i < count; i++) {
		uint64_t first = av_seg_alloc(&seg, size[i]), last = 0;

		for (int k = 0; k < 8; k++)
			last = av_seg_alloc(&seg, size[i]);
		assert_true(last - first <= 8 * (size[i] + size[i] / 4 + 64));
		if (size[i] >= 256 && (size[i] & (size[i] - 1)) == 0)
			assert_int_equal(last - first, 8 * size[i]);
	}
}

TEST_WITH(what_is_freed_is_used_again, open_heap, close_heap)
{
	static const uint64_t size[] = {64, 320, 4096, 40960, 65536, 81920, 1u << 20};

	for (unsigned int i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		uint64_t at = av_seg_alloc(&seg, size[i]);

		check_block(at, size[i], 0xa5);
		av_seg_free(&seg, at, size[i]);
		assert_int_equal(av_seg_alloc(&seg, size[i]), at);
		check_block(at, size[i], 1);
	}
}

TEST_WITH(large_blocks_give_their_pages_back, open_heap, close_heap)
{
	static const uint64_t size[] = {64u << 10, 80u << 10, 1u << 20, 1280u << 10};
	struct stat before, after;

	for (unsigned int i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		uint64_t at = av_seg_alloc(&seg, size[i]);

		assert_int_not_equal(at, 0);
		assert_int_equal(fstat(seg.file.fd, &before), 0);
		av_seg_free(&seg, at, size[i]);
		assert_int_equal(fstat(seg.file.fd, &after), 0);
		assert_int_equal((uint64_t)(before.st_blocks - after.st_blocks) * 512, size[i]);
	}
}

TEST_WITH(a_full_heap_says_so, open_heap, close_heap)
{
	uint64_t last = 0, at;

	while ((at = av_seg_alloc(&seg, 1u << 20)))
		last = at;
	assert_int_equal(errno, ENOMEM);
	errno = 0;
	assert_int_equal(av_seg_alloc(&seg, UINT64_MAX), 0);
	assert_int_equal(errno, ENOMEM);
	av_seg_free(&seg, last, 1u << 20);
	assert_int_equal(av_seg_alloc(&seg, 1u << 20), last);
}

/* Offset and length stand in the segment, where a peer may have written anything. */
static const struct {
	uint64_t at, size;
} nonsense[] = {
	{1, 64},
	{64, 64},
	{BEGIN + 32, 64},
	{BEGIN - 64, 1ul << 20},
	{BEGIN, 1ul << 20},
	{BEGIN, 1ul << 40},
	{BEGIN, UINT64_MAX},
	{END - 64, 64},
	{END, 64},
	{0ul - 64, 64},
	{UINT64_MAX, 0},
};

TEST_WITH(what_is_no_block_is_not_freed, open_heap, close_heap)
{
	uint64_t kept = av_seg_alloc(&seg, 4096), at;

	check_block(kept, 4096, 1);
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		av_seg_free(&seg, nonsense[i].at, nonsense[i].size);
		at = av_seg_alloc(&seg, 64);
		check_block(at, 64, 2);
		check_mark(kept, 4096, 1);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
