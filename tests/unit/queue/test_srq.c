/* SPDX-License-Identifier: MIT */
/*
 * Taking from a shared receive queue, putting back, and what a death leaves behind: each request is
 * taken once, by whoever comes, and none is lost.
 */
#include "base/compiler.h"
#include "base/limits.h"
#include "lib/unit.h"
#include "queue/rq.h"
#include "unit/queue/srq_fixture.h"

#define DEAD 7u /* identity of a process that is dead */

/* Requests 1 to @count. */
static void post(unsigned int count)
{
	for (unsigned int i = 1; i <= count; i++)
		assert_int_equal(post_one(i), 0);
}

static uint64_t take_and_free(uint32_t qpn)
{
	uint32_t receiving;
	uint64_t wr_id = take(qpn, &receiving);

	if (wr_id)
		av_rq_freed(seg, rq, receiving - 1);
	return wr_id;
}

static struct av_rq_wqe *at(uint32_t place)
{
	return (struct av_rq_wqe *)av_rq_wqe(seg, rq, place);
}

/* All that is left are these, each once, in any order. @bits: bit i for request i */
static void expect_left(uint64_t bits)
{
	uint64_t wr_id, seen = 0;

	while ((wr_id = take_and_free(B)) != 0) {
		assert_int_equal(seen & 1ull << wr_id, 0);
		seen |= 1ull << wr_id;
	}
	assert_int_equal(seen, bits);
}

/* --- one after the other ----------------------------------------------------------- */

TEST_WITH(requests_are_taken_in_order, set_up, tear_down)
{
	for (unsigned int round = 0; round < 5; round++) {
		uint32_t receiving;

		post(CAPACITY);
		for (unsigned int i = 1; i <= CAPACITY; i++) {
			assert_int_equal(take(A, &receiving), i);
			assert_int_equal(at(receiving - 1)->wr_id, i);
			av_rq_freed(seg, rq, receiving - 1);
		}
		assert_int_equal(take(A, &receiving), 0);
		assert_int_equal(receiving, 0);
	}
}

/* Nobody has a request whose slot is free. */
TEST_WITH(a_request_belongs_to_who_has_taken_it, set_up, tear_down)
{
	uint32_t receiving, place;

	post(1);
	assert_int_equal(take(A, &receiving), 1);
	place = receiving - 1;
	assert_int_equal((uint32_t)atomic_load(&at(place)->taker), A);
	av_rq_freed(seg, rq, place);
	assert_true(atomic_load(&at(place)->taker) == 0);
}

/* Twice the request's number: even, and the same again as late as possible. */
TEST_WITH(each_request_is_queued_with_its_mark, set_up, tear_down)
{
	for (uint32_t number = 0; number < 3 * CAPACITY; number++) {
		uint32_t receiving;
		uint64_t taker;

		post(1);
		assert_int_equal(take(A, &receiving), 1);
		taker = atomic_load(&at(receiving - 1)->taker);
		assert_int_equal(taker >> 32, 2 * number);
		av_rq_untake(seg, rq, A, receiving - 1);
		assert_int_equal(atomic_load(&at(receiving - 1)->taker) >> 32 & 1, 1);
		assert_int_equal(av_rq_ready(rq), 1);
		assert_int_equal(take_and_free(B), 1);
	}
}

TEST_WITH(what_is_put_back_is_next, set_up, tear_down)
{
	uint32_t first, second;

	post(CAPACITY);
	assert_int_equal(take(A, &first), 1);
	assert_int_equal(take(B, &second), 2);
	av_rq_untake(seg, rq, A, first - 1);
	assert_int_equal(av_rq_ready(rq), CAPACITY - 1);
	assert_int_equal(take(A, &first), 1);
	av_rq_untake(seg, rq, A, first - 1);
	av_rq_untake(seg, rq, B, second - 1);
	assert_int_equal(take(A, &first), 2);
	expect_left(0x1fa);
	av_rq_freed(seg, rq, first - 1);
}

