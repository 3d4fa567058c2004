/* SPDX-License-Identifier: MIT */
/* Counters of regions, key by key, and which region on demand an address belongs to. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "unit/memory/seg_fixture.h"

#define CHUNKS	3u
#define KEY(i)	((i) << 8 | 3)
#define WHOLE	(1ull << 47)
#define NOWHERE (AV_SLAB_CHUNKS * AV_KEY_CHUNK)

static int setup(void **state)
{
	fake_open(&fake, 1);
	for (uint64_t i = 0; i < CHUNKS; i++)
		atomic_store(&fake.seg.head->chunk[AV_SLAB_KEY][i], (i + 1) << 26);
	return 0;
}

static void region(uint32_t index, uint64_t addr, uint64_t length)
{
	struct av_key *k = av_key_entry(&fake.seg, KEY(index));

	if (!k)
		abort(); /* unlike cmocka's, the compiler knows that one */
	k->kind = AV_KEY_ODP;
	k->addr = addr;
	k->length = length;
	av_region_count_begin(&fake.seg, KEY(index), true);
	atomic_store(&k->held, KEY(index));
}

static uint64_t value_of(uint32_t index, enum av_mr_counter which)
{
	uint64_t value[AV_MR_GAUGES];

	av_region_counted(&fake.seg, KEY(index), value);
	return value[which];
}

/* --- counters -------------------------------------------------------------------- */

/* At the ends of the chunks, which nodes are for. */
static const uint32_t indices[] = {
	1, AV_KEY_CHUNK - 1, AV_KEY_CHUNK, 2 * AV_KEY_CHUNK - 1, 2 * AV_KEY_CHUNK, NOWHERE - 1};

TEST_WITH(each_key_has_counters_of_its_own, setup, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(indices); i++)
		for (int which = 0; which < AV_MR_GAUGES; which++)
			assert_int_equal(value_of(indices[i], which), 0);
	for (unsigned int times = 1; times <= 2; times++) {
		for (size_t i = 0; i < AV_ARRAY_SIZE(indices); i++)
			for (int which = 0; which < AV_MR_GAUGES; which++)
				av_region_count(&fake.seg, KEY(indices[i]), which,
						10 * i + which + 1);
		for (size_t i = 0; i < AV_ARRAY_SIZE(indices); i++)
			for (int which = 0; which < AV_MR_GAUGES; which++)
				assert_int_equal(value_of(indices[i], which),
						 times * (10 * i + which + 1));
	}
	/* A new key of that index begins with nothing. */
	for (int on_demand = 0; on_demand < 2; on_demand++) {
		av_region_count(&fake.seg, KEY(AV_KEY_CHUNK), AV_MR_REFUSED, 1);
		av_region_count_begin(&fake.seg, KEY(AV_KEY_CHUNK), on_demand);
		for (int which = 0; which < AV_MR_GAUGES; which++)
			assert_int_equal(value_of(AV_KEY_CHUNK, which), 0);
	}
	assert_int_equal(value_of(AV_KEY_CHUNK - 1, 0), 2 * 11);
	assert_int_equal(value_of(2 * AV_KEY_CHUNK - 1, 0), 2 * 31);
}

TEST_WITH(beyond_the_table_nothing_is_counted, setup, close_fake)
{
	av_region_count(&fake.seg, KEY(NOWHERE), AV_MR_REFUSED, 1);
	av_region_count_begin(&fake.seg, KEY(NOWHERE), true);
	assert_int_equal(value_of(NOWHERE, AV_MR_REFUSED), 0);
	assert_int_equal(atomic_load(&fake.seg.head->odp_brk), 0);
}

/* A node is made for what is counted and for regions on demand, and for nothing else. */
TEST_WITH(nodes_are_made_when_they_are_needed, setup, close_fake)
{
	av_region_count_begin(&fake.seg, KEY(1), false);
	assert_int_equal(atomic_load(&fake.seg.head->odp_brk), 0);
	av_region_count_begin(&fake.seg, KEY(1), true);
	assert_int_not_equal(atomic_load(&fake.seg.head->odp_brk), 0);
	assert_int_equal(atomic_load(&fake.seg.head->region_chunks), 1);
	av_region_count(&fake.seg, KEY(2 * AV_KEY_CHUNK), AV_MR_REFUSED, 1);
	assert_int_equal(atomic_load(&fake.seg.head->region_chunks), 3);
	av_region_count(&fake.seg, KEY(AV_KEY_CHUNK), AV_MR_REFUSED, 1);
	assert_int_equal(atomic_load(&fake.seg.head->region_chunks), 3);
}

/* --- regions on demand ----------------------------------------------------------- */

/* In all words of a chunk, and in chunks behind one without. */
static const uint32_t odp[] = {
	1, 2, 63, 64, 127, 129, 640, AV_KEY_CHUNK - 1, 2 * AV_KEY_CHUNK, 3 * AV_KEY_CHUNK - 1};

