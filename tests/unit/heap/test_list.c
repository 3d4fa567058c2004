/* SPDX-License-Identifier: MIT */
/* The blocks of the shared heap's window: every function, and any order of them against a model. */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "heap/blocks.h"

#define BEGIN 0x1000u
#define PAGES 64u
#define PAGE  0x1000u

static struct av_block_list list;

static int make_list(void **state)
{
	list = (struct av_block_list){
		.block = calloc(AV_BLOCKS, sizeof(struct av_block)),
		.begin = BEGIN,
		.end = BEGIN + (uint64_t)PAGES * PAGE,
	};
	return list.block == NULL;
}

static int free_list(void **state)
{
	free(list.block);
	return 0;
}

static uint64_t page(uint32_t number)
{
	return BEGIN + (uint64_t)number * PAGE;
}

static void insert(uint32_t first, uint32_t end)
{
	av_block_insert(&list, av_block_find(&list, page(first)),
			(struct av_block){.begin = page(first), .end = page(end)});
}

/* Blocks at pages 2 to 4 and 6 to 7. */
static void two_blocks(void)
{
	list.count = list.cursor = 0;
	insert(6, 7);
	insert(2, 4);
}

TEST(finds_the_block_that_ends_above)
{
	static const struct {
		uint32_t page, index;
	} rows[] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 1}, {5, 1}, {6, 1}, {7, 2}, {63, 2}};

	two_blocks();
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		assert_int_equal(av_block_find(&list, page(rows[i].page)), rows[i].index);
	assert_int_equal(av_block_find(&list, page(4) - 1), 0);
	assert_int_equal(av_block_gap_end(&list, 0), page(2));
	assert_int_equal(av_block_gap_end(&list, 1), page(6));
	assert_int_equal(av_block_gap_end(&list, 2), list.end);
}

TEST(finds_room)
{
	static const struct {
		uint32_t pages, align, from, at; /* in pages; @at 0: there is none */
	} rows[] = {
		{1, 1, 0, 0 + 100}, {2, 1, 0, 0 + 100}, {3, 1, 0, 7},	{2, 1, 1, 4},
		{3, 1, 1, 7},	    {57, 1, 0, 7},	{58, 1, 0, 0},	{1, 1, 2, 7},
		{1, 8, 0, 7},	    {2, 8, 1, 7},	{1, 16, 1, 15}, {49, 16, 1, 15},
		{50, 16, 1, 0},	    {1, 1, 9, 0 + 100},
	};

	two_blocks();
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint32_t index = rows[i].from, left = list.count + 1;
		uint64_t at = av_block_gap(&list, (uint64_t)rows[i].pages * PAGE,
					   (uint64_t)rows[i].align * PAGE, &index, &left);
		uint64_t wanted = rows[i].at ? page(rows[i].at % 100) : 0;

		if (at != wanted)
			fail_msg("row %zu: %#lx, not %#lx", i, at, wanted);
	}
}

TEST(splits_at_an_address)
{
	two_blocks();
	assert_true(av_block_split(&list, page(3)));
	assert_int_equal(list.count, 3);
	assert_int_equal(list.block[0].end, page(3));
	assert_int_equal(list.block[1].begin, page(3));
	assert_int_equal(list.block[1].end, page(4));
	assert_true(av_block_split(&list, page(3))); /* a bound already, */
	assert_true(av_block_split(&list, page(5))); /* in a gap, */
	assert_true(av_block_split(&list, page(9))); /* behind all */
	assert_int_equal(list.count, 3);
}

TEST(a_full_list_takes_no_more)
{
	uint32_t index = 0, left;

	list.count = AV_BLOCKS;
	left = list.count + 1;
	for (uint32_t i = 0; i < AV_BLOCKS; i++)
		list.block[i] = (struct av_block){.begin = page(2 * i), .end = page(2 * i + 2)};
	assert_int_equal(av_block_gap(&list, PAGE, PAGE, &index, &left), 0);
	assert_false(av_block_split(&list, page(1)));
	list.count = 0;
}

/* --- any order, against a model that has a byte for each page ------------------------ */

static uint8_t taken[PAGES];

static bool is_taken(uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		if (taken[i])
			return true;
	return false;
}

static bool there_is_room(uint32_t pages)
{
	for (uint32_t i = 0; i + pages <= PAGES; i++)
		if (!is_taken(i, i + pages))
			return true;
	return false;
}

static void take_some(uint32_t pages)
{
	uint32_t i = list.cursor, left = list.count + 1, first;
	uint64_t at = av_block_gap(&list, (uint64_t)pages * PAGE, PAGE, &i, &left);

	assert_int_equal(at != 0, there_is_room(pages));
	if (!at)
		return;
	first = (uint32_t)((at - BEGIN) / PAGE);
	assert_false(is_taken(first, first + pages));
	memset(taken + first, 1, pages);
	av_block_insert(&list, i, (struct av_block){.begin = at, .end = page(first + pages)});
	list.cursor = i + 1;
}

static void give_some(uint32_t first, uint32_t pages)
{
	uint32_t end = first + pages < PAGES ? first + pages : PAGES;

	assert_true(av_block_split(&list, page(first)) && av_block_split(&list, page(end)));
	for (uint32_t i = av_block_find(&list, page(first));
	     i < list.count && list.block[i].begin < page(end);)
		av_block_erase(&list, i);
	memset(taken + first, 0, end - first);
}

static void the_list_is_the_model(void)
{
	uint8_t seen[PAGES] = {0};

	for (uint32_t i = 0; i < list.count; i++) {
		const struct av_block *b = &list.block[i];

		assert_true(b->begin < b->end && (i == 0 || b[-1].end <= b->begin));
		memset(seen + (b->begin - BEGIN) / PAGE, 1, (b->end - b->begin) / PAGE);
	}
	assert_memory_equal(seen, taken, PAGES);
}

TEST(any_order)
{
	uint32_t random = 1;

	list.count = list.cursor = 0;
	for (uint32_t i = 0; i < 200000; i++) {
		random = random * 1664525u + 1013904223u;
		if (random >> 31)
			take_some(1 + (random >> 8) % 9);
		else
			give_some((random >> 8) % PAGES, 1 + (random >> 16) % 9);
		the_list_is_the_model();
	}
}

int main(void)
{
	return run_cases(make_list, free_list);
}
