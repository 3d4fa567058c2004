/* SPDX-License-Identifier: MIT */
/* A queue pair's own receive queue; and the checks, slots and sizes that a shared one has, too. */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "observe/check.h"
#include "queue/rq.h"
#include "unit/memory/heap_fixture.h"

#define QPN	 0x123u
#define CAPACITY 4u
#define MAX_SGE	 3u

static struct av_rq_shared *rq;

static void make(uint32_t id, uint32_t max_sge, uint32_t inline_bytes)
{
	const struct av_rq_request request = {
		.capacity = CAPACITY, .max_sge = max_sge, .inline_bytes = inline_bytes, .id = id};
	uint32_t index = av_rq_init(seg, &request);

	assert_int_not_equal(index, 0);
	rq = av_rq_at(seg, index);
}

static int post(uint64_t wr_id, struct ibv_sge *list, int count)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = list, .num_sge = count}, *bad = NULL;
	int err = av_rq_post(seg, rq, NULL, &wr, &bad);

	assert_ptr_equal(bad, err ? &wr : NULL);
	return err;
}

/* Return: the place of the request, which must be this one */
static uint32_t take(uint64_t wr_id)
{
	uint32_t receiving;
	const struct av_rq_wqe *wqe = av_rq_take(seg, rq, QPN, &receiving);

	assert_non_null(wqe);
	assert_int_equal(wqe->wr_id, wr_id);
	assert_ptr_equal(av_rq_wqe(seg, rq, receiving - 1), wqe);
	return receiving - 1;
}

static void nothing_is_left(void)
{
	uint32_t receiving;

	assert_null(av_rq_take(seg, rq, QPN, &receiving));
}

TEST_WITH(requests_are_taken_in_order_up_to_the_capacity, set_up, tear_down)
{
	uint64_t in = 0, out = 0;

	make(0, MAX_SGE, 0);
	for (unsigned int round = 0; round < 5; round++) {
		while (in - out < CAPACITY)
			assert_int_equal(post(++in, NULL, 0), 0);
		assert_int_equal(post(in + 1, NULL, 0), ENOMEM);
		for (unsigned int i = 0; i <= round % CAPACITY; i++) {
			assert_int_equal(take(out + 1), out);
			out++;
			assert_int_equal(post(in + 1, NULL, 0), ENOMEM); /* before it is polled */
			av_rq_freed(seg, rq, (uint32_t)out - 1);
			assert_int_equal(post(++in, NULL, 0), 0);
		}
	}
	while (out < in)
		(void)take(++out);
	nothing_is_left();
	av_rq_reset(rq);
	assert_int_equal(post(1, NULL, 0), 0);
	assert_int_equal(take(1), 0);
	nothing_is_left();
	av_rq_fini(seg, rq->index);
}

TEST_WITH(what_is_put_back_is_next, set_up, tear_down)
{
	make(0, MAX_SGE, 0);
	for (uint64_t i = 1; i <= 2; i++)
		assert_int_equal(post(i, NULL, 0), 0);
	av_rq_untake(seg, rq, QPN, take(1));
	(void)take(1);
	(void)take(2);
	nothing_is_left();
	av_rq_fini(seg, rq->index);
}

TEST_WITH(a_queue_is_empty_after_a_reset, set_up, tear_down)
{
	make(0, MAX_SGE, 0);
	for (unsigned int taken = 0; taken <= CAPACITY; taken++) {
		for (uint64_t n = 1; n <= CAPACITY; n++)
			assert_int_equal(post(n, NULL, 0), 0);
		for (uint64_t n = 1; n <= taken; n++)
			(void)take(n);
		atomic_store(&rq->waiting, 1);
		av_rq_reset(rq);
		assert_int_equal(atomic_load(&rq->waiting), 0);
		nothing_is_left();
	}
	av_rq_fini(seg, rq->index);
}

/* --- who has taken a request dies -------------------------------------------------- */

static const struct {
	bool newest, in_cq, freed; /* no other was taken since; completed; polled */
	uint64_t next;
} deaths[] = {
	{true, false, false, 1}, {true, true, false, 2},   {true, false, true, 2},
	{true, true, true, 2},	 {false, false, false, 3},
};

