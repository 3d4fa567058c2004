/* SPDX-License-Identifier: MIT */
/*
 * Copies between translated lists: which bytes arrive, what the kernel is asked for when one end is
 * another process's, and what its refusals mean. The other process's memory is an array here, and
 * the calls that reach it are replaced.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "copy/copy.h"
#include "lib/unit.h"
#include "memory/odp.h"
#include "memory/region.h"
#include "memory/translate.h"
#include "unit/memory/seg_fixture.h"

#define PAGE 4096u
#define ROOM (16u * PAGE) /* of the bytes that are copied, in each of the arrays */

static uint8_t near[ROOM] AV_ALIGNED(PAGE), far[ROOM] AV_ALIGNED(PAGE), was[ROOM];

/* --- the kernel -------------------------------------------------------------------- */

static struct {
	ssize_t error;	  /* what each call returns; 0: it copies */
	size_t most;	  /* bytes that one call copies */
	uint64_t end;	  /* of the destination; 0: pieces may end anywhere */
	int64_t to_there; /* from the far end's address to the destination's */
	unsigned int calls;
} kernel;

/*
 * Both ends are equally aligned within a line, and pieces end with a page of the destination or
 * with the copy.
 */
static void expect_aligned(const struct av_vm_remote *remote, const struct iovec *local,
			   size_t count)
{
	uint64_t at = remote->addr, end = remote->addr + remote->bytes + (uint64_t)kernel.to_there;

	assert_true(count > 0 && count <= AV_PIECES_MAX);
	for (size_t i = 0; i < count; at += local[i++].iov_len)
		assert_int_equal(((uintptr_t)local[i].iov_base - at) % AV_PIECES_LINE, 0);
	assert_int_equal(at, remote->addr + remote->bytes);
	assert_true(end % PAGE == 0 || end == kernel.end || kernel.end == 0);
}

ssize_t av_vm_call(bool write, const struct av_vm_remote *remote, const struct iovec *local,
		   size_t count)
{
	uint8_t *there = (uint8_t *)(uintptr_t)remote->addr;
	size_t done = 0;

	kernel.calls++;
	if (kernel.error)
		return kernel.error;
	expect_aligned(remote, local, count);
	for (size_t i = 0; i < count; i++) {
		size_t n = local[i].iov_len < kernel.most - done ? local[i].iov_len
								 : kernel.most - done;

		memcpy(write ? there + done : local[i].iov_base,
		       write ? local[i].iov_base : there + done, n);
		done += n;
	}
	return (ssize_t)done;
}

/* --- lists ------------------------------------------------------------------------- */

static int log_fd; /* where the library's warnings go */

static int open_log(void **state)
{
	char where[64];

	log_fd = memfd_create("log", 0);
	snprintf(where, sizeof(where), "warn:/proc/self/fd/%d", log_fd);
	return log_fd < 0 || setenv("ANYVERBS_LOG", where, 1);
}

static int set_up(void **state)
{
	fake_open(&fake, 1);
	memset(&kernel, 0, sizeof(kernel));
	kernel.most = SIZE_MAX;
	return av_copy_init();
}

static void fill(uint8_t *bytes, uint8_t seed)
{
	for (size_t i = 0; i < ROOM; i++)
		bytes[i] = (uint8_t)(seed + i * 7 + i / 251);
}

static struct av_spans here(void *at, uint64_t bytes)
{
	struct av_spans spans;

	av_spans_local(&spans, &fake.seg, at, bytes);
	return spans;
}

static struct av_spans there(void *at, uint64_t bytes)
{
	struct av_spans spans = here(NULL, bytes);

	spans.at[0].addr = (uintptr_t)at;
	return spans;
}

static enum av_fault copy(const struct av_spans *dst, const struct av_spans *src)
{
	return av_xfer_copy(dst, src, 0);
}

/* @to has @from's bytes from there on, and is otherwise as it was. */
static void expect_copied(const uint8_t *to, size_t to_at, const uint8_t *from, size_t from_at,
			  size_t bytes)
{
	assert_memory_equal(to, was, to_at);
	assert_memory_equal(to + to_at, from + from_at, bytes);
	assert_memory_equal(to + to_at + bytes, was + to_at + bytes, ROOM - to_at - bytes);
}

