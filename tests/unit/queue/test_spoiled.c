/* SPDX-License-Identifier: MIT */
/*
 * A peer may write whatever it likes into a segment, the words that say where rings are included:
 * each place of a ring that is found by them lies wholly in the segment, or there is none. And
 * nobody waits for ever, or goes round for ever, because of them.
 */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/translate.h"
#include "queue/cq.h"
#include "queue/qp.h"
#include "queue/rq.h"
#include "unit/memory/seg_fixture.h"

#define INDEX	1u
#define RQ_SLOT (sizeof(struct av_rq_wqe) + AV_MAX_SGE * sizeof(struct ibv_sge))

static const uint64_t offsets[] = {
	0,
	1,
	8,
	64,
	sizeof(struct av_seg_head) - 8,
	sizeof(struct av_seg_head),
	(1ull << 30) + 4,
	1ull << 30,
	AV_SEG_BYTES - 8192,
	AV_SEG_BYTES - 128,
	AV_SEG_BYTES - 64,
	AV_SEG_BYTES,
	1ull << 63,
	0ull - (1ull << 32),
	0ull - 128,
	0ull - 64,
	UINT64_MAX,
};
static const uint32_t words[] = {
	0, 1, 7, 8, 63, 64, 128, 4096, 1u << 20, 1u << 31, UINT32_MAX - 63, UINT32_MAX};

/* Return: is there one? */
static unsigned int expect_inside(const void *place, uint64_t bytes, uint64_t offset)
{
	uint64_t at = (uintptr_t)place - (uintptr_t)fake.seg.head;

	if (place && (at < sizeof(struct av_seg_head) || at > AV_SEG_BYTES - bytes))
		fail_msg("offset %#lx leads to %#lx", offset, at);
	return place != NULL;
}

TEST_WITH(test_pieces, open_fake_tables, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(offsets); i++)
		for (size_t k = 0; k < AV_ARRAY_SIZE(words); k++) {
			uint64_t at = offsets[i], bytes = words[k];
			bool inside = at >= sizeof(struct av_seg_head) && at <= AV_SEG_BYTES &&
				      bytes <= AV_SEG_BYTES - at;

			assert_ptr_equal(av_seg_piece(&fake.seg, at, bytes),
					 inside && at % 8 == 0 ? (uint8_t *)fake.seg.head + at
							       : NULL);
			assert_ptr_equal(av_seg_at(&fake.seg, at, bytes),
					 inside && at % 64 == 0 ? (uint8_t *)fake.seg.head + at
								: NULL);
		}
}

/* Call @look for all words that a place is found by. Return: how many places there are */
static unsigned int each(unsigned int (*look)(uint64_t ring, uint32_t mask, uint32_t stride,
					      uint32_t number))
{
	unsigned int found = 0;

	for (size_t i = 0; i < AV_ARRAY_SIZE(offsets); i++)
		for (size_t k = 0; k < AV_ARRAY_SIZE(words); k++)
			for (size_t l = 0; l < AV_ARRAY_SIZE(words); l++)
				for (size_t m = 0; m < AV_ARRAY_SIZE(words); m++)
					found += look(offsets[i], words[k], words[l], words[m]);
	return found;
}

static unsigned int look_at_cq(uint64_t ring, uint32_t mask, uint32_t stride, uint32_t number)
{
	struct av_cq_shared *cq = av_cq_at(&fake.seg, INDEX);

	atomic_store(&cq->ring[0], ring);
	atomic_store(&cq->mask[0], mask);
	return expect_inside(av_cq_entry(&fake.seg, cq, 0, number), sizeof(struct av_cqe), ring);
}

static unsigned int look_at_sq(uint64_t ring, uint32_t mask, uint32_t stride, uint32_t number)
{
	struct av_qp_ref end = {&fake.seg, av_qp_at(&fake.seg, INDEX)};

	end.qp->sq_ring = ring;
	end.qp->sq_mask = mask;
	end.qp->sq_stride = stride;
	return expect_inside(av_sq_slot(&end, number), AV_SQ_STRIDE_MAX, ring);
}