/* Who drops a completion may die between the mark and @dropped. */
TEST_WITH(a_dropped_request_of_a_dead_taker_is_freed, set_up, tear_down)
{
	uint32_t receiving;

	post(CAPACITY);
	assert_int_equal(take(A, &receiving), 1);
	av_rq_drop(seg, rq, receiving - 1);
	atomic_store(&rq->dropped, 0);
	assert_int_equal(post_one(9), ENOMEM);
	av_rq_repair(seg, rq, A, receiving - 1, false);
	assert_int_equal(post_one(9), 0);
	expect_left(0x3fc);
}

/* Somebody else's request is not put back. */
TEST_WITH(only_its_holder_puts_it_back, set_up, tear_down)
{
	uint32_t receiving;

	post(2);
	assert_int_equal(take(A, &receiving), 1);
	av_rq_untake(seg, rq, B, receiving - 1);
	expect_left(1 << 2);
}

/*
 * All requests are before @reached, with one that was taken out of turn by a taker that was slow,
 * and is put back: no room is left for its entry before the others.
 */
static void compact_from(uint32_t number)
{
	atomic_store(&rq->head, number);
	atomic_store(&rq->tail, number);
	atomic_store(&rq->freed, number);
	rq->reached = number;
	for (uint32_t slow = 0; slow < CAPACITY; slow++) {
		uint32_t place[CAPACITY];
		uint64_t word;

		post(CAPACITY);
		for (uint32_t i = 0; i < CAPACITY; i++) {
			assert_int_equal(take(A, &place[i]), i + 1);
			place[i]--;
		}
		for (uint32_t i = CAPACITY; i-- > 0;)
			av_rq_untake(seg, rq, A, place[i]);
		for (unsigned int again = 0; again < 3 * CAPACITY; again++) {
			word = atomic_load(&at(place[slow])->taker);
			atomic_store(&at(place[slow])->taker, word >> 32 << 32 | B);
			av_rq_untake(seg, rq, B, place[slow]);
			assert_int_equal(atomic_load(&rq->head) >> 32 & 1, 0);
			assert_true(rq->reached - av_rq_taken(rq) <= CAPACITY);
		}
		assert_true(atomic_load(&rq->tail) - av_rq_taken(rq) <= 2 * CAPACITY);
		expect_left(0x1fe);
	}
}

TEST_WITH(the_order_is_compacted_in_time, set_up, tear_down)
{
	static const uint32_t numbers[] = {0, 1000, 1u << 31, UINT32_MAX - CAPACITY};

	for (size_t i = 0; i < AV_ARRAY_SIZE(numbers); i++) {
		tear_down(state);
		set_up(state);
		compact_from(numbers[i]);
	}
}

/* --- nonsense ------------------------------------------------------------------------ */

#define LAST (AV_SEG_BYTES - AV_CACHE_LINE) /* of the segment, with eight entries */
#define MOST (AV_RQ_ORDER_ENTRIES(2 * AV_MAX_SRQ_WR) - 1)

static const struct {
	uint64_t order;
	uint32_t mask;
	bool there;
} orders[] = {
	{LAST, 0, true},
	{LAST, 7, true},
	{LAST, 8, false},
	{AV_SEG_BYTES, 0, false},
	{FAKE_HEAP_AT, MOST, true},
	{FAKE_HEAP_AT, MOST + 1, false},
	{FAKE_HEAP_AT, UINT32_MAX, false},
};

/* Is a request published, which needs its entry in the order? Leaves no request in the queue. */
static bool is_published(void)
{
	const uint32_t *stack = av_seg_at(seg, rq->stack, rq->places * sizeof(*stack));
	uint32_t place;
	bool published;

	assert_non_null(stack);
	place = stack[rq->stacked - 1];
	assert_int_equal(post_one(1), 0);
	published = atomic_load(&at(place)->taker) != 0;
	av_rq_freed(seg, rq, place);
	atomic_store(&rq->head, atomic_load(&rq->tail));
	return published;
}