/* --- between two processes --------------------------------------------------------- */

static const size_t offsets[] = {0, 1, 7, 8, 60, 63, 64, 4000, 4095};
static const size_t lengths[] = {1, 2, 8, 63, 64, 65, 100, 4096, 4097, 8192, 8193, 20000};

static void copy_one(size_t near_at, size_t far_at, size_t bytes, bool write)
{
	struct av_spans n = here(near + near_at, bytes), f = there(far + far_at, bytes);

	fill(near, 1);
	fill(far, 2);
	memcpy(was, write ? far : near, ROOM);
	kernel.end = (uintptr_t)(write ? far + far_at : near + near_at) + bytes;
	kernel.to_there =
		write ? 0 : (int64_t)((uintptr_t)(near + near_at) - (uintptr_t)far - far_at);
	assert_int_equal(write ? copy(&f, &n) : copy(&n, &f), AV_FAULT_NONE);
	if (write)
		expect_copied(far, far_at, near, near_at, bytes);
	else
		expect_copied(near, near_at, far, far_at, bytes);
}

static void copy_all(bool write)
{
	for (size_t n = 0; n < AV_ARRAY_SIZE(offsets); n++)
		for (size_t f = 0; f < AV_ARRAY_SIZE(offsets); f++)
			for (size_t l = 0; l < AV_ARRAY_SIZE(lengths); l++)
				copy_one(offsets[n], offsets[f], lengths[l], write);
}

/* Wherever the stack is, on which bounce buffers are. */
TEST_WITH(bytes_arrive_in_aligned_pieces, set_up, close_fake)
{
	for (size_t depth = 0; depth < 4; depth++) {
		volatile uint8_t *on_the_stack = __builtin_alloca(16 * depth + 1);

		on_the_stack[0] = 0;
		copy_all(true);
		copy_all(false);
	}
}

TEST_WITH(what_a_call_leaves_is_copied_by_the_next, set_up, close_fake)
{
	static const size_t most[] = {1, 8, 63, 4096};

	for (size_t i = 0; i < AV_ARRAY_SIZE(most); i++) {
		kernel.most = most[i];
		for (int write = 0; write < 2; write++) {
			kernel.calls = 0;
			/* Equally aligned: a part that was copied leaves it so. */
			copy_one(64, 128, 5000, write);
			assert_true(kernel.calls >= 5000 / most[i]);
		}
	}
}

/* --- refusals ---------------------------------------------------------------------- */

static const struct {
	int error;
	enum av_fault write, read;
} errors[] = {
	{EPERM, AV_FAULT_FORBIDDEN, AV_FAULT_FORBIDDEN},
	{ENOSYS, AV_FAULT_FORBIDDEN, AV_FAULT_FORBIDDEN},
	{ESRCH, AV_FAULT_GONE, AV_FAULT_GONE},
	{EAGAIN, AV_FAULT_BUSY, AV_FAULT_BUSY},
	{ENOMEM, AV_FAULT_DST, AV_FAULT_SRC},
	{EFAULT, AV_FAULT_DST, AV_FAULT_SRC},
};

TEST_WITH(each_error_of_the_kernel_has_its_meaning, set_up, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(errors); i++) {
		for (size_t at = 0; at < 2;
		     at++) { /* equally aligned, and through a bounce buffer */
			struct av_spans n = here(near + at, 100), f = there(far, 100);

			kernel.error = -errors[i].error;
			atomic_store(&fake.seg.vm_refused, false);
			if (copy(&f, &n) != errors[i].write || copy(&n, &f) != errors[i].read)
				fail_msg("errno %d", errors[i].error);
			assert_int_equal(atomic_load(&fake.seg.vm_refused),
					 errors[i].write == AV_FAULT_FORBIDDEN);
		}
	}
}

/* Of all that the kernel refuses, one line tells. */
TEST_WITH(the_first_refusal_is_told, set_up, close_fake)
{
	struct av_spans n = here(near, 100), f = there(far, 100);
	off_t before = lseek(log_fd, 0, SEEK_END);

	kernel.error = -EPERM;
	assert_int_equal(copy(&f, &n), AV_FAULT_FORBIDDEN);
	assert_true(lseek(log_fd, 0, SEEK_END) > before);
	before = lseek(log_fd, 0, SEEK_END);
	assert_int_equal(copy(&f, &n), AV_FAULT_FORBIDDEN);
	assert_int_equal(copy(&n, &f), AV_FAULT_FORBIDDEN);
	assert_int_equal(lseek(log_fd, 0, SEEK_END), before);
}

