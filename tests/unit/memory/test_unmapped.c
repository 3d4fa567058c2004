/* SPDX-License-Identifier: MIT */
/* The record of unmappings against a model, at the edges of its nodes, with nonsense in it. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "random.h"
#include "unit/memory/seg_fixture.h"

#define PAGE 4096ull
#define TOP  (1ull << 47)

static uint32_t seed = 4711;

static uint32_t random_below(uint32_t n)
{
	return random_from(&seed, n);
}

/* As the listener does: odd while recording. */
static uint64_t record(uint64_t addr, uint64_t len)
{
	atomic_fetch_add(&fake.seg.head->odp_seq, 1);
	av_unmapped_record(&fake.seg, addr, len);
	return atomic_fetch_add(&fake.seg.head->odp_seq, 1);
}

/* --- against a model: the moment of each page, around a boundary of the topmost nodes --- */

#define MODEL_PAGES 2048u
#define MODEL_BASE  ((5ull << 38) - MODEL_PAGES / 2 * PAGE)

static uint64_t model[MODEL_PAGES];

static bool model_since(uint64_t first, uint64_t last, uint64_t moment)
{
	for (uint64_t i = first; i <= last; i++)
		if (model[i] > moment)
			return true;
	return false;
}

TEST_WITH(behaves_like_an_array, open_fake, close_fake)
{
	for (int round = 0; round < 20000; round++) {
		uint64_t first = random_below(MODEL_PAGES);
		uint64_t last = first + random_below(round % 3 ? 20 : MODEL_PAGES - first);
		uint64_t now = av_unmapped_now(&fake.seg), moment = random_below(now + 2);
		uint64_t addr, len;

		last = last < MODEL_PAGES ? last : MODEL_PAGES - 1;
		addr = MODEL_BASE + first * PAGE + random_below(PAGE);
		len = MODEL_BASE + last * PAGE + random_below(PAGE) - addr + 1;
		if (MODEL_BASE + last * PAGE < addr)
			len = 1, last = first;
		if (round % 2)
			assert_int_equal(fake_unmapped_since(&fake.seg, addr, len, moment),
					 model_since(first, last, moment));
		else
			for (uint64_t i = first, at = record(addr, len); i <= last; i++)
				model[i] = at;
	}
}

/* --- sizes: from a page to everything, at and around every kind of boundary ------ */

TEST_WITH(sizes_and_edges, open_fake, close_fake)
{
	static const unsigned int shift[] = {12, 20, 29, 38};

	for (size_t i = 0; i < AV_ARRAY_SIZE(shift); i++) {
		const uint64_t len = 1ull << shift[i], addr = 7 * len;

		for (uint64_t before = 0; before <= PAGE; before += PAGE)
			for (uint64_t behind = 0; behind <= PAGE; behind += PAGE) {
				const uint64_t then = av_unmapped_now(&fake.seg),
					       at = addr - before;
				const uint64_t all = before + len + behind;

				record(at, all);
				assert_true(fake_unmapped_since(&fake.seg, at, 1, then));
				assert_true(fake_unmapped_since(&fake.seg, at + all - 1, 1, then));
				assert_true(fake_unmapped_since(&fake.seg, 0, TOP, then));
				assert_true(
					fake_unmapped_since(&fake.seg, at - PAGE, 2 * PAGE, then));
				assert_true(fake_unmapped_since(&fake.seg, at + all - PAGE,
								2 * PAGE, then));
				assert_false(fake_unmapped_since(&fake.seg, at - PAGE, PAGE, then));
				assert_false(fake_unmapped_since(&fake.seg, at + all, PAGE, then));
				assert_false(fake_unmapped_since(&fake.seg, 0, TOP,
								 av_unmapped_now(&fake.seg)));
			}
	}
}

TEST_WITH(everything_and_nothing, open_fake, close_fake)
{
	uint64_t then = av_unmapped_now(&fake.seg);

	assert_false(fake_unmapped_since(&fake.seg, 0, UINT64_MAX, then));
	record(PAGE, 0);
	assert_int_equal(atomic_load(&fake.seg.head->unmapped_root), 0);
	record(TOP, PAGE); /* beyond what there is */
	assert_false(fake_unmapped_since(&fake.seg, TOP, PAGE, then));
	record(0, UINT64_MAX);
	assert_true(fake_unmapped_since(&fake.seg, 0, 1, then));
	assert_true(fake_unmapped_since(&fake.seg, TOP - 1, 1, then));
	assert_false(fake_unmapped_since(&fake.seg, 0, 0, then));
}