TEST_WITH(the_order_is_wholly_in_the_segment, set_up, tear_down)
{
	const uint64_t order = rq->order;
	const uint32_t mask = rq->order_mask;

	for (size_t i = 0; i < AV_ARRAY_SIZE(orders); i++) {
		rq->order = orders[i].order;
		rq->order_mask = orders[i].mask;
		if (is_published() != orders[i].there)
			fail_msg("row %zu", i);
	}
	rq->order = order;
	rq->order_mask = mask;
}

/* Nothing is put back then, and nothing is moved. */
TEST_WITH(an_unsound_order_leads_nowhere, set_up, tear_down)
{
	uint32_t receiving;

	post(2);
	assert_int_equal(take(A, &receiving), 1);
	av_rq_untake(seg, rq, A, UINT32_MAX / 2);
	av_rq_repair(seg, rq, A, UINT32_MAX / 2, false);
	rq->order = AV_SEG_BYTES;
	av_rq_untake(seg, rq, A, receiving - 1);
	assert_int_equal(take(B, &receiving), 0);
	assert_int_equal(av_rq_resize(seg, rq, 2 * CAPACITY), 0);
	assert_int_equal(post_one(3), 0);
	assert_int_equal(atomic_load(&rq->tail), 3);
}

/* --- deaths -------------------------------------------------------------------------- */

enum death {
	BEFORE_CLAIM,	/* the request is known, and may become anybody's */
	BEHIND_CLAIM,	/* it is taken, but the queue still begins with it */
	BEHIND_TAKE,	/* it has left the queue */
	WHILE_RETURNED, /* it is nobody's any more, and not in the queue yet */
	ENTRY_WRITTEN,	/* and it has its entry, with which the queue does not begin yet */
	BEHIND_RETURN,
	TAKEN_BY_OTHER, /* another one was faster */
	BEHIND_POLL,	/* its completion was polled, and it was posted anew */
	DEATHS,
};

/* Leave what the holder of A leaves if it dies there. Return: its @receiving */
static uint32_t die(enum death where)
{
	uint64_t head = atomic_load(&rq->head);
	uint64_t taker, *order;
	uint32_t receiving;

	assert_int_not_equal(take(where == TAKEN_BY_OTHER ? B : A, &receiving), 0);
	taker = atomic_load(&at(receiving - 1)->taker);
	switch (where) {
	case BEFORE_CLAIM:
		atomic_store(&at(receiving - 1)->taker, taker | UINT32_MAX);
		atomic_store(&rq->head, head);
		break;
	case BEHIND_CLAIM:
		atomic_store(&rq->head, head);
		break;
	case WHILE_RETURNED:
		/* nobody knows this mark */
		atomic_store(&at(receiving - 1)->taker, (taker | UINT32_MAX) + (1ull << 32));
		break;
	case ENTRY_WRITTEN:
		taker = (taker | UINT32_MAX) + (1ull << 32);
		atomic_store(&at(receiving - 1)->taker, taker);
		order = av_seg_at(seg, rq->order, av_rq_order_bytes(rq->places));
		assert_non_null(order);
		order[(av_rq_taken(rq) - 1) & rq->order_mask] = taker >> 32 << 32 | (receiving - 1);
		break;
	case BEHIND_RETURN:
		av_rq_untake(seg, rq, A, receiving - 1);
		break;
	case BEHIND_POLL:
		av_rq_freed(seg, rq, receiving - 1);
		assert_int_equal(post_one(1), 0);
		break;
	default:
		break;
	}
	return receiving;
}

