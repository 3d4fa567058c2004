/* SPDX-License-Identifier: MIT */
/* Bounce buffers are taken in chains, are nobody else's meanwhile, and come back. */
#include <pthread.h>
#include <string.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "queue/rq.h"
#include "unit/memory/seg_fixture.h"

#define ALL ((uint64_t)AV_BOUNCE_BYTES * AV_BOUNCE_COUNT)

static bool used[AV_BOUNCE_COUNT + 1]; /* by link */

static int set_up(void **state)
{
	fake_open(&fake, 1);
	memset(used, 0, sizeof(used));
	return 0;
}

static void expect_chain(uint32_t first, uint64_t buffers)
{
	uint32_t link = first;

	for (; buffers > 0; buffers--, link = av_bounce_next(&fake.seg, link)) {
		assert_true(link > 0 && link <= AV_BOUNCE_COUNT);
		assert_false(used[link]);
		used[link] = true;
	}
	assert_int_equal(link, 0);
}

static const struct {
	uint64_t bytes, buffers; /* 0: there are not so many */
} rows[] = {
	{1, 1},
	{AV_BOUNCE_BYTES, 1},
	{AV_BOUNCE_BYTES + 1, 2},
	{5 * AV_BOUNCE_BYTES - 1, 5},
	{ALL - 1, AV_BOUNCE_COUNT},
	{ALL, AV_BOUNCE_COUNT},
	{ALL + 1, 0},
	{UINT64_MAX, 0},
};

/* Twice: of buffers that were never used, and of others. */
TEST_WITH(a_chain_has_as_many_as_the_bytes_need, set_up, close_fake)
{
	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(rows); i++) {
		uint64_t bytes = rows[i / 2].bytes, buffers = rows[i / 2].buffers;
		uint32_t first = av_bounce_take(&fake.seg, bytes);

		memset(used, 0, sizeof(used));
		assert_int_equal(first != 0, buffers != 0);
		expect_chain(first, buffers);
		av_bounce_give(&fake.seg, first, bytes);
	}
}

TEST_WITH(none_is_taken_twice_and_none_is_lost, set_up, close_fake)
{
	uint32_t chains[AV_BOUNCE_COUNT / 3], last;

	for (unsigned int round = 0; round < 3; round++) {
		memset(used, 0, sizeof(used));
		for (size_t i = 0; i < AV_ARRAY_SIZE(chains); i++) {
			chains[i] = av_bounce_take(&fake.seg, 3 * AV_BOUNCE_BYTES);
			expect_chain(chains[i], 3);
		}
		/* The one that is left is too few, and not kept. */
		assert_int_equal(av_bounce_take(&fake.seg, 3 * AV_BOUNCE_BYTES), 0);
		last = av_bounce_take(&fake.seg, AV_BOUNCE_BYTES);
		expect_chain(last, 1);
		assert_int_equal(av_bounce_take(&fake.seg, 1), 0);
		for (uint32_t link = 1; link <= AV_BOUNCE_COUNT; link++)
			assert_true(used[link]);
		av_bounce_give(&fake.seg, 0, AV_BOUNCE_BYTES);
		for (size_t i = 0; i < AV_ARRAY_SIZE(chains); i++)
			av_bounce_give(&fake.seg, chains[i], 3 * AV_BOUNCE_BYTES);
		av_bounce_give(&fake.seg, last, AV_BOUNCE_BYTES);
	}
}

TEST_WITH(each_has_memory_of_its_own, set_up, close_fake)
{
	const uint8_t *before = av_bounce_buffer(&fake.seg, 1);

	/* What lies beside the links is not one. */
	assert_int_not_equal(av_bounce_take(&fake.seg, 1), 0);
	memset(fake.seg.head->pin, 0xff, sizeof(fake.seg.head->pin));
	assert_null(av_bounce_buffer(&fake.seg, 0));
	assert_null(av_bounce_buffer(&fake.seg, AV_BOUNCE_COUNT + 1));
	assert_int_equal(av_bounce_next(&fake.seg, 0), 0);
	for (uint32_t link = AV_BOUNCE_COUNT + 1; link < AV_BOUNCE_COUNT + 64; link++)
		assert_int_equal(av_bounce_next(&fake.seg, link), 0);
	assert_ptr_equal(before, (const uint8_t *)fake.seg.head + AV_BOUNCE_OFFSET);
	for (uint32_t link = 2; link <= AV_BOUNCE_COUNT; link++) {
		const uint8_t *buffer = av_bounce_buffer(&fake.seg, link);

		assert_ptr_equal(buffer, before + AV_BOUNCE_BYTES);
		before = buffer;
	}
}

