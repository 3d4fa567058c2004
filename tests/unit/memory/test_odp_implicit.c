/* SPDX-License-Identifier: MIT */
/* Which pages are in use by implicit regions, beside others and while they come and go. */
#include <pthread.h>

#include "base/compiler.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/odp_table.c" /* with what is static in it */
#include "unit/memory/heap_fixture.h"

#define PAGE	  4096ull
#define BASE	  0x10000000ull /* of 100 pages, all of them valid at first */
#define ALL_PAGES 100u
#define AT(n)	  (BASE + (n)*PAGE)
#define KEYS	  4096u
#define REGIONS	  4
#define ROUNDS	  100000u

static uint32_t create(uint8_t kind, uint64_t addr, uint64_t length)
{
	const struct av_key what = {.kind = kind, .addr = addr, .base = addr, .length = length};
	uint32_t key = av_key_create(seg, &what, KEYS);

	assert_int_not_equal(key, 0);
	return key;
}

static void make_valid(uint64_t addr, uint64_t pages, bool write)
{
	uint64_t stamp;

	assert_true(av_odp_prepare(seg, addr, pages * PAGE, &stamp));
	av_odp_set(seg, addr, pages * PAGE, write);
}

static const struct {
	struct {
		uint8_t kind;
		uint64_t addr, length;
	} region[REGIONS];
	uint64_t pages; /* in use by implicit ones */
} rows[] = {
	{{{0}}, 0},
	{{{AV_KEY_ODP, 0, SIZE_MAX}}, ALL_PAGES},
	{{{AV_KEY_ODP, 0, SIZE_MAX}, {AV_KEY_ODP, 0, SIZE_MAX}}, ALL_PAGES},
	{{{AV_KEY_ODP, AT(0), ALL_PAGES *PAGE}}, 0},
	/* pages that another region touches are its own */
	{{{AV_KEY_ODP, 0, SIZE_MAX}, {AV_KEY_ODP, AT(0), ALL_PAGES *PAGE}}, 0},
	{{{AV_KEY_ODP, AT(10), 5 * PAGE}, {AV_KEY_ODP, 0, SIZE_MAX}}, ALL_PAGES - 5},
	{{{AV_KEY_ODP, 0, SIZE_MAX}, {AV_KEY_ODP, AT(10) - 1, 2}}, ALL_PAGES - 2},
	{{{AV_KEY_ODP, 0, SIZE_MAX}, {AV_KEY_ODP, AT(99), 5 * PAGE}}, ALL_PAGES - 1},
	{{{AV_KEY_ODP, 0, SIZE_MAX}, {AV_KEY_ODP, 0, AT(1)}}, ALL_PAGES - 1},
	{{{AV_KEY_ODP, 0, SIZE_MAX}, {AV_KEY_ODP, 0, 1ull << 62}}, 0},
	{{{AV_KEY_ODP, 0, SIZE_MAX}, {AV_KEY_ODP, 1ull << 50, PAGE}}, ALL_PAGES},
	/* once, however many, in any order */
	{{{AV_KEY_ODP, AT(20), 10 * PAGE},
	  {AV_KEY_ODP, AT(10), 15 * PAGE},
	  {AV_KEY_ODP, AT(12), PAGE},
	  {AV_KEY_ODP, 0, SIZE_MAX}},
	 ALL_PAGES - 20},
	/* those that are not on demand have nothing to do with it */
	{{{AV_KEY_ODP, 0, SIZE_MAX}, {AV_KEY_REGION, AT(10), 5 * PAGE}}, ALL_PAGES},
};

TEST_WITH(each_page_in_use_is_counted_once, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		fake_heap_close(&heap);
		fake_heap_open(&heap);
		for (unsigned int r = 0; r < REGIONS; r++)
			if (rows[i].region[r].kind)
				create(rows[i].region[r].kind, rows[i].region[r].addr,
				       rows[i].region[r].length);
		make_valid(BASE, ALL_PAGES, i % 2);
		if (implicit_pages(seg) != rows[i].pages)
			fail_msg("row %zu: %lu pages, not %lu", i, implicit_pages(seg),
				 rows[i].pages);
	}
}

TEST_WITH(it_falls_with_the_pages_and_with_the_region, set_up, tear_down)
{
	uint32_t whole = create(AV_KEY_ODP, 0, SIZE_MAX);

	make_valid(BASE, ALL_PAGES, true);
	make_valid((1ull << 47) - PAGE, 1, false);
	assert_int_equal(implicit_pages(seg), ALL_PAGES + 1);
	av_odp_invalidate(seg, AT(3), 2 * PAGE);
	av_odp_invalidate(seg, AT(4), 2 * PAGE);
	assert_int_equal(implicit_pages(seg), ALL_PAGES - 2);
	make_valid(AT(4), 1, false);
	assert_int_equal(implicit_pages(seg), ALL_PAGES - 1);
	assert_int_equal(av_key_destroy(seg, whole), 0);
	assert_int_equal(implicit_pages(seg), 0);
}

/* --- threads that fault and invalidate the same page -------------------------------- */

static void *fault_often(void *unused)
{
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct av_odp_access access;

		av_odp_begin(seg, AT(i % 2), PAGE, i % 3, NULL, &access);
		av_odp_end(&access, true);
	}
	return NULL;
}

static void *invalidate_often(void *unused)
{
	for (unsigned int i = 0; i < ROUNDS; i++)
		av_odp_invalidate(seg, AT(i % 2), PAGE);
	return NULL;
}

TEST_WITH(races_leave_nothing_behind, set_up, tear_down)
{
	pthread_t thread[4];

	create(AV_KEY_ODP, 0, SIZE_MAX);
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL,
						i % 2 ? invalidate_often : fault_often, NULL),
				 0);
	for (unsigned int i = 0; i < 1000; i++)
		assert_in_range(implicit_pages(seg), 0, 2);
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(thread); i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(implicit_pages(seg), av_odp_valid(seg, BASE, ALL_PAGES * PAGE, false));
	av_odp_invalidate(seg, BASE, ALL_PAGES * PAGE);
	assert_int_equal(implicit_pages(seg), 0);
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