static void die(size_t i, bool used_before)
{
	uint32_t place;

	make(0, MAX_SGE, 0);
	for (uint64_t n = 1; used_before && n <= 3; n++) {
		assert_int_equal(post(n, NULL, 0), 0);
		av_rq_freed(seg, rq, take(n));
	}
	for (uint64_t n = 1; n <= 3; n++)
		assert_int_equal(post(n, NULL, 0), 0);
	place = take(1);
	if (!deaths[i].newest)
		(void)take(2);
	if (deaths[i].freed)
		av_rq_freed(seg, rq, place);
	av_rq_repair(seg, rq, QPN, place, deaths[i].in_cq);
	(void)take(deaths[i].next);
	av_rq_fini(seg, rq->index);
}

TEST_WITH(what_was_not_completed_is_put_back, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(deaths); i++) {
		die(i, false);
		die(i, true);
	}
}

/* --- slots ------------------------------------------------------------------------- */

static const struct {
	int count;
	int err;
} lists[] = {{0, 0}, {1, 0}, {MAX_SGE, 0}, {MAX_SGE + 1, EINVAL}, {-1, EINVAL}};

TEST_WITH(elements_are_checked_and_copied, set_up, tear_down)
{
	struct ibv_sge list[MAX_SGE + 1] = {{1000, 10, 1}, {2000, 0, 2}, {3000, 30, 3}};

	for (uint32_t id = 0; id < 2; id++)
		for (size_t i = 0; i < AV_ARRAY_SIZE(lists); i++) {
			const struct av_rq_wqe *wqe;
			uint64_t sum = 0;

			make(id, MAX_SGE, 0);
			assert_int_equal(post(1, list, lists[i].count), lists[i].err);
			if (lists[i].err) {
				nothing_is_left();
				continue;
			}
			wqe = av_rq_wqe(seg, rq, take(1));
			assert_int_equal(wqe->count, lists[i].count);
			for (int n = 0; n < lists[i].count; n++)
				sum += list[n].length;
			assert_int_equal(wqe->bytes, sum);
			assert_memory_equal(wqe->sge, list,
					    (size_t)lists[i].count * sizeof(list[0]));
			av_rq_fini(seg, rq->index);
		}
}

static const struct {
	uint32_t max_sge, inline_bytes;
} rooms[] = {{1, 0}, {0, 1}, {1, 32}, {1, 33}, {2, 512}, {MAX_SGE, 100}, {AV_MAX_SGE, 1}};

/* Requests and payloads lie beside each other: none overwrites another one. */
TEST_WITH(each_slot_has_room_for_its_payload, set_up, tear_down)
{
	struct ibv_sge list[AV_MAX_SGE] = {{1000, 10, 1}};

	for (uint32_t id = 0; id < 2; id++)
		for (size_t i = 0; i < AV_ARRAY_SIZE(rooms); i++) {
			uint32_t bytes = rooms[i].inline_bytes;

			make(id, rooms[i].max_sge, bytes);
			for (uint64_t n = 1; n <= CAPACITY; n++)
				assert_int_equal(post(n, list, (int)rooms[i].max_sge), 0);
			for (uint32_t place = 0; place < CAPACITY; place++) {
				uint8_t *payload = av_rq_payload(seg, rq, place);

				assert_int_equal(payload != NULL, bytes != 0);
				assert_int_equal((uintptr_t)payload % 32, 0);
				if (payload)
					memset(payload, (int)place, bytes);
			}
			for (uint64_t n = 1; n <= CAPACITY; n++) {
				uint32_t place = take(n);
				const uint8_t *payload = av_rq_payload(seg, rq, place);

				assert_memory_equal(av_rq_wqe(seg, rq, place)->sge, list,
						    rooms[i].max_sge * sizeof(list[0]));
				for (uint32_t at = 0; at < bytes; at++)
					assert_int_equal(payload[at], place);
			}
			av_rq_fini(seg, rq->index);
		}
}

