/* SPDX-License-Identifier: MIT */
/* A ring that is made for a CQ, anew or in place of another one, holds what it is asked to hold. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "lib/skipped_clock.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "queue/rq.h"
#include "unit/memory/heap_fixture.h"

#define ASKED 20u
#define PEER  2u /* identity of another process */

static uint32_t cq;

static void append(uint64_t wr_id)
{
	struct av_cqe e = {.wr_id = wr_id};

	assert_int_equal(av_cq_push(seg, cq, &e, NULL), 0);
}

static void expect_next(uint64_t wr_id)
{
	const struct av_cqe *e = av_cq_peek(seg, av_cq_at(seg, cq));

	assert_non_null(e);
	assert_int_equal(e->wr_id, wr_id);
	av_cq_take(av_cq_at(seg, cq));
}

/* --- another size ------------------------------------------------------------------ */

static const struct {
	uint32_t from, to;
	uint32_t held; /* entries at that time */
	int err;
} rows[] = {
	{1, 1, 1, 0},  {1, 2, 1, 0},  {3, 5, 3, 0},	  {8, 9, 8, 0},	     {4, 100, 4, 0},
	{8, 8, 8, 0},  {9, 8, 8, 0},  {100, 7, 7, 0},	  {9, 8, 9, EINVAL}, {2, 1, 2, EINVAL},
	{16, 4, 0, 0}, {16, 4, 4, 0}, {16, 4, 5, EINVAL},
};

/* It begins in the middle of the ring. Afterwards it is full several times over. */
TEST_WITH(entries_stay_and_there_is_room_for_as_many, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint32_t capacity = rows[i].err ? rows[i].from : rows[i].to;
		uint64_t in = 0, out = 0;

		cq = av_cq_init(seg, rows[i].from, 0, 1, 1000, NULL);
		assert_int_not_equal(cq, 0);
		for (uint32_t n = 0; n < rows[i].from - 1; n++) {
			append(++in);
			expect_next(++out);
		}
		while (in - out < rows[i].held)
			append(++in);
		assert_int_equal(av_cq_resize(seg, cq, rows[i].to, NULL), rows[i].err);
		for (unsigned int turn = 0; turn < 5; turn++) {
			while (in - out < capacity)
				append(++in);
			while (out < in)
				expect_next(++out);
		}
		assert_null(av_cq_peek(seg, av_cq_at(seg, cq)));
		av_cq_fini(seg, cq);
	}
}

/* Whatever numbers come next: a place that was never used holds none of them. */
TEST_WITH(another_ring_has_no_other_entries, set_up, tear_down)
{
	static const uint32_t heads[] = {0, 1, 0xfffffff8, 0xfffffffe, UINT32_MAX};

	for (size_t i = 0; i < AV_ARRAY_SIZE(heads); i++) {
		struct av_cq_shared *shared;

		cq = av_cq_init(seg, 8, 0, 1, 1000, NULL);
		shared = av_cq_at(seg, cq);
		assert_non_null(shared);
		atomic_store(&shared->head, heads[i]);
		atomic_store(&shared->producer[0].tail, heads[i]);
		assert_int_equal(av_cq_resize(seg, cq, 16, NULL), 0);
		for (uint64_t n = 1; n < 20; n++) {
			assert_null(av_cq_peek(seg, shared));
			append(n);
			expect_next(n);
		}
		av_cq_fini(seg, cq);
	}
}

TEST_WITH(no_larger_ring_than_the_memory_allows, set_up, tear_down)
{
	cq = av_cq_init(seg, 4, 0, 1, 1000, NULL);
	assert_int_not_equal(cq, 0);
	append(1);
	assert_int_equal(av_cq_resize(seg, cq, 1u << 20, NULL), ENOMEM);
	append(2);
	expect_next(1);
	expect_next(2);
	assert_int_equal(av_cq_init(seg, 1u << 20, 0, 1, 2, NULL), 0);
	av_cq_fini(seg, cq);
	/* Neither of the two that there may be is taken by what failed. */
	for (unsigned int i = 0; i < 2; i++)
		assert_int_not_equal(av_cq_init(seg, 4, 0, 1, 2, NULL), 0);
	assert_int_equal(av_cq_init(seg, 4, 0, 1, 2, NULL), 0);
}