/* Whoever has looked at the stack before it changed must find that it has. */
TEST_WITH(each_change_of_the_stack_is_counted, set_up, close_fake)
{
	const _Atomic uint64_t *stack = &fake.seg.head->bounce_free;
	uint32_t changes = 0;

	for (unsigned int i = 0; i < 100; i++) {
		uint32_t first = av_bounce_take(&fake.seg, AV_BOUNCE_BYTES);

		changes += i > 0; /* the first one was never used */
		assert_int_equal(atomic_load(stack) >> 32, changes);
		av_bounce_give(&fake.seg, first, AV_BOUNCE_BYTES);
		assert_int_equal(atomic_load(stack) >> 32, ++changes);
		assert_int_equal((uint32_t)atomic_load(stack), first);
	}
}

/* A peer may have written anything into a chain. */
static const struct {
	uint64_t bytes;
	uint32_t buffers; /* that are freed at most */
} circles[] = {
	{1, 1},
	{AV_BOUNCE_BYTES - 1, 1},
	{AV_BOUNCE_BYTES, 1},
	{AV_BOUNCE_BYTES + 1, 2},
	{2 * AV_BOUNCE_BYTES, 2},
	{2 * AV_BOUNCE_BYTES + 1, 3},
};

TEST_WITH(a_chain_that_is_a_circle_has_an_end, set_up, close_fake)
{
	const _Atomic uint64_t *stack = &fake.seg.head->bounce_free;

	for (size_t i = 0; i < AV_ARRAY_SIZE(circles); i++) {
		uint32_t first, changes;

		close_fake(state);
		set_up(state);
		first = av_bounce_take(&fake.seg, 4 * AV_BOUNCE_BYTES);
		assert_int_not_equal(first, 0);
		for (uint32_t link = first, next; link; link = next == first ? 0 : next) {
			next = av_bounce_next(&fake.seg, link);
			if (next == 0)
				next = first;
			atomic_store(&fake.seg.head->bounce_next[link - 1], next);
		}
		changes = (uint32_t)(atomic_load(stack) >> 32);
		av_bounce_give(&fake.seg, first, circles[i].bytes);
		assert_int_equal((atomic_load(stack) >> 32) - changes, circles[i].buffers);
	}
}

/* --- at the same time -------------------------------------------------------------- */

#define THREADS 4u
#define TURNS	(SANITIZED ? 20000u : 200000u)

static _Atomic uint32_t users[AV_BOUNCE_COUNT + 1]; /* by link */

/* Each thread holds up to three, so there are always enough. */
static void *take_and_give(void *unused)
{
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		uint64_t bytes = (1 + turn % 3) * AV_BOUNCE_BYTES;
		uint32_t first = av_bounce_take(&fake.seg, bytes), link;

		CHECK(first != 0);
		for (link = first; link; link = av_bounce_next(&fake.seg, link))
			CHECK(atomic_exchange(&users[link], 1) == 0);
		for (link = first; link; link = av_bounce_next(&fake.seg, link))
			CHECK(atomic_exchange(&users[link], 0) == 1);
		av_bounce_give(&fake.seg, first, bytes);
	}
	return NULL;
}

TEST_WITH(each_has_one_user_at_a_time, set_up, close_fake)
{
	pthread_t thread[THREADS];

	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, NULL), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	memset(used, 0, sizeof(used));
	expect_chain(av_bounce_take(&fake.seg, ALL), AV_BOUNCE_COUNT);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
