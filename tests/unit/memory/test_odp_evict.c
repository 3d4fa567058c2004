/* SPDX-License-Identifier: MIT */
/* Which pages become invalid, whose region counts them, and which ones an eviction takes. */
#include <stdlib.h>

#include "base/compiler.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/odp.h"
#include "unit/memory/heap_fixture.h"

#define PAGE  4096ull
#define BASE  0x10000000ull /* of 100 pages, all of them valid at first */
#define PAGES 100u
#define AT(n) (BASE + (n)*PAGE)
#define KEYS  4096u

static uint32_t create(uint8_t kind, uint64_t addr, uint64_t length)
{
	const struct av_key what = {.kind = kind, .addr = addr, .base = addr, .length = length};
	uint32_t key = av_key_create(seg, &what, KEYS);

	assert_int_not_equal(key, 0);
	return key;
}

static void make_valid(void)
{
	uint64_t stamp;

	assert_true(av_odp_prepare(seg, BASE, PAGES * PAGE, &stamp));
	av_odp_set(seg, BASE, PAGES * PAGE, true);
}

static bool is_valid(unsigned int page)
{
	return fake_missing(seg, AT(page), PAGE, false) == 0;
}

static unsigned int valid(void)
{
	return PAGES - (unsigned int)fake_missing(seg, BASE, PAGES * PAGE, false);
}

static uint64_t of_region(uint32_t key, enum av_mr_counter which)
{
	uint64_t value[AV_MR_GAUGES];

	av_region_counted(seg, key, value);
	return value[which];
}

/* --- invalidation ---------------------------------------------------------------- */

/* A range against a region of the pages 10 to 19, and an implicit one. */
static const struct {
	uint64_t addr, len;
	unsigned int first, pages, of_region; /* that become invalid, and are the region's */
} ranges[] = {
	{AT(10), 10 * PAGE, 10, 10, 10},
	{AT(10) + 5, 1, 10, 1, 1},
	{AT(5), 5 * PAGE, 5, 5, 0},
	{AT(5), 5 * PAGE + 1, 5, 6, 1},
	{AT(20), 3 * PAGE, 20, 3, 0},
	{AT(20) - 1, 2, 19, 2, 1},
	{AT(5), 30 * PAGE, 5, 30, 10},
	{AT(12), 3 * PAGE, 12, 3, 3},
	{AT(0), PAGES *PAGE, 0, PAGES, 10},
	{AT(30), 0, 0, 0, 0},
	{AT(30), 1, 30, 1, 0},
};

static void expect_counts(size_t i, uint32_t region, uint32_t implicit)
{
	unsigned int pages = ranges[i].pages, mine = ranges[i].of_region;

	if (of_region(region, AV_MR_INVALIDATION_PAGES) != mine ||
	    of_region(region, AV_MR_INVALIDATIONS) != (mine > 0))
		fail_msg("row %zu: the region", i);
	if (implicit && (of_region(implicit, AV_MR_INVALIDATION_PAGES) != pages - mine ||
			 of_region(implicit, AV_MR_INVALIDATIONS) != (pages > mine)))
		fail_msg("row %zu: the implicit region", i);
	if (counted(&heap.fake, AV_ODP_COUNT_INVALIDATION_PAGES) != pages ||
	    counted(&heap.fake, AV_ODP_COUNT_INVALIDATIONS) != (pages > 0))
		fail_msg("row %zu: the device", i);
}

TEST_WITH(each_page_is_counted_once, set_up, tear_down)
{
	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(ranges); i++) {
		size_t row = i / 2;
		uint32_t implicit, region;

		fake_heap_close(&heap);
		fake_heap_open(&heap);
		implicit = i % 2 ? create(AV_KEY_ODP, 0, SIZE_MAX) : 0;
		region = create(AV_KEY_ODP, AT(10), 10 * PAGE);
		make_valid();
		for (unsigned int again = 0; again < 2; again++)
			av_odp_invalidate(seg, ranges[row].addr, ranges[row].len);
		assert_int_equal(valid(), PAGES - ranges[row].pages);
		for (unsigned int p = 0; p < ranges[row].pages; p++)
			assert_false(is_valid(ranges[row].first + p));
		expect_counts(row, region, implicit);
	}
}

/* What does not begin and end with a page, and what has no bytes. */
TEST_WITH(a_region_has_the_pages_that_it_touches, set_up, tear_down)
{
	uint32_t parts = create(AV_KEY_ODP, AT(3) + 100, PAGE), none = create(AV_KEY_ODP, AT(8), 0),
		 byte = create(AV_KEY_ODP, AT(9) - 1, 1);

	make_valid();
	av_odp_invalidate(seg, AT(0), PAGES * PAGE);
	assert_int_equal(of_region(parts, AV_MR_INVALIDATION_PAGES), 2);
	assert_int_equal(of_region(none, AV_MR_INVALIDATION_PAGES), 0);
	assert_int_equal(of_region(byte, AV_MR_INVALIDATION_PAGES), 1);
}