/* The two rings that it takes in turn are the only ones that it has memory for. */
TEST_WITH(a_ring_goes_back_when_there_is_another, set_up, tear_down)
{
	static const uint32_t capacities[] = {1, 2, 8, 100, 4000};

	for (size_t i = 0; i < AV_ARRAY_SIZE(capacities); i++) {
		const struct av_cq_shared *shared;
		uint64_t rings[2];

		cq = av_cq_init(seg, capacities[i], 0, 1, 1000, NULL);
		shared = av_cq_at(seg, cq);
		assert_non_null(shared);
		for (unsigned int n = 0; n < 10; n++) {
			if (n >= 2)
				assert_true(shared->ring[0] == rings[n % 2]);
			rings[n % 2] = shared->ring[0];
			assert_int_equal(av_cq_resize(seg, cq, capacities[i], NULL), 0);
		}
		av_cq_fini(seg, cq);
	}
}

/* Exact where it is above 64: queue/cq.c. */
TEST_WITH(the_most_entries_that_waited_are_counted, set_up, tear_down)
{
	static const uint32_t most[] = {65, 66, 100, 200};

	for (size_t i = 0; i < AV_ARRAY_SIZE(most); i++) {
		cq = av_cq_init(seg, 200, 0, 1, 1000, NULL);
		assert_int_not_equal(cq, 0);
		for (unsigned int round = 0; round < 3; round++) {
			for (uint64_t n = 1; n <= most[i] - round; n++)
				append(n);
			for (uint64_t n = 1; n <= most[i] - round; n++)
				expect_next(n);
			assert_int_equal(av_cq_at(seg, cq)->producer[0].peak, most[i]);
		}
		av_cq_fini(seg, cq);
	}
}

static bool all_live(uint32_t owner)
{
	return true;
}

/* A peer is stopped with the lock of @producer, and the owner goes on with another ring. */
static void leave_behind(struct av_cq_shared *shared, uint32_t producer)
{
	av_lock_owner_alive = all_live;
	atomic_store(&shared->producer[producer].lock.owner, PEER);
	av_cq_producer_look(seg, shared);
	clock_skip_ns(AV_STUCK_NS);
	av_cq_producer_look(seg, shared);
	assert_int_equal(av_cq_used(shared), 1 - producer);
}

/* A CQ counts on where an earlier one at its index has ended, which is not its own. */
TEST_WITH(counters_go_on_where_another_cq_was, set_up, tear_down)
{
	const struct av_cq_shared *shared;
	uint32_t first = av_cq_init(seg, 4, 0, 1, 1000, NULL), index = 0;

	assert_int_not_equal(first, 0);
	av_cq_at(seg, first)->producer[0].counters = (struct av_cq_counters){7, 8};
	av_cq_at(seg, first)->producer[1].counters = (struct av_cq_counters){5, 6};
	av_cq_fini(seg, first);
	for (unsigned int i = 0; i < 5000 && index != first; i++) {
		index = av_cq_init(seg, 4, 0, 1, 1000, NULL);
		assert_int_not_equal(index, 0);
		if (index != first)
			av_cq_fini(seg, index);
	}
	assert_int_equal(index, first);
	shared = av_cq_at(seg, index);
	assert_int_equal(av_cq_counted(shared).completions, 12);
	assert_int_equal(av_cq_counted(shared).lost, 14);
	assert_int_equal(shared->before.completions, 12);
	assert_int_equal(shared->before.lost, 14);
	av_cq_fini(seg, index);
}

/* Its appenders look at what the poller writes when so many entries may wait, and not before. */
TEST_WITH(few_entries_are_not_looked_after, set_up, tear_down)
{
	static const uint32_t capacities[] = {1, 63, 64, 65, 200};

	for (size_t i = 0; i < AV_ARRAY_SIZE(capacities); i++) {
		cq = av_cq_init(seg, capacities[i], 0, 1, 1000, NULL);
		assert_int_not_equal(cq, 0);
		assert_int_equal(av_cq_at(seg, cq)->producer[0].level,
				 capacities[i] < 64 ? capacities[i] : 64);
		av_cq_fini(seg, cq);
	}
}