/* The number of elements stands in a slot, and how many there may be in the queue. */
static const struct {
	uint32_t count, max_sge;
	bool there;
} counts[] = {
	{0, 1, true},
	{1, 1, true},
	{2, 1, false},
	{AV_MAX_SGE, AV_MAX_SGE, true},
	{AV_MAX_SGE + 1, UINT32_MAX, false},
	{UINT32_MAX, UINT32_MAX, false},
};

TEST_WITH(a_request_has_no_more_elements_than_there_may_be, set_up, tear_down)
{
	for (uint32_t id = 0; id < 2; id++)
		for (size_t i = 0; i < AV_ARRAY_SIZE(counts); i++) {
			make(id, AV_MAX_SGE, 0);
			assert_int_equal(post(1, NULL, 0), 0);
			av_rq_slot(seg, rq, 0)->count = counts[i].count;
			rq->max_sge = counts[i].max_sge;
			if ((av_rq_wqe(seg, rq, 0) != NULL) != counts[i].there)
				fail_msg("row %zu", i);
			av_rq_fini(seg, rq->index);
		}
}

/* The words by which a request finds its slot are a peer's nonsense. */
TEST_WITH(there_is_no_request_in_an_unsound_ring, set_up, tear_down)
{
	for (uint32_t id = 0; id < 2; id++) {
		uint64_t ring;

		make(id, MAX_SGE, 32);
		ring = rq->ring;
		rq->ring = AV_SEG_BYTES;
		assert_null(av_rq_wqe(seg, rq, 0));
		assert_null(av_rq_payload(seg, rq, 0));
		assert_int_equal(post(1, NULL, 0), 0); /* and goes nowhere */
		nothing_is_left();
		rq->ring = ring;
		av_rq_fini(seg, rq->index);
	}
}

static const struct {
	uint32_t stacked;
	bool stack, taken;
} stacks[] = {
	{CAPACITY, true, true},	     {1, true, true},		{0, true, false},
	{CAPACITY + 1, true, false}, {UINT32_MAX, true, false}, {CAPACITY, false, false},
};

TEST_WITH(no_place_is_taken_from_an_unsound_stack, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(stacks); i++) {
		uint64_t stack;

		make(1, MAX_SGE, 0);
		stack = rq->stack;
		rq->stacked = stacks[i].stacked;
		rq->stack = stacks[i].stack ? stack : AV_SEG_BYTES;
		assert_int_equal(post(1, NULL, 0), 0);
		if (rq->stacked != stacks[i].stacked - stacks[i].taken)
			fail_msg("row %zu: %u", i, rq->stacked);
		rq->stack = stack;
		av_rq_fini(seg, rq->index);
	}
}

static const struct {
	int count;
	bool list; /* there is one */
	enum av_check check;
	uint64_t wanted;
} reasons[] = {
	{2, false, AV_CHECK_POST_RECV_LIST, 2},
	{MAX_SGE + 1, true, AV_CHECK_POST_RECV_SGE, MAX_SGE + 1},
	{-1, true, AV_CHECK_POST_RECV_SGE, UINT64_MAX},
};

TEST_WITH(each_refusal_has_its_reason, set_up, tear_down)
{
	struct ibv_sge list[MAX_SGE + 1] = {{1000, 10, 1}};
	const struct av_flight_record *why = av_diag_pending();

	make(0, MAX_SGE, 0);
	for (size_t i = 0; i < AV_ARRAY_SIZE(reasons); i++) {
		assert_int_equal(post(1, reasons[i].list ? list : NULL, reasons[i].count), EINVAL);
		assert_int_equal(why->error, EINVAL);
		assert_int_equal(why->check, reasons[i].check);
		assert_int_equal(why->wanted, reasons[i].wanted);
	}
	av_rq_fini(seg, rq->index);
}

/* --- another size of a shared queue ------------------------------------------------ */

static const struct {
	uint32_t posted, limit, capacity;
	int err;
} sizes[] = {
	{0, 0, 1, 0},	   {4, 0, 4, 0}, {4, 0, 3, EINVAL}, {3, 0, 3, 0}, {1, 1, 1, 0},
	{2, 2, 1, EINVAL}, {3, 2, 3, 0}, {4, 4, 3, EINVAL}, {4, 0, 5, 0}, {4, 4, 100, 0},
};