/* This process's end is not there, or may not be written. */
TEST_WITH(a_fault_at_the_near_end_is_told_from_one_at_the_far_end, set_up, close_fake)
{
	uint8_t *gone = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		*fixed = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct av_spans far_end = there(far, 100), none = here(gone, 100), read = here(fixed, 100),
			good = here(near, 100);

	assert_true(gone != MAP_FAILED && fixed != MAP_FAILED);
	kernel.error = -EFAULT;
	assert_int_equal(copy(&far_end, &none), AV_FAULT_SRC);
	assert_int_equal(copy(&none, &far_end), AV_FAULT_DST);
	assert_int_equal(copy(&far_end, &read), AV_FAULT_DST);
	assert_int_equal(copy(&read, &far_end), AV_FAULT_DST);
	assert_int_equal(copy(&good, &none), AV_FAULT_SRC);
	assert_int_equal(copy(&none, &good), AV_FAULT_DST);
	assert_int_equal(copy(&read, &good), AV_FAULT_DST);
	assert_int_equal(copy(&far_end, &far_end), AV_FAULT_FORBIDDEN);
	munmap(gone, PAGE);
	munmap(fixed, PAGE);
}

/* Every page of a source is looked at, and its last byte. */
TEST_WITH(a_source_that_ends_early_is_at_fault, set_up, close_fake)
{
	uint8_t *pages =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	for (size_t i = 0; i < 6; i++) {
		size_t gone = i / 2; /* of the last page, the source has 100 bytes, or one */
		struct av_spans src = here(pages + (i % 2 ? 100 : 1), 2 * PAGE),
				dst = here(near, 2 * PAGE);

		assert_int_equal(mprotect(pages + gone * PAGE, PAGE, PROT_NONE), 0);
		assert_int_equal(copy(&dst, &src), AV_FAULT_SRC);
		assert_int_equal(mprotect(pages + gone * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
		assert_int_equal(copy(&dst, &src), AV_FAULT_NONE);
	}
	munmap(pages, 4 * PAGE);
}

/* What lies around a source, which may only be read, is not looked at. */
TEST_WITH(a_good_source_is_not_at_fault, set_up, close_fake)
{
	uint8_t *pages = mmap(NULL, 9 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		*good = pages + 3 * PAGE;

	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(good, 3 * PAGE, PROT_READ), 0);
	for (size_t bytes = PAGE; bytes <= 3 * PAGE; bytes += PAGE) {
		struct av_spans first = here(good, bytes), none = here(pages, bytes),
				last = here(good + 3 * PAGE - bytes, bytes);

		assert_int_equal(copy(&none, &first), AV_FAULT_DST);
		assert_int_equal(copy(&none, &last), AV_FAULT_DST);
	}
	munmap(pages, 9 * PAGE);
}

/* --- within this process ----------------------------------------------------------- */

TEST_WITH(overlapping_bytes_are_moved, set_up, close_fake)
{
	static const size_t by[] = {1, 8, 100, 5000};

	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(by); i++) {
		for (size_t l = 0; l < AV_ARRAY_SIZE(lengths); l++) {
			size_t low = 500, high = low + by[i / 2];
			size_t to = i % 2 ? low : high, from = i % 2 ? high : low;
			struct av_spans src = here(near + from, lengths[l]),
					dst = here(near + to, lengths[l]);

			fill(near, 3);
			memcpy(was, near, ROOM);
			memcpy(far, near, ROOM);
			assert_int_equal(copy(&dst, &src), AV_FAULT_NONE);
			expect_copied(near, to, far, from, lengths[l]);
		}
	}
}

/* Elements of all lengths, here and there, which begin and end at different bytes. */
TEST_WITH(lists_are_copied_in_order, set_up, close_fake)
{
	static const uint64_t cuts[][3] = {{1, 2, 97}, {40, 40, 20}, {97, 2, 1}, {33, 33, 34}};

	for (size_t i = 0; i < AV_ARRAY_SIZE(cuts) * AV_ARRAY_SIZE(cuts); i++) {
		const uint64_t *d = cuts[i / AV_ARRAY_SIZE(cuts)],
			       *s = cuts[i % AV_ARRAY_SIZE(cuts)];
		struct av_spans dst = {.count = 3, .bytes = 100}, src = {.count = 3, .bytes = 100};
		uint8_t row[100]; /* the source's bytes */
		size_t at = 0;

		fill(near, 4);
		fill(far, 5);
		memcpy(was, far, ROOM);
		for (size_t n = 0, from = 0; n < 3; from += s[n++]) {
			dst.at[n] = (struct av_span){
				.local = far + 3000 * n, .length = d[n], .seg = &fake.seg};
			src.at[n] = (struct av_span){
				.local = near + 5000 * n, .length = s[n], .seg = &fake.seg};
			memcpy(row + from, near + 5000 * n, s[n]);
		}
		assert_int_equal(copy(&dst, &src), AV_FAULT_NONE);
		for (size_t n = 0; n < 3; at += d[n++]) {
			assert_memory_equal(far + 3000 * n, row + at, d[n]);
			assert_int_equal(far[3000 * n + d[n]], was[3000 * n + d[n]]);
		}
	}
}

TEST_WITH(a_null_region_takes_everything_and_gives_zeros, set_up, close_fake)
{
	static const uint8_t zeros[ROOM];

	for (size_t l = 0; l < AV_ARRAY_SIZE(lengths); l++) {
		struct av_spans null = here(NULL, lengths[l]), n = here(near + 8, lengths[l]),
				f = there(far + 8, lengths[l]);

		null.at[0].null = true;
		fill(near, 6);
		fill(far, 6);
		memcpy(was, near, ROOM);
		kernel.end = 0; /* no word of zeros can be torn */
		assert_int_equal(copy(&null, &n), AV_FAULT_NONE);
		assert_int_equal(copy(&null, &f), AV_FAULT_NONE);
		assert_memory_equal(near, was, ROOM);
		assert_int_equal(copy(&n, &null), AV_FAULT_NONE);
		expect_copied(near, 8, zeros, 0, lengths[l]);
		assert_int_equal(copy(&f, &null), AV_FAULT_NONE);
		expect_copied(far, 8, zeros, 0, lengths[l]);
	}
}

/* --- on demand --------------------------------------------------------------------- */

enum far { NEITHER, DST, SRC };

static const struct {
	bool dst, src; /* is it on demand? */
	enum far far;
	ssize_t error;
	enum av_fault ret;
	uint64_t faults, failed;
} events[] = {
	{false, false, NEITHER, 0, AV_FAULT_NONE, 0, 0},
	{true, false, NEITHER, 0, AV_FAULT_NONE, 1, 0},
	{false, true, NEITHER, 0, AV_FAULT_NONE, 1, 0},
	{true, true, NEITHER, 0, AV_FAULT_NONE, 2, 0},
	{true, true, DST, 0, AV_FAULT_NONE, 2, 0},
	{true, true, SRC, 0, AV_FAULT_NONE, 2, 0},
	/* the end at fault has an event; the other one was not accessed as a whole */
	{true, true, DST, -EFAULT, AV_FAULT_DST, 1, 1},
	{true, false, DST, -EFAULT, AV_FAULT_DST, 1, 1},
	{false, true, DST, -EFAULT, AV_FAULT_DST, 0, 0},
	{true, true, SRC, -EFAULT, AV_FAULT_SRC, 1, 1},
	{false, true, SRC, -EFAULT, AV_FAULT_SRC, 1, 1},
	{true, false, SRC, -EFAULT, AV_FAULT_SRC, 0, 0},
	/* given up */
	{true, true, DST, -EPERM, AV_FAULT_FORBIDDEN, 0, 0},
	{true, true, SRC, -EAGAIN, AV_FAULT_BUSY, 0, 0},
};

TEST_WITH(page_faults_are_counted, set_up, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(events); i++) {
		struct av_spans dst = events[i].far == DST ? there(far, 100) : here(near, 100),
				src = events[i].far == SRC   ? there(far, 100)
				      : events[i].far == DST ? here(near, 100)
							     : here(far, 100);

		fake_close(&fake);
		fake_open(&fake, 1);
		fake.seg.vm_refused = true; /* which has been told */
		if (!dst.at[0].addr)
			dst.at[0].addr = (uintptr_t)dst.at[0].local;
		if (!src.at[0].addr)
			src.at[0].addr = (uintptr_t)src.at[0].local;
		dst.at[0].odp = events[i].dst;
		src.at[0].odp = events[i].src;
		kernel.error = events[i].error;
		if (copy(&dst, &src) != events[i].ret ||
		    counted(&fake, AV_ODP_COUNT_FAULTS) != events[i].faults ||
		    counted(&fake, AV_ODP_COUNT_FAILED_RESOLUTIONS) != events[i].failed)
			fail_msg("row %zu: %lu events", i,
				 (unsigned long)counted(&fake, AV_ODP_COUNT_FAULTS));
		/* What was written may be written again. */
		if (events[i].dst && events[i].ret == AV_FAULT_NONE)
			assert_int_equal(fake_missing(&fake.seg, dst.at[0].addr, 100, true), 0);
		if (events[i].src && events[i].ret == AV_FAULT_NONE)
			assert_int_equal(fake_missing(&fake.seg, src.at[0].addr, 100, true), 1);
	}
}