/* Where the next ring for so many entries would be. */
static uint64_t next_ring(uint32_t entries)
{
	uint64_t bytes = entries * sizeof(struct av_cqe), at = av_ring_alloc(seg, bytes, NULL);

	assert_int_not_equal(at, 0);
	av_seg_free(seg, at, bytes);
	return at;
}

static const uint32_t sizes[] = {1, 2, 4, 8};

TEST_WITH(the_next_ring_of_its_size_is_where_one_ended, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(sizes); i++) {
		uint64_t ring;

		cq = av_cq_init(seg, sizes[i], 0, 1, 1000, NULL);
		assert_int_not_equal(cq, 0);
		ring = av_cq_at(seg, cq)->ring[0];
		av_cq_fini(seg, cq);
		assert_int_equal(atomic_load(&av_cq_at(seg, cq)->id), 0); /* no CQ is there */
		assert_true(next_ring(sizes[i]) == ring);
	}
}

TEST_WITH(a_ring_that_is_refused_takes_no_memory, set_up, tear_down)
{
	bool (*const alive)(uint32_t) = av_lock_owner_alive;

	cq = av_cq_init(seg, 16, 0, 1, 1000, NULL);
	assert_int_not_equal(cq, 0);
	for (uint64_t n = 1; n <= 9; n++)
		append(n);
	for (int err = EINVAL; err; err = err == EINVAL ? EBUSY : 0) {
		if (err == EBUSY)
			leave_behind(av_cq_at(seg, cq), 0);
		for (size_t i = 0; i < AV_ARRAY_SIZE(sizes); i++) {
			uint64_t ring = next_ring(sizes[i]);

			assert_int_equal(av_cq_resize(seg, cq, sizes[i], NULL), err);
			assert_true(next_ring(sizes[i]) == ring);
		}
	}
	atomic_store(&av_cq_at(seg, cq)->producer[0].lock.owner, 0);
	av_lock_owner_alive = alive;
	av_cq_fini(seg, cq);
}

TEST_WITH(not_while_the_former_ring_may_be_in_use, set_up, tear_down)
{
	bool (*const alive)(uint32_t) = av_lock_owner_alive;
	struct av_cq_shared *shared;

	cq = av_cq_init(seg, 4, 0, 1, 1000, NULL);
	shared = av_cq_at(seg, cq);
	assert_non_null(shared);
	for (uint32_t former = 0; former < 3; former++) {
		append(1);
		leave_behind(shared, former % 2);
		append(2);
		assert_int_equal(av_cq_resize(seg, cq, 8, NULL), EBUSY);
		atomic_store(&shared->producer[former % 2].lock.owner, 0);
		av_lock_owner_alive = alive;
		assert_int_equal(av_cq_resize(seg, cq, 8, NULL), 0);
		expect_next(1);
		expect_next(2);
	}
	av_cq_fini(seg, cq);
}

static struct av_lock *peers;
static unsigned int asked;

/* Who is asked for again and again goes on at last. */
static bool goes_on(uint32_t owner)
{
	if (++asked == ASKED)
		atomic_store(&peers->owner, 0);
	return true;
}

TEST_WITH(patience_waits_for_who_was_left_behind, set_up, tear_down)
{
	bool (*const alive)(uint32_t) = av_lock_owner_alive;
	struct av_cq_shared *shared;

	cq = av_cq_init(seg, 4, 0, 1, 1000, NULL);
	shared = av_cq_at(seg, cq);
	assert_non_null(shared);
	append(1);
	leave_behind(shared, 0);
	append(2);
	assert_int_equal(av_cq_resize_retry(seg, cq, 8, NULL), EBUSY); /* it stays there */
	peers = &shared->producer[0].lock;
	asked = 0;
	av_lock_owner_alive = goes_on;
	assert_int_equal(av_cq_resize_retry(seg, cq, 8, NULL), 0);
	assert_int_equal(asked, ASKED);
	av_lock_owner_alive = alive;
	expect_next(1);
	expect_next(2);
	av_cq_fini(seg, cq);
}

