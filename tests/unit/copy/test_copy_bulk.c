/* SPDX-License-Identifier: MIT */
/*
 * Large copies, by each way that this machine has: what is copied, where it stops, and which way is
 * chosen. (What another core sees of them: test_copy_order.c.)
 */
#include "copy_fixture.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "copy/copy.h"

#define PAGES 16u /* of a buffer: more than twice AV_BULK_MIN with pages of any size */

static const char *const way_name[] = {"ordered", "string", "stream"};

/* cmocka puts its own handlers in place for each test. */
static struct sigaction our_segv, our_bus;

static void use_guard(void)
{
	sigaction(SIGSEGV, &our_segv, NULL);
	sigaction(SIGBUS, &our_bus, NULL);
	assert_true(av_copy_guard_check(av_now_coarse_ns()));
}

/* --- what is copied -------------------------------------------------------------- */

TEST(everything_is_copied_and_nothing_else)
{
	static const size_t offset[] = {0, 1, 4, 8, 24, 40, 63, 64, 100};
	static const size_t more[] = {0, 1, 7, 8, 60, 64, 65, 127, 128, 129, 191, 192, 193, 5000};
	unsigned char *src = map_pages(PAGES), *dst = map_pages(PAGES), *model = map_pages(PAGES);

	use_guard();
	fill(src, PAGES * page);
	for (size_t i = 0; i < AV_ARRAY_SIZE(offset) * AV_ARRAY_SIZE(offset); i++)
		for (size_t j = 0; j < AV_ARRAY_SIZE(more) * AV_BULK_N; j++) {
			const size_t from = offset[i / AV_ARRAY_SIZE(offset)],
				     to = offset[i % AV_ARRAY_SIZE(offset)];
			const size_t len = AV_BULK_MIN + more[j / AV_BULK_N];
			const enum av_bulk_way way = j % AV_BULK_N;

			if (!av_bulk_possible(way, dst + to, src + from, len))
				continue;
			memset(dst, 0xee, len + 256);
			memset(model, 0xee, len + 256);
			memcpy(model + to, src + from, len);
			assert_int_equal(av_bulk_copy_by(way, dst + to, src + from, len), 0);
			if (memcmp(dst, model, len + 256) != 0)
				fail_msg("%s: %zu bytes from offset %zu to %zu", way_name[way], len,
					 from, to);
		}
	munmap(src, PAGES * page);
	munmap(dst, PAGES * page);
	munmap(model, PAGES * page);
}

/* --- where memory is missing ----------------------------------------------------- */

/* The edge has two good pages: what lies before them is good too. */
static unsigned char *long_edge(void)
{
	unsigned char *p = map_pages(PAGES + 1);

	mprotect(p + PAGES * page, page, PROT_NONE);
	return p + PAGES * page;
}

static void drop_long_edge(unsigned char *edge)
{
	munmap(edge - PAGES * page, (PAGES + 1) * page);
}

static const size_t good_bytes[] = {0,	  1,	8,    63,   64,	  65,	127,   128,   129,
				    4095, 4096, 4097, 5000, 8191, 9000, 12288, 16320, 16383};

TEST(missing_source_stops_where_it_begins)
{
	unsigned char *edge = long_edge(), *dst = map_pages(PAGES);

	use_guard();
	fill(edge - PAGES * page, PAGES * page);
	for (size_t i = 0; i < AV_ARRAY_SIZE(good_bytes) * 2 * AV_BULK_N; i++) {
		const size_t good = good_bytes[i / 2 / AV_BULK_N];
		unsigned char *to = dst + (-good) % 64 + i % 2 * 3; /* equally aligned, and not */
		const enum av_bulk_way way = i / 2 % AV_BULK_N;

		if (!av_bulk_possible(way, to, edge - good, AV_BULK_MIN))
			continue;
		memset(dst, 0xee, PAGES * page);
		assert_int_equal(av_bulk_copy_by(way, to, edge - good, AV_BULK_MIN), -1);
		if (memcmp(to, edge - good, good) != 0 || to[good] != 0xee ||
		    to[AV_BULK_MIN - 1] != 0xee)
			fail_msg("%s: %zu good bytes", way_name[way], good);
	}
	drop_long_edge(edge);
	munmap(dst, PAGES * page);
}