/* One element on demand, and one for each of its pages: the pages that are accessed are marked. */
TEST_WITH(each_part_of_an_element_has_its_own_pages, set_up, close_fake)
{
	for (int dst = 0; dst < 2; dst++) {
		struct av_spans whole = here(near + 4 * PAGE, 3 * PAGE), parts = {.count = 3};
		uint64_t at = (uintptr_t)whole.at[0].local;

		fake_close(&fake);
		fake_open(&fake, 1);
		whole.at[0].addr = at;
		whole.at[0].odp = true;
		parts.bytes = whole.bytes;
		for (size_t i = 0; i < 3; i++)
			parts.at[i] = here(far + i * PAGE, PAGE).at[0];
		assert_int_equal(dst ? copy(&whole, &parts) : copy(&parts, &whole), AV_FAULT_NONE);
		assert_int_equal(fake_missing(&fake.seg, at, 3 * PAGE, dst), 0);
		assert_int_equal(fake_missing(&fake.seg, at - 4 * PAGE, 4 * PAGE, false), 4);
		assert_int_equal(counted(&fake, AV_ODP_COUNT_FAULT_PAGES), 3);
	}
}

/* --- reading ----------------------------------------------------------------------- */

static const struct {
	uint64_t bytes; /* of three elements, of which the second is there, and the third is not */
	enum av_fault ret;
	unsigned int calls;
} readings[] = {
	{0, AV_FAULT_NONE, 0},
	{1, AV_FAULT_NONE, 0},
	{100, AV_FAULT_NONE, 0},
	{101, AV_FAULT_NONE, 1},
	{100 + 2 * PAGE, AV_FAULT_NONE, 2},
	{101 + 2 * PAGE, AV_FAULT_SRC, 2},
	{4 * PAGE, AV_FAULT_SRC, 2},
};

TEST_WITH(no_more_is_read_than_is_asked_for, set_up, close_fake)
{
	uint8_t *hole = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct av_spans src = {.count = 3, .bytes = 100 + 3 * PAGE};

	assert_true(hole != MAP_FAILED);
	src.at[0] = here(near, 100).at[0];
	src.at[1] = there(far, 2 * PAGE).at[0];
	src.at[2] = here(hole, PAGE).at[0];
	for (size_t i = 0; i < AV_ARRAY_SIZE(readings); i++) {
		kernel.calls = 0;
		if (av_xfer_read(&src, readings[i].bytes, 0) != readings[i].ret ||
		    kernel.calls != readings[i].calls)
			fail_msg("row %zu: %u calls", i, kernel.calls);
	}
	kernel.error = -EPERM;
	fake.seg.vm_refused = true; /* which has been told */
	assert_int_equal(av_xfer_read(&src, 101, 0), AV_FAULT_FORBIDDEN);
	munmap(hole, PAGE);
}

int main(void)
{
	return run_cases(open_log, NULL);
}