TEST_WITH(each_entry_of_the_former_ring_is_in_the_other, set_up, tear_down)
{
	bool (*const alive)(uint32_t) = av_lock_owner_alive;

	for (uint64_t held = 0; held <= 4; held++) {
		struct av_cq_shared *shared;

		cq = av_cq_init(seg, 4, 0, 1, 1000, NULL);
		shared = av_cq_at(seg, cq);
		assert_non_null(shared);
		append(9);
		expect_next(9);
		for (uint64_t n = 1; n <= held; n++)
			append(n);
		leave_behind(shared, 0);
		for (uint64_t n = held + 1; n <= 4; n++)
			append(n);
		for (uint64_t n = 1; n <= 4; n++)
			expect_next(n);
		assert_null(av_cq_peek(seg, shared));
		atomic_store(&shared->producer[0].lock.owner, 0);
		av_lock_owner_alive = alive;
		av_cq_fini(seg, cq);
	}
}

/* --- its pages --------------------------------------------------------------------- */

#define FITS  12, 23
#define NEVER 22, 23 /* blocks larger than a huge page */

/* Without rows that want huge pages, which a machine has or has not. */
static const struct {
	struct av_page_policy policy;
	uint64_t bytes;
	bool there;
} policies[] = {
	{{AV_ALLOC_ANON, FITS}, 4096, true},
	{{AV_ALLOC_ANON, NEVER}, 4096, true},
	{{AV_ALLOC_CONTIG, FITS}, 4096, true},
	{{AV_ALLOC_CONTIG, NEVER}, 4096, false},
	{{AV_ALLOC_CONTIG, 12, 12}, 2ul << 20, true},
	{{AV_ALLOC_CONTIG, NEVER}, 2ul << 20, false},
	{{AV_ALLOC_PREFER_CONTIG, FITS}, 4096, true},
	{{AV_ALLOC_PREFER_CONTIG, NEVER}, 4096, true},
	{{AV_ALLOC_PREFER_CONTIG, NEVER}, 2ul << 20, true},
	{{AV_ALLOC_ALL, NEVER}, 4096, true},
};

TEST_WITH(a_ring_fails_for_pages_that_must_be_and_cannot, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(policies); i++) {
		uint64_t at;

		errno = 0;
		at = av_ring_alloc(seg, policies[i].bytes, &policies[i].policy);
		if ((at != 0) != policies[i].there || errno != (at ? 0 : ENOMEM))
			fail_msg("row %zu: %llx, %d", i, (unsigned long long)at, errno);
		if (at)
			av_seg_free(seg, at, policies[i].bytes);
	}
}

static const struct {
	struct av_page_policy policy;
	uint64_t bytes;
	bool own; /* pages that nothing else is on */
} rings[] = {
	{{AV_ALLOC_ANON, FITS}, AV_HUGE_PAGE_BYTES, false},
	{{AV_ALLOC_CONTIG, FITS}, 128, false},
	{{AV_ALLOC_CONTIG, FITS}, AV_HUGE_PAGE_BYTES - 128, false},
	{{AV_ALLOC_CONTIG, FITS}, AV_HUGE_PAGE_BYTES, true},
	{{AV_ALLOC_CONTIG, 12, 12}, 128, false},
	{{AV_ALLOC_CONTIG, 12, 12}, AV_HUGE_PAGE_BYTES, true},
	{{AV_ALLOC_PREFER_CONTIG, FITS}, AV_HUGE_PAGE_BYTES, true},
	{{AV_ALLOC_PREFER_CONTIG, NEVER}, AV_HUGE_PAGE_BYTES, false},
	{{AV_ALLOC_ALL, FITS}, AV_HUGE_PAGE_BYTES, true},
};

TEST_WITH(only_large_rings_have_pages_of_their_own, set_up, tear_down)
{
	static const struct av_page_policy preferred = {AV_ALLOC_PREFER_HUGE, FITS};
	uint64_t at = av_ring_alloc(seg, 4096, &preferred);

	assert_int_not_equal(at, 0); /* on machines without huge pages as well */
	av_seg_free(seg, at, 4096);
	at = av_ring_alloc(seg, AV_HUGE_PAGE_BYTES, NULL);
	assert_int_not_equal(at, 0);
	assert_false(av_pages_owns(seg, at));
	av_seg_free(seg, at, AV_HUGE_PAGE_BYTES);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rings); i++) {
		at = av_ring_alloc(seg, rings[i].bytes, &rings[i].policy);
		if (!at || av_pages_owns(seg, at) != rings[i].own)
			fail_msg("row %zu", i);
		av_seg_free(seg, at, rings[i].bytes);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