static void set_rq(struct av_rq_shared *rq, uint64_t ring, uint32_t mask, uint32_t stride)
{
	rq->ring = ring;
	rq->mask = mask;
	rq->stride = stride;
	rq->max_sge = AV_MAX_SGE;
	rq->inline_bytes = AV_MAX_INLINE_RECV;
	for (unsigned int i = 0; i < AV_RQ_RUNS; i++)
		atomic_store(&rq->more[i], ring + i * 4096);
}

static unsigned int look_at_slots(struct av_rq_shared *rq, uint32_t number, uint64_t ring)
{
	return expect_inside(av_rq_wqe(&fake.seg, rq, number), RQ_SLOT, ring) +
	       expect_inside(av_rq_payload(&fake.seg, rq, number), AV_MAX_INLINE_RECV, ring);
}

static unsigned int look_at_rq(uint64_t ring, uint32_t mask, uint32_t stride, uint32_t number)
{
	struct av_rq_shared *rq = av_rq_at(&fake.seg, INDEX);

	set_rq(rq, ring, mask, stride);
	atomic_store(&rq->id, 0);
	return look_at_slots(rq, number, ring);
}

static unsigned int look_at_srq(uint64_t ring, uint32_t mask, uint32_t stride, uint32_t number)
{
	struct av_rq_shared *rq = av_rq_at(&fake.seg, INDEX);

	set_rq(rq, ring, mask, stride);
	atomic_store(&rq->id, 1);
	return look_at_slots(rq, number, ring);
}

TEST_WITH(test_completions, open_fake_tables, close_fake)
{
	assert_true(each(look_at_cq) > 0);
}

TEST_WITH(test_send_requests, open_fake_tables, close_fake)
{
	assert_true(each(look_at_sq) > 0);
}

TEST_WITH(test_receive_requests, open_fake_tables, close_fake)
{
	assert_true(each(look_at_rq) > 0);
}

TEST_WITH(test_shared_receive_requests, open_fake_tables, close_fake)
{
	assert_true(each(look_at_srq) > 0);
}

#define OTHER 2u /* a process that lives, and holds nothing */

static bool lives(uint32_t owner)
{
	return owner == OTHER;
}

TEST_WITH(test_lock_of_nobody, open_fake_tables, close_fake)
{
	struct av_cq_shared *cq = av_cq_at(&fake.seg, INDEX);
	bool (*const before)(uint32_t) = av_lock_owner_alive;
	const struct av_cqe e = {.status = 0};
	uint64_t begin = av_now_ns(), first;

	fake.seg.own = false;
	av_lock_owner_alive = lives;
	atomic_store(&cq->producer[0].lock.owner, OTHER);
	assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), -ENOSPC);
	first = av_now_ns() - begin;
	assert_true(first >= AV_PEER_TIMEOUT_NS);
	/* One waits in vain once, and not for each request, which would take twice as long. */
	for (int i = 0; i < 10; i++)
		assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), -ENOSPC);
	assert_true(av_now_ns() - begin < first + 5 * AV_PEER_TIMEOUT_NS);
	av_lock_owner_alive = before;
}

static uint64_t core_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

TEST_WITH(test_positions_far_apart, open_fake_tables, close_fake)
{
	struct av_cq_shared *cq = av_cq_at(&fake.seg, INDEX);
	uint64_t begin = core_ns();

	atomic_store(&cq->ring[0], sizeof(struct av_seg_head) + 64);
	atomic_store(&cq->producer[0].tail, UINT32_MAX);
	assert_false(av_cq_holds_receive(&fake.seg, INDEX, 1, 1));
	assert_true(core_ns() - begin < 3000000000u);
}

TEST_WITH(test_long_list, open_fake_tables, close_fake)
{
	struct ibv_sge list[AV_MAX_SGE + 1];
	struct av_spans spans;

	for (size_t i = 0; i < AV_ARRAY_SIZE(list); i++)
		list[i] = (struct ibv_sge){.length = 1};
	assert_int_equal(av_mem_get_list(&fake.seg, 1, 0, list, AV_MAX_SGE + 1, 1, &spans),
			 AV_CHECK_KEY_LIST);
	assert_int_equal(av_mem_get_list(&fake.seg, 1, 0, list, UINT32_MAX, 1, &spans),
			 AV_CHECK_KEY_LIST);
	assert_int_equal(spans.count, 0);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
