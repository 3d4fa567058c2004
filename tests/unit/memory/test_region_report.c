/* SPDX-License-Identifier: MIT */
/* What is told of each key of a context: which memory it names, its pages, and its counters. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/odp.h"
#include "memory/region.h"
#include "unit/memory/seg_fixture.h"

#define CONTEXT 9u
#define PID	4711
#define KEY	(5u << 8 | 3)
#define BASE	0x1000000ull
#define ADDR	0x7000000ull
#define PART_AT (1ull << 29)
#define HUGE	AV_HUGE_PAGE_BYTES
#define PAGE	AV_PAGE_BYTES
/* What is in the upper half of @intact. */
#define INTACT(type, huge) (((uint64_t)(huge) << AV_KEY_HUGE_SHIFT | (type)) << 32 | CONTEXT)

static struct av_key *k;
static struct av_region_info info;
static unsigned int visits;

static int setup(void **state)
{
	fake_open(&fake, CONTEXT);
	fake_tables(&fake);
	fake.seg.head->pid = PID;
	fake.seg.head->ref = CONTEXT;
	k = av_key_entry(&fake.seg, KEY);
	assert_non_null(k);
	k->kind = AV_KEY_REGION;
	k->pd = 3;
	k->base = BASE;
	k->addr = ADDR;
	k->length = 4 * PAGE;
	atomic_store(&k->key, KEY);
	return 0;
}

static void visit(const struct av_region_info *one, void *arg)
{
	assert_ptr_equal(arg, &fake);
	info = *one;
	visits++;
}

/* Return: how many regions there are */
static unsigned int look(void)
{
	visits = 0;
	av_region_report_of(&fake.seg, visit, &fake);
	return visits;
}

/* --- which memory ---------------------------------------------------------------- */

static const struct {
	uint8_t kind, share;
	const char *memory; /* NULL: it is no region */
} kinds[] = {
	{AV_KEY_NONE, 0, NULL},
	{AV_KEY_REGION, 0, "plain"},
	{AV_KEY_ODP, 0, "on-demand"},
	{AV_KEY_DEVICE, 0, "device"},
	{AV_KEY_NULL, 0, "null"},
	{AV_KEY_DM_BLOCK, 0, NULL},
	{AV_KEY_PAGES, 0, "pages"},
	{AV_KEY_MAPPED, 0, "mapped"},
	{AV_KEY_UMR, 0, NULL},
	{AV_KEY_WINDOW, 0, NULL},
	{AV_KEY_REGION, AV_KEY_PRIVATE, "private"},
	{AV_KEY_REGION, AV_KEY_EARLY, "early"},
	{AV_KEY_REGION, AV_KEY_PRIVATE | AV_KEY_HUGETLB, "private"},
	{AV_KEY_REGION, AV_KEY_HUGETLB, "plain"},
	{AV_KEY_PAGES, AV_KEY_PRIVATE | AV_KEY_EARLY, "pages"},
	{AV_KEY_ODP, AV_KEY_PRIVATE | AV_KEY_EARLY, "on-demand"},
};

TEST_WITH(each_kind_has_its_name, setup, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(kinds); i++) {
		unsigned int want = kinds[i].memory != NULL;

		k->kind = kinds[i].kind;
		k->share = kinds[i].share;
		if (look() != want ||
		    (want && strcmp(av_region_memory_name(info.memory), kinds[i].memory)))
			fail_msg("row %zu: %u visits", i, visits);
	}
}

TEST_WITH(a_region_is_told_as_it_is, setup, close_fake)
{
	assert_int_equal(look(), 1);
	assert_int_equal(info.pid, PID);
	assert_int_equal(info.context, CONTEXT);
	assert_int_equal(info.pd, 3);
	assert_int_equal(info.key, KEY);
	assert_int_equal(info.addr, BASE);
	assert_int_equal(info.length, 4 * PAGE);
	assert_int_equal(info.huge + info.small, 0);
	atomic_store(&k->key, 0);
	assert_int_equal(look(), 0);
}

/* In a chunk behind one that is not there, its first and its last index. */
TEST_WITH(every_index_is_looked_at, setup, close_fake)
{
	const uint32_t last = 4 * AV_KEY_CHUNK - 1, first = 3 * AV_KEY_CHUNK;

	atomic_store(&fake.seg.head->chunk[AV_SLAB_KEY][3], 1ull << 30);
	for (unsigned int i = 0; i < 2; i++) {
		struct av_key *other = av_key_entry(&fake.seg, (i ? last : first) << 8);

		assert_non_null(other);
		other->kind = AV_KEY_NULL;
		atomic_store(&other->key, (i ? last : first) << 8 | 1);
		assert_int_equal(look(), 2 + i);
		assert_int_equal(AV_KEY_INDEX(info.key), i ? last : first);
	}
}

/* --- on the shared heap ---------------------------------------------------------- */

static const struct {
	uint64_t begin, end; /* pages of the heap, from the region's begin on, plus a page */
	uint64_t bytes;
} parts[] = {
	{1, 5, 4}, {0, 6, 4}, {0, 4, 3}, {2, 6, 3}, {2, 4, 2}, {0, 1, 0}, {5, 6, 0}, {3, 3, 0},
};

