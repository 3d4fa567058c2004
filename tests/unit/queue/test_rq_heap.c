/* SPDX-License-Identifier: MIT */
/* Receive queues in a segment whose memory does not suffice: they are made wholly or not at all. */
#include <errno.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "queue/rq.h"
#include "segment/pages.h"
#include "unit/memory/heap_fixture.h"

#define CAPACITY 32u
#define STRIDE	 32u /* of slots without elements */
#define ID	 7u

/* What a shared queue of so many slots, or so many more, has allocated. */
enum part { RING, ORDER, STACK, PARTS };

static const uint64_t bytes[PARTS] = {CAPACITY * STRIDE, 2 * CAPACITY * 8, CAPACITY * 4},
		      more_bytes[PARTS] = {CAPACITY * STRIDE, 4 * CAPACITY * 8, 2 * CAPACITY * 4};

/* From then on only the blocks are left that the test gives back. */
static void use_up(void)
{
	for (uint64_t size = FAKE_HEAP_BYTES / 2; size >= AV_CACHE_LINE; size /= 2)
		while (av_seg_alloc(seg, size))
			;
}

/* Leave these parts only, and two smaller blocks. @parts: bit i for part i */
static void leave(const uint64_t *sizes, unsigned int parts)
{
	uint64_t at[PARTS], small[] = {av_seg_alloc(seg, 64), av_seg_alloc(seg, 64)};

	for (int i = 0; i < PARTS; i++) {
		at[i] = av_seg_alloc(seg, sizes[i]);
		assert_int_not_equal(at[i], 0);
	}
	use_up();
	for (int i = 0; i < PARTS; i++)
		if (parts >> i & 1)
			av_seg_free(seg, at[i], sizes[i]);
	for (size_t i = 0; i < AV_ARRAY_SIZE(small); i++)
		av_seg_free(seg, small[i], 64);
}

/* Each is there once. */
static void expect_left(const uint64_t *sizes, unsigned int parts)
{
	for (int i = 0; i < PARTS; i++) {
		assert_int_equal(av_seg_alloc(seg, sizes[i]) != 0, parts >> i & 1);
		assert_int_equal(av_seg_alloc(seg, sizes[i]), 0);
	}
}

static uint32_t make(uint32_t id)
{
	const struct av_rq_request request = {.capacity = CAPACITY, .id = id};

	return av_rq_init(seg, &request);
}

static int post(struct av_rq_shared *rq)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;

	return av_rq_post(seg, rq, NULL, &wr, &bad);
}

#define ALL ((1u << PARTS) - 1)

TEST_WITH(a_queue_is_made_of_all_its_parts, set_up, tear_down)
{
	for (unsigned int parts = 0; parts <= ALL; parts++) {
		uint32_t rq;

		tear_down(state);
		set_up(state);
		av_rq_fini(seg, make(0)); /* now there is a table of queues */
		leave(bytes, parts);
		errno = 0;
		rq = make(ID);
		if ((rq != 0) != (parts == ALL) || (!rq && errno != ENOMEM))
			fail_msg("parts %#x: %u, errno %d", parts, rq, errno);
		if (rq)
			av_rq_fini(seg, rq);
		expect_left(bytes, parts);
	}
}

/* What has become longer is kept for the next time, and goes with the queue. */
TEST_WITH(a_queue_grows_wholly_or_not, set_up, tear_down)
{
	for (unsigned int parts = 0; parts <= ALL; parts++) {
		uint32_t index, capacity = parts == ALL ? 2 * CAPACITY : CAPACITY;
		struct av_rq_shared *rq;

		tear_down(state);
		set_up(state);
		index = make(ID);
		rq = av_rq_at(seg, index);
		assert_true(index && rq);
		leave(more_bytes, parts);
		assert_int_equal(av_rq_resize(seg, rq, CAPACITY), 0); /* that needs nothing */
		if (av_rq_resize(seg, rq, 2 * CAPACITY) != (parts == ALL ? 0 : ENOMEM))
			fail_msg("parts %#x", parts);
		assert_int_equal(rq->places, capacity);
		/* What is behind the slots is none yet, though there may be memory. */
		assert_int_equal(post(rq), 0);
		av_rq_freed(seg, rq, capacity);
		assert_int_equal(rq->stacked, capacity - 1);
		for (uint32_t i = 1; i < capacity; i++)
			assert_int_equal(post(rq), 0);
		assert_int_equal(post(rq), ENOMEM);
		av_rq_fini(seg, index);
		/* Those of the queue, and those that it grew by. */
		assert_int_not_equal(av_seg_alloc(seg, bytes[RING]), 0);
		for (int i = parts & 1 << RING ? 0 : 1; i < PARTS; i++)
			assert_int_equal(av_seg_alloc(seg, more_bytes[i]) != 0, parts >> i & 1);
		for (int i = 0; i < PARTS; i++)
			assert_int_equal(av_seg_alloc(seg, more_bytes[i]), 0);
	}
}

TEST_WITH(none_is_made_when_the_table_is_full, set_up, tear_down)
{
	for (unsigned int n = 0; av_slab_alloc(seg, AV_SLAB_RQ, AV_MAX_QP + AV_MAX_SRQ); n++)
		assert_true(n < AV_MAX_QP + AV_MAX_SRQ);
	for (uint32_t id = 0; id < 2; id++) {
		errno = 0;
		assert_int_equal(make(id), 0);
		assert_int_equal(errno, ENOMEM);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