/* A fault must not get slower with each region: the last ones are not found. */
TEST_WITH(so_many_regions_are_looked_at, set_up, tear_down)
{
	uint32_t key[AV_ODP_REGION_LOOKS + 1];

	for (uint32_t i = 0; i <= AV_ODP_REGION_LOOKS; i++)
		key[i] = create(AV_KEY_ODP, AT(i), PAGE);
	make_valid();
	av_odp_invalidate(seg, AT(0), PAGES * PAGE);
	assert_int_equal(valid(), 0);
	for (uint32_t i = 0; i <= AV_ODP_REGION_LOOKS; i++)
		assert_int_equal(of_region(key[i], AV_MR_INVALIDATION_PAGES),
				 i < AV_ODP_REGION_LOOKS);
}

/* --- eviction -------------------------------------------------------------------- */

static struct {
	uint64_t chosen[4];
	unsigned int asked;
} chance;

static uint64_t choose(void *arg, uint64_t below)
{
	assert_ptr_equal(arg, &chance);
	assert_int_equal(below, 10);
	assert_in_range(chance.asked, 0, 3);
	return chance.chosen[chance.asked++];
}

/* Of regions of ten pages each, at 10 and at 40; and of one that is not on demand, at 70. */
static const struct {
	uint32_t pages;
	unsigned int which; /* only the first, or the second region; 0: each */
	uint64_t chosen[4];
	unsigned int invalid[4], count, asked;
} evictions[] = {
	{UINT32_MAX, 0, {0}, {10, 19, 40, 49}, 20, 0},
	{UINT32_MAX, 1, {0}, {10, 19, 10, 19}, 10, 0},
	{UINT32_MAX, 2, {0}, {40, 49, 40, 49}, 10, 0},
	{1, 0, {3, 9}, {13, 49, 13, 49}, 2, 2},
	{2, 0, {3, 9, 0, 5}, {13, 19, 40, 45}, 4, 4},
	{2, 2, {7, 7}, {47, 47, 47, 47}, 1, 2}, /* the same page twice */
	{0, 0, {0}, {0}, 0, 0},
	{UINT32_MAX, 3, {0}, {0}, 0, 0},
};

TEST_WITH(an_eviction_takes_pages_of_regions, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(evictions); i++) {
		struct av_odp_eviction how = {
			.pages = evictions[i].pages, .chance = choose, .arg = &chance};
		uint32_t key[4] = {0};

		fake_heap_close(&heap);
		fake_heap_open(&heap);
		key[1] = create(AV_KEY_ODP, AT(10), 10 * PAGE);
		key[2] = create(AV_KEY_ODP, AT(40), 10 * PAGE);
		key[3] = create(AV_KEY_REGION, AT(70), 10 * PAGE);
		how.key = key[evictions[i].which];
		make_valid();
		chance.asked = 0;
		memcpy(chance.chosen, evictions[i].chosen, sizeof(chance.chosen));
		av_odp_evict(seg, &how);
		if (valid() != PAGES - evictions[i].count || chance.asked != evictions[i].asked)
			fail_msg("row %zu: %u are valid", i, valid());
		for (unsigned int n = 0; n < 4 && evictions[i].count; n++)
			assert_false(is_valid(evictions[i].invalid[n]));
		for (unsigned int n = 1; n <= 3; n++)
			assert_int_equal(atomic_load(&av_key_entry(seg, key[n])->lock.owner), 0);
	}
}

/* An implicit region loses all that is valid, however few pages are wanted. */
TEST_WITH(an_implicit_region_is_evicted_entirely, set_up, tear_down)
{
	struct av_odp_eviction how = {.pages = 1, .chance = choose, .arg = &chance};

	create(AV_KEY_ODP, 0, SIZE_MAX);
	make_valid();
	chance.asked = 0;
	av_odp_evict(seg, &how);
	assert_int_equal(valid(), 0);
	assert_int_equal(chance.asked, 0);
}

/*
 * Behind a chunk that is not there, its first and its last key; and none that has ended. A chunk
 * that is nowhere has none.
 */
TEST_WITH(every_key_is_looked_at, set_up, tear_down)
{
	const struct av_odp_eviction all = {.pages = UINT32_MAX};
	const uint32_t index[] = {2 * AV_KEY_CHUNK, 3 * AV_KEY_CHUNK - 1, 2 * AV_KEY_CHUNK + 1};

	atomic_store(&seg->head->chunk[AV_SLAB_KEY][2], 1ull << 27);
	av_region_count_begin(seg, (3 * AV_KEY_CHUNK) << 8 | 1, true);
	atomic_store(&seg->head->chunk[AV_SLAB_KEY][3], AV_SEG_BYTES);
	make_valid();
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(index); i++) {
		struct av_key *k = av_key_entry(seg, index[i] << 8);

		if (!k)
			abort(); /* unlike cmocka's, the compiler knows that one */
		av_region_count_begin(seg, index[i] << 8 | 1, true);
		k->kind = AV_KEY_ODP;
		k->addr = AT(10 * i);
		k->length = PAGE;
		atomic_store(&k->held, i < 2 ? index[i] << 8 | 1 : 0);
	}
	av_odp_evict(seg, &all);
	assert_int_equal(valid(), PAGES - 2);
	assert_true(!is_valid(0) && !is_valid(10) && is_valid(20));
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