TEST_WITH(shared_is_what_lies_in_the_region, setup, close_fake)
{
	struct av_heap_part *part = av_seg_at(&fake.seg, PART_AT, sizeof(*part));

	assert_non_null(part);
	atomic_store(&part->at, 1ull << 30);
	for (size_t i = 0; i < AV_ARRAY_SIZE(parts); i++) {
		uint64_t bytes = parts[i].bytes * PAGE;

		part->addr = ADDR + (parts[i].begin - 1) * PAGE;
		part->bytes = (parts[i].end - parts[i].begin) * PAGE;
		k->heap = (uint32_t)(PART_AT >> AV_HEAP_PART_SHIFT);
		k->share = AV_KEY_EARLY;
		assert_int_equal(look(), 1);
		if (info.memory != (bytes ? AV_REGION_SHARED : AV_REGION_EARLY) ||
		    info.counted[AV_MR_SHARED_BYTES] != bytes)
			fail_msg("row %zu: %lu bytes", i,
				 (unsigned long)info.counted[AV_MR_SHARED_BYTES]);
	}
	part->addr = ADDR;
	part->bytes = PAGE;
	atomic_store(&part->at, 0); /* private again */
	k->share = 0;
	assert_int_equal(look(), 1);
	assert_int_equal(info.memory, AV_REGION_PLAIN);
	k->heap = UINT32_MAX; /* nonsense */
	assert_int_equal(look(), 1);
	assert_int_equal(info.memory, AV_REGION_PLAIN);
}

/* --- pages ----------------------------------------------------------------------- */

#define PRIVATE_HUGE (AV_KEY_PRIVATE | AV_KEY_HUGETLB)

static const struct {
	uint8_t kind, share;
	uint64_t length, intact;
	uint64_t type, huge, small;
	bool shared, writable, second;
} pages[] = {
	{AV_KEY_REGION, AV_KEY_PRIVATE, 0, 0, AV_ALLOC_ANON, 0, 0, false, false, false},
	{AV_KEY_REGION, AV_KEY_PRIVATE, 1, 0, AV_ALLOC_ANON, 0, 1, false, false, false},
	{AV_KEY_REGION, AV_KEY_PRIVATE, PAGE + 1, 0, AV_ALLOC_ANON, 0, 2, false, false, false},
	{AV_KEY_REGION, AV_KEY_PRIVATE, HUGE, 0, AV_ALLOC_ANON, 0, 512, false, false, false},
	{AV_KEY_REGION, PRIVATE_HUGE, 0, 0, AV_ALLOC_HUGE, 0, 0, false, false, false},
	{AV_KEY_REGION, PRIVATE_HUGE, 1, 0, AV_ALLOC_HUGE, 1, 0, false, false, false},
	{AV_KEY_REGION, PRIVATE_HUGE, HUGE, 0, AV_ALLOC_HUGE, 1, 0, false, false, false},
	{AV_KEY_REGION, PRIVATE_HUGE, HUGE + 1, 0, AV_ALLOC_HUGE, 2, 0, false, false, false},
	{AV_KEY_PAGES, 0, PAGE, INTACT(3, 0), 3, 0, 1, false, false, false},
	{AV_KEY_PAGES, 0, 2 * HUGE, INTACT(5, 0), 5, 0, 1024, false, false, false},
	{AV_KEY_PAGES, 0, 2 * HUGE, INTACT(5, 1), 5, 1, 512, false, false, false},
	{AV_KEY_PAGES, 0, 2 * HUGE, INTACT(15, 2), 15, 2, 0, false, false, false},
	{AV_KEY_PAGES, 0, HUGE + 1, INTACT(15, 2), 15, 2, 0, false, false, false},
	{AV_KEY_PAGES, 0, 2 * HUGE + 1, INTACT(0, 2), 0, 2, 1, false, false, false},
	{AV_KEY_PAGES, AV_SHARED, 1, 0, 0, 0, 1, true, false, false},
	{AV_KEY_PAGES, AV_SHARED | AV_SHARE_WRITE, 1, 0, 0, 0, 1, true, true, false},
	{AV_KEY_PAGES, AV_SHARED | AV_SHARE_READ, 1, 0, 0, 0, 1, true, false, false},
	{AV_KEY_MAPPED, AV_SHARE_SECOND, 1, 0, 0, 0, 1, true, false, true},
	{AV_KEY_REGION, 0, HUGE, INTACT(5, 1), 0, 0, 0, false, false, false},
	{AV_KEY_DEVICE, 0, HUGE, INTACT(5, 1), 0, 0, 0, false, false, false},
};

TEST_WITH(pages_of_allocated_memory, setup, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(pages); i++) {
		k->kind = pages[i].kind;
		k->share = pages[i].share;
		k->length = pages[i].length;
		atomic_store(&k->intact, pages[i].intact);
		assert_int_equal(look(), 1);
		if (info.type != pages[i].type || info.huge != pages[i].huge ||
		    info.small != pages[i].small || info.shared != pages[i].shared ||
		    info.writable != pages[i].writable || info.second != pages[i].second)
			fail_msg("row %zu: type %u, %lu + %lu pages", i, info.type,
				 (unsigned long)info.huge, (unsigned long)info.small);
	}
}

/* --- counters -------------------------------------------------------------------- */

TEST_WITH(counters_of_the_key, setup, close_fake)
{
	uint64_t stamp;

	for (int on_demand = 0; on_demand < 2; on_demand++) {
		av_region_count(&fake.seg, KEY, AV_MR_REFUSED, 7);
		k->kind = on_demand ? AV_KEY_ODP : AV_KEY_REGION;
		k->windows = 2;
		assert_true(av_odp_prepare(&fake.seg, ADDR, 4 * PAGE, &stamp));
		av_odp_set(&fake.seg, ADDR + PAGE, 3 * PAGE, false);
		assert_int_equal(look(), 1);
		assert_int_equal(info.counted[AV_MR_REFUSED], 7 * (on_demand + 1));
		assert_int_equal(info.counted[AV_MR_WINDOWS], 2);
		assert_int_equal(info.counted[AV_MR_SHARED_BYTES], 0);
		assert_int_equal(info.counted[AV_MR_VALID_PAGES], on_demand ? 3 : 0);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
