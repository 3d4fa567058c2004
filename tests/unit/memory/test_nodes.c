/* SPDX-License-Identifier: MIT */
/* Which offsets are nodes, where new ones are, and when there is no room for one. */
#include "base/compiler.h"
#include "copy/copy.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "unit/memory/seg_fixture.h"

#define PAGE 4096ull
#define LINE ((uint64_t)AV_CACHE_LINE)
#define AREA AV_ODP_OFFSET
#define END  (AV_ODP_OFFSET + AV_ODP_BYTES)

static int setup(void **state)
{
	fake_open(&fake, 1);
	return av_copy_init();
}

static const struct {
	uint64_t offset, bytes;
	bool node;
} offsets[] = {
	{0, LINE, false},	   {AREA, LINE, true},	      {AREA - LINE, LINE, false},
	{AREA + LINE, PAGE, true}, {END - LINE, LINE, true},  {END - LINE, 2 * LINE, false},
	{END, LINE, false},	   {AREA + 1, 8, false},      {AREA + 2, 8, false},
	{AREA + 8, 8, false},	   {AREA + 32, 8, false},     {AREA + 63, 8, false},
	{-LINE, LINE, false},	   {AREA, UINT64_MAX, false}, {AREA, AV_ODP_BYTES, true},
};

TEST_WITH(nodes_lie_in_their_area, setup, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(offsets); i++) {
		const uint8_t *node = av_node_at(&fake.seg, offsets[i].offset, offsets[i].bytes),
			      *want = (uint8_t *)fake.seg.head + offsets[i].offset;

		if (node != (offsets[i].node ? want : NULL))
			fail_msg("row %zu", i);
	}
}

/* Small ones do not straddle pages, and large ones begin with one. */
static const struct {
	uint64_t used, bytes;
	uint64_t at; /* UINT64_MAX: there is no room */
} takes[] = {
	{0, 64, 0},
	{64, 64, 64},
	{64, 512, 512},
	{512, 512, 512},
	{513, 512, 1024},
	{PAGE - 64, 512, PAGE},
	{PAGE - 64, PAGE, PAGE},
	{PAGE, 3 * PAGE, PAGE},
	{PAGE + 1, 3 * PAGE, 2 * PAGE},
	{5 * PAGE + 8, 12288, 6 * PAGE},
	{AV_ODP_BYTES - 64, 64, AV_ODP_BYTES - 64},
	{AV_ODP_BYTES - PAGE, PAGE, AV_ODP_BYTES - PAGE},
	{AV_ODP_BYTES - PAGE, 2 * PAGE, UINT64_MAX},
	{AV_ODP_BYTES - PAGE + 1, PAGE, UINT64_MAX},
	{AV_ODP_BYTES - 63, 64, UINT64_MAX},
	{AV_ODP_BYTES, 64, UINT64_MAX},
	{AV_ODP_BYTES + 1, 64, UINT64_MAX}, /* nonsense */
	{UINT64_MAX, 64, UINT64_MAX},
};

TEST_WITH(new_nodes_lie_behind_the_others, setup, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(takes); i++) {
		bool room = takes[i].at != UINT64_MAX;

		atomic_store(&fake.seg.head->odp_brk, takes[i].used);
		if (av_node_take(&fake.seg, takes[i].bytes) != (room ? AREA + takes[i].at : 0) ||
		    atomic_load(&fake.seg.head->odp_brk) !=
			    (room ? takes[i].at + takes[i].bytes : takes[i].used))
			fail_msg("row %zu", i);
	}
}

/* Room in the file, in bytes of the area; behind that the file system is full. */
static const struct {
	uint64_t used, room, bytes;
	bool there;
} backed[] = {
	{0, PAGE, PAGE, true},		{0, PAGE, PAGE + 1, false},  {0, 2 * PAGE, 2 * PAGE, true},
	{0, 2 * PAGE, 3 * PAGE, false}, {PAGE, PAGE, 64, false},     {PAGE, PAGE, PAGE, false},
	{PAGE, 2 * PAGE, PAGE, true},	{PAGE - 64, PAGE, 64, true},
};

TEST_WITH(a_full_file_system_has_no_nodes, setup, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(backed); i++) {
		atomic_store(&fake.seg.head->odp_brk, backed[i].used);
		assert_int_equal(ftruncate(fake.fd, (off_t)(AREA + backed[i].room)), 0);
		if ((av_node_take(&fake.seg, backed[i].bytes) != 0) != backed[i].there ||
		    atomic_load(&fake.seg.head->odp_brk) !=
			    backed[i].used + (backed[i].there ? backed[i].bytes : 0))
			fail_msg("row %zu", i);
		assert_int_equal(ftruncate(fake.fd, (off_t)AV_SEG_BYTES), 0);
	}
}

TEST_WITH(each_page_of_a_node_is_there, setup, close_fake)
{
	for (uint64_t bad = 0; bad < 4; bad++) {
		uint8_t *page = (uint8_t *)fake.seg.head + AREA + bad * PAGE;

		atomic_store(&fake.seg.head->odp_brk, 0);
		assert_int_equal(mprotect(page, PAGE, PROT_READ), 0);
		assert_int_equal(av_node_take(&fake.seg, 3 * PAGE), bad < 3 ? 0 : AREA);
		assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_WRITE), 0);
	}
}

TEST_WITH(the_first_to_publish_wins, setup, close_fake)
{
	_Atomic uint64_t where = 0;

	void *node = av_node_make(&fake.seg, &where, 64);

	assert_ptr_equal(node, av_node_at(&fake.seg, AREA, 64));
	assert_int_equal(where, AREA);
	assert_ptr_equal(av_node_make(&fake.seg, &where, 64), node);
	assert_int_equal(where, AREA);
	where = 0;
	atomic_store(&fake.seg.head->odp_brk, AV_ODP_BYTES);
	assert_null(av_node_make(&fake.seg, &where, 64));
	assert_int_equal(where, 0);
	where = 1; /* nonsense */
	assert_null(av_node_make(&fake.seg, &where, 64));
	assert_int_equal(where, 1);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