static void expect_all_but(size_t gone)
{
	struct av_odp_region r;
	uint32_t at = 0;

	for (size_t i = 0; i < AV_ARRAY_SIZE(odp); i++) {
		if (i == gone)
			continue;
		assert_true(av_odp_region_next(&fake.seg, &at, &r));
		assert_int_equal(r.key, KEY(odp[i]));
		assert_int_equal(r.addr, 4096ull * odp[i]);
		assert_int_equal(r.length, 4096);
		assert_false(r.whole);
	}
	assert_false(av_odp_region_next(&fake.seg, &at, &r));
}

TEST_WITH(all_regions_on_demand_are_found, setup, close_fake)
{
	struct av_odp_region r;
	uint32_t at = 0;

	assert_false(av_odp_region_next(&fake.seg, &at, &r));
	/* Nonsense: where no key can be. */
	av_region_count_begin(&fake.seg, KEY(CHUNKS * AV_KEY_CHUNK), true);
	for (size_t i = AV_ARRAY_SIZE(odp); i-- > 0;)
		region(odp[i], 4096ull * odp[i], 4096);
	expect_all_but(SIZE_MAX);
	for (size_t i = 0; i < AV_ARRAY_SIZE(odp); i++) {
		struct av_key *k = av_key_entry(&fake.seg, KEY(odp[i]));

		atomic_store(&k->held, 0); /* it is gone */
		expect_all_but(i);
		atomic_store(&k->held, KEY(odp[i]));
		k->kind = AV_KEY_REGION; /* it became another one */
		expect_all_but(i);
		k->kind = AV_KEY_ODP;
		av_region_count_begin(&fake.seg, KEY(odp[i]), false); /* its index, another key */
		expect_all_but(i);
		av_region_count_begin(&fake.seg, KEY(odp[i]), true);
	}
	expect_all_but(SIZE_MAX);
}

TEST_WITH(lengths_of_the_address_space, setup, close_fake)
{
	struct av_odp_region r;

	for (unsigned int less = 0; less < 2; less++) {
		uint32_t at = 0;

		region(1, 0, WHOLE - less);
		assert_true(av_odp_region_next(&fake.seg, &at, &r));
		assert_int_equal(r.whole, !less);
	}
}

/* --- by address ------------------------------------------------------------------ */

enum { ALL = 1, FIRST = 2, TWIN = 70, NEXT = 3 };

static const struct {
	uint64_t addr, n;
	uint32_t index; /* of the region that counts it; 0: none */
} at[] = {
	{0x10000, 1, FIRST}, {0x10fff, 5, FIRST}, {0x11000, 1, NEXT},
	{0x12fff, 1, NEXT},  {0x13000, 1, ALL},	  {0xffff, 1, ALL},
	{0, 1, ALL},	     {WHOLE, 1, 0},	  {0x10000, 0, 0},
};

static uint64_t sum(void)
{
	return value_of(ALL, AV_MR_FAULTS) + value_of(FIRST, AV_MR_FAULTS) +
	       value_of(TWIN, AV_MR_FAULTS) + value_of(NEXT, AV_MR_FAULTS);
}

/* The first that has it; that of all addresses, wherever it is, only if no other has it. */
TEST_WITH(an_address_belongs_to_one_region, setup, close_fake)
{
	region(ALL, 0, WHOLE);
	region(FIRST, 0x10000, 0x1000);
	region(NEXT, 0x11000, 0x2000);
	region(TWIN, 0x10000, 0x1000);
	for (size_t i = 0; i < AV_ARRAY_SIZE(at); i++) {
		uint64_t before = sum(),
			 its = at[i].index ? value_of(at[i].index, AV_MR_FAULTS) : 0;

		av_odp_region_count(&fake.seg, at[i].addr, AV_MR_FAULTS, at[i].n);
		if (sum() != before + (at[i].index ? at[i].n : 0) ||
		    (at[i].index && value_of(at[i].index, AV_MR_FAULTS) != its + at[i].n))
			fail_msg("row %zu", i);
	}
	assert_int_equal(value_of(FIRST, AV_MR_FAULT_PAGES), 0);
}

/* A search ends: what is behind so many others counts nothing. */
TEST_WITH(a_search_has_an_end, setup, close_fake)
{
	for (uint32_t i = 1; i <= AV_ODP_REGION_LOOKS + 1; i++)
		region(i, 4096ull * i, 4096);
	for (uint32_t i = AV_ODP_REGION_LOOKS; i <= AV_ODP_REGION_LOOKS + 1; i++) {
		av_odp_region_count(&fake.seg, 4096ull * i, AV_MR_FAULTS, 1);
		assert_int_equal(value_of(i, AV_MR_FAULTS), i == AV_ODP_REGION_LOOKS);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