TEST(missing_destination_stops_where_it_begins)
{
	unsigned char *edge = long_edge(), *src = map_pages(PAGES);

	use_guard();
	fill(src, PAGES * page);
	for (size_t i = 0; i < AV_ARRAY_SIZE(good_bytes) * 2 * AV_BULK_N; i++) {
		const size_t good = good_bytes[i / 2 / AV_BULK_N];
		const unsigned char *from = src + (-good) % 64 + i % 2 * 3;
		const enum av_bulk_way way = i / 2 % AV_BULK_N;

		if (!av_bulk_possible(way, edge - good, from, AV_BULK_MIN))
			continue;
		memset(edge - PAGES * page, 0xee, PAGES * page);
		assert_int_equal(av_bulk_copy_by(way, edge - good, from, AV_BULK_MIN), -1);
		if (memcmp(edge - good, from, good) != 0 || edge[-(ptrdiff_t)good - 1] != 0xee)
			fail_msg("%s: %zu good bytes", way_name[way], good);
	}
	drop_long_edge(edge);
	munmap(src, PAGES * page);
}

/* --- which way ------------------------------------------------------------------- */

TEST(the_way_is_chosen_by_size_and_alignment)
{
	const uintptr_t at = (uintptr_t)1 << 40;
	const size_t large = av_bulk_stream_min();
	const enum av_bulk_way string = av_raw_string_usable() ? AV_BULK_STRING : AV_BULK_ORDERED;
	const enum av_bulk_way stream = AV_RAW_WIDE_USABLE ? AV_BULK_STREAM : string;
	const struct {
		const char *what;
		size_t len;
		uintptr_t dst, src;
		enum av_bulk_way way;
	} rows[] = {
		{"equally aligned", AV_BULK_MIN, at, 2 * at, string},
		{"equally within a line", AV_BULK_MIN, at + 65, 2 * at + 1, string},
		{"not equally", AV_BULK_MIN, at + 8, 2 * at, AV_BULK_ORDERED},
		{"overlapping", AV_BULK_MIN, at, at + AV_BULK_MIN - 64, AV_BULK_ORDERED},
		{"touching", AV_BULK_MIN, at, at + AV_BULK_MIN, string},
		{"just not large", large - 1, at, 2 * at, string},
		{"large", large, at, 2 * at, stream},
		{"large, not equally aligned", large, at + 1, 2 * at,
		 stream == AV_BULK_STREAM ? stream : AV_BULK_ORDERED},
		{"large, overlapping", large, at, at + large - 64, AV_BULK_ORDERED},
	};

	assert_true(large > AV_BULK_MIN);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		if (av_bulk_choose((void *)rows[i].dst, (const void *)rows[i].src, rows[i].len) !=
		    rows[i].way)
			fail_msg("%s: not %s", rows[i].what, way_name[rows[i].way]);
}

/* Copies of any size overlap as they may. */
TEST(overlap_downwards_is_a_move)
{
	static const size_t distance[] = {1, 8, 64, 128, 4096, AV_BULK_MIN - 64, AV_BULK_MIN};
	unsigned char *work = map_pages(PAGES), *model = map_pages(PAGES);

	use_guard();
	for (size_t i = 0; i < AV_ARRAY_SIZE(distance); i++) {
		fill(work, PAGES * page);
		fill(model, PAGES * page);
		memmove(model, model + distance[i], AV_BULK_MIN + 100);
		assert_int_equal(av_copy(work, work + distance[i], AV_BULK_MIN + 100), AV_COPY_OK);
		assert_memory_equal(work, model, PAGES * page);
	}
	munmap(work, PAGES * page);
	munmap(model, PAGES * page);
}

int main(void)
{
	if (av_copy_init() != 0 || sigaction(SIGSEGV, NULL, &our_segv) != 0 ||
	    sigaction(SIGBUS, NULL, &our_bus) != 0)
		return 1;
	for (enum av_bulk_way way = 0; way < AV_BULK_N; way++)
		if (!av_bulk_possible(way, NULL, (void *)((uintptr_t)1 << 40), AV_BULK_MIN))
			printf("this machine does not copy that way: %s\n", way_name[way]);
	return run_cases(NULL, NULL);
}