/* In a queue that has been used before, full or not. */
TEST_WITH(no_death_loses_a_request, set_up, tear_down)
{
	for (enum death where = BEFORE_CLAIM; where < DEATHS; where++)
		for (unsigned int count = 1; count <= CAPACITY; count++) {
			uint64_t all = (2ull << count) - 2;
			uint32_t receiving;
			uint64_t head;

			post(3);
			expect_left(0xe);
			post(count);
			receiving = die(where);
			head = atomic_load(&rq->head);
			av_rq_repair(seg, rq, A, receiving - 1, false);
			/* What is in the queue, or another's, stays as it is. */
			if (where == BEFORE_CLAIM || where >= BEHIND_RETURN)
				assert_true(atomic_load(&rq->head) == head);
			expect_left(where == TAKEN_BY_OTHER ? all & ~2ull : all);
			if (where == TAKEN_BY_OTHER)
				av_rq_freed(seg, rq, receiving - 1);
			assert_int_equal(atomic_load(&rq->tail), atomic_load(&rq->freed));
		}
}

TEST_WITH(what_is_completed_is_not_put_back, set_up, tear_down)
{
	uint32_t receiving;

	post(2);
	assert_int_equal(take(A, &receiving), 1);
	av_rq_repair(seg, rq, A, receiving - 1, true);
	expect_left(1 << 2);
}

static bool is_alive(uint32_t owner)
{
	return owner != DEAD;
}

/*
 * An odd change, which takers wait for, and the lock of who made it. A taker notices the death, or
 * whoever changes the order next.
 */
TEST_WITH(who_dies_changing_the_order_keeps_nobody_waiting, set_up, tear_down)
{
	bool (*const alive)(uint32_t) = av_lock_owner_alive;
	uint32_t receiving;

	post(2);
	av_lock_owner_alive = is_alive;
	for (int by_taker = 1; by_taker >= 0; by_taker--) {
		atomic_fetch_add(&rq->head, 1ull << 32);
		atomic_store(&rq->take_lock.owner, DEAD);
		if (by_taker)
			assert_int_equal(take(A, &receiving), 1);
		else
			assert_int_equal(av_rq_resize(seg, rq, CAPACITY), 0);
		assert_int_equal(atomic_load(&rq->head) >> 32 & 1, 0);
		assert_int_equal(atomic_load(&rq->take_lock.owner), 0);
	}
	av_lock_owner_alive = alive;
	av_rq_freed(seg, rq, receiving - 1);
	expect_left(1 << 2);
}

/* Whoever waits for one that lives gives up at last, and has changed nothing. */
TEST_WITH(who_lives_and_changes_the_order_is_waited_for, set_up, tear_down)
{
	bool (*const alive)(uint32_t) = av_lock_owner_alive;
	uint32_t receiving, mine;
	uint64_t taker;

	post(2);
	assert_int_equal(take(A, &mine), 1);
	taker = atomic_load(&at(mine - 1)->taker);
	av_lock_owner_alive = is_alive;
	atomic_fetch_add(&rq->head, 1ull << 32);
	atomic_store(&rq->take_lock.owner, DEAD + 1);
	assert_int_equal(take(B, &receiving), 0);
	seg->own = false; /* its peers do not wait without end: */
	atomic_store(&seg->in_vain_until_ns, UINT64_MAX);
	av_rq_untake(seg, rq, A, mine - 1);
	av_rq_repair(seg, rq, A, mine - 1, false);
	seg->own = true;
	assert_true(atomic_load(&at(mine - 1)->taker) == taker);
	assert_int_equal(atomic_load(&rq->take_lock.owner), DEAD + 1);
	assert_int_equal(atomic_load(&rq->head) >> 32 & 1, 1);
	atomic_store(&rq->take_lock.owner, 0);
	atomic_fetch_add(&rq->head, 1ull << 32);
	av_lock_owner_alive = alive;
	expect_left(1 << 2);
}

TEST_WITH(no_more_go_back_than_there_are, set_up, tear_down)
{
	uint32_t places = rq->places, free_places = rq->stacked, freed = atomic_load(&rq->freed);

	assert_int_equal(free_places, places);
	av_rq_freed(seg, rq, 0); /* a second time */
	post(1);
	av_rq_freed(seg, rq, places); /* that is none */
	assert_int_equal(rq->stacked, places - 1);
	assert_int_equal(atomic_load(&rq->freed), freed);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