/* Of 512 entries of three words, on whole pages, or the moments of 256 pages. */
#define INNER_BYTES (512 * 3 * 8u)
#define LEAF_BYTES  (256 * 8u)

/* What is taken when a page is recorded. */
static const struct {
	uint64_t addr;
	unsigned int inner, leaves;
} costs[] = {
	{5ull << 38, 3, 1},		     /* the first one: the root, and all levels */
	{(5ull << 38) + PAGE, 0, 0},	     /* of the same leaf, */
	{(5ull << 38) + (1ull << 20), 0, 1}, /* of the next one, */
	{(5ull << 38) + (1ull << 29), 1, 1}, /* and of the next ones of each level */
	{6ull << 38, 2, 1},
};

TEST_WITH(what_a_page_costs, open_fake, close_fake)
{
	uint64_t end;

	record(0, TOP); /* the root alone */
	end = atomic_load(&fake.seg.head->odp_brk) - INNER_BYTES;
	for (size_t i = 0; i < AV_ARRAY_SIZE(costs); i++) {
		record(costs[i].addr, PAGE);
		for (unsigned int n = 0; n < costs[i].inner; n++)
			end = ((end + PAGE - 1) & ~(PAGE - 1)) + INNER_BYTES;
		end += costs[i].leaves * LEAF_BYTES;
		assert_int_equal(atomic_load(&fake.seg.head->odp_brk), end);
	}
}

/* --- a key: its range stays intact, or the part of it that is asked for ---------- */

TEST_WITH(a_key_remembers_that_it_is_intact, open_fake, close_fake)
{
	struct av_key k = {
		.addr = 0x100000, .length = 16 * PAGE, .intact = av_unmapped_now(&fake.seg)};

	assert_true(av_still_mapped(&fake.seg, &k, k.addr, k.length));
	record(0x500000, PAGE);
	assert_true(av_still_mapped(&fake.seg, &k, k.addr, 1));
	assert_int_equal(k.intact, av_unmapped_now(&fake.seg));
	record(k.addr + 5 * PAGE, PAGE);
	for (int again = 0; again < 2; again++) {
		assert_true(av_still_mapped(&fake.seg, &k, k.addr, 5 * PAGE));
		assert_true(av_still_mapped(&fake.seg, &k, k.addr + 6 * PAGE, 10 * PAGE));
		assert_false(av_still_mapped(&fake.seg, &k, k.addr + 5 * PAGE - 1, 2));
		assert_false(av_still_mapped(&fake.seg, &k, k.addr + 5 * PAGE, 1));
		record(0x500000, PAGE);
	}
	k.intact = av_unmapped_now(&fake.seg); /* registered anew */
	assert_true(av_still_mapped(&fake.seg, &k, k.addr, k.length));
}

/* --- nonsense that another process wrote ----------------------------------------- */

TEST_WITH(nonsense_is_not_followed, open_fake, close_fake)
{
	static const uint64_t offsets[] = {1,
					   64,
					   AV_ODP_OFFSET - 64,
					   AV_ODP_OFFSET + AV_ODP_BYTES - 64,
					   AV_SEG_BYTES,
					   UINT64_MAX - 63};

	record(PAGE, PAGE);
	for (size_t i = 0; i < AV_ARRAY_SIZE(offsets); i++) {
		atomic_store(&fake.seg.head->unmapped_root, offsets[i]);
		assert_false(fake_unmapped_since(&fake.seg, 0, TOP, 0));
		record(PAGE, PAGE);
	}
}

/* A full area: what cannot be recorded is not, and nothing else is lost. */
TEST_WITH(a_full_area_is_an_answer, open_fake, close_fake)
{
	uint64_t then = av_unmapped_now(&fake.seg);

	record(PAGE, PAGE);
	atomic_store(&fake.seg.head->odp_brk, AV_ODP_BYTES);
	record(TOP / 2 + PAGE, PAGE);
	assert_true(fake_unmapped_since(&fake.seg, PAGE, PAGE, then));
	assert_false(fake_unmapped_since(&fake.seg, TOP / 2, 3 * PAGE, then));
}

int main(void)
{
	return run_cases(NULL, NULL);
}