TEST_WITH(a_shared_queue_shrinks_to_what_is_in_use, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(sizes); i++) {
		uint32_t capacity = sizes[i].err ? CAPACITY : sizes[i].capacity;
		uint64_t in = 0;

		make(1, MAX_SGE, 0);
		while (in < sizes[i].posted)
			assert_int_equal(post(++in, NULL, 0), 0);
		av_srq_limit_set(seg, rq, sizes[i].limit);
		if (av_rq_resize(seg, rq, sizes[i].capacity) != sizes[i].err)
			fail_msg("row %zu", i);
		while (in < capacity)
			assert_int_equal(post(++in, NULL, 0), 0);
		assert_int_equal(post(in + 1, NULL, 0), ENOMEM);
		for (uint64_t out = 1; out <= in; out++)
			(void)take(out);
		nothing_is_left();
		av_rq_fini(seg, rq->index);
	}
}

/* From each capacity on, by doubling and by more. */
static const struct {
	uint32_t first, then, places; /* slots that there are then */
} grown[] = {{1, 2, 2}, {1, 3, 4}, {1, 64, 64}, {2, 4, 4}, {4, 5, 8}, {4, 8, 8}, {4, 100, 128}};

static const struct av_rq_wqe *slot_of_run(uint32_t first, uint32_t place)
{
	uint64_t from = rq->ring;
	uint32_t begin = 0;

	for (unsigned int run = 0; place >= first << run; run++) {
		from = atomic_load(&rq->more[run]);
		begin = first << run;
	}
	return av_seg_at(seg, from, 0) ? (const void *)((uint8_t *)seg->head + from +
							(uint64_t)(place - begin) * rq->stride)
				       : NULL;
}

TEST_WITH(each_run_of_slots_follows_those_before_it, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(grown); i++) {
		const struct av_rq_request request = {
			.capacity = grown[i].first, .max_sge = MAX_SGE, .id = 1};
		uint32_t index = av_rq_init(seg, &request);

		rq = av_rq_at(seg, index);
		assert_true(index && rq);
		assert_int_equal(av_rq_resize(seg, rq, grown[i].then), 0);
		assert_int_equal(rq->places, grown[i].places);
		for (uint32_t place = 0; place < rq->places; place++) {
			assert_non_null(av_rq_slot(seg, rq, place));
			assert_ptr_equal(av_rq_slot(seg, rq, place),
					 slot_of_run(grown[i].first, place));
		}
		av_rq_fini(seg, index);
	}
}

/* What the place asks for is behind the last run that there can be. */
TEST_WITH(there_are_no_more_runs_than_a_queue_has_room_for, set_up, tear_down)
{
	make(1, MAX_SGE, 0);
	rq->mask = 0;
	rq->stride = 4096;
	for (unsigned int i = 0; i < AV_RQ_RUNS; i++)
		atomic_store(&rq->more[i], AV_SEG_BYTES / 2);
	assert_non_null(av_rq_slot(seg, rq, (1u << AV_RQ_RUNS) - 1));
	for (unsigned int run = AV_RQ_RUNS; run < 32; run++)
		for (uint32_t place = 1u << run; place >> run == 1; place += 1u << (run - 3))
			assert_null(av_rq_slot(seg, rq, place));
	atomic_store(&rq->id, 0);
}

/* The requests that there have been count for nothing. */
TEST_WITH(a_queue_that_was_used_shrinks_like_a_new_one, set_up, tear_down)
{
	make(1, MAX_SGE, 0);
	for (uint64_t n = 1; n <= 3 * CAPACITY; n++) {
		assert_int_equal(post(n, NULL, 0), 0);
		av_rq_freed(seg, rq, take(n));
	}
	assert_int_equal(post(1, NULL, 0), 0);
	assert_int_equal(av_rq_resize(seg, rq, 1), 0);
	assert_int_equal(post(2, NULL, 0), ENOMEM);
	av_rq_fini(seg, rq->index);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
