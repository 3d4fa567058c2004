/* SPDX-License-Identifier: MIT */
/* What a new queue pair has: its receive queue, slots that are large enough, and rounded sizes. */
#include <errno.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "queue/qp.h"
#include "queue/rq.h"
#include "unit/memory/heap_fixture.h"

#define LIMIT  1000u
#define MAX_WR 100u

/* --- slots and queues -------------------------------------------------------------- */

static const struct {
	uint32_t wr, sge, inline_data, operand;
	uint32_t entries, stride;
} rows[] = {
	{1, 0, 0, 0, 1, 128},
	{1, 1, 0, 0, 1, 128},
	{1, 4, 0, 0, 1, 128},
	{1, 5, 0, 0, 1, 192},
	{1, 4, 64, 0, 1, 128},
	{1, 4, 65, 0, 1, 192},
	{1, 30, 1, 0, 1, 576},
	{2, 1, 0, 0, 2, 128},
	{3, 1, 0, 0, 4, 128},
	{16, 1, 0, 0, 16, 128},
	{17, 1, 0, 0, 32, 128},
	{1, 4, 0, 8, 1, 128 + AV_SQ_OPERANDS},
	{1, 5, 0, 32, 1, 192 + AV_SQ_OPERANDS},
};

TEST_WITH(slots_are_large_enough, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		const struct av_qp_request request = {
			.type = IBV_QPT_RC,
			.limit = LIMIT,
			.max_operand = rows[i].operand,
			.cap = {.max_send_wr = rows[i].wr,
				.max_send_sge = rows[i].sge,
				.max_inline_data = rows[i].inline_data}};
		uint32_t index = av_qp_init(seg, &request);
		const struct av_qp_shared *qp = av_qp_at(seg, index);

		assert_true(index && qp);
		if (qp->sq_mask + 1 != rows[i].entries || qp->sq_stride != rows[i].stride)
			fail_msg("row %zu: %u, %u", i, qp->sq_mask + 1, qp->sq_stride);
		assert_int_equal(qp->sq_capacity, rows[i].wr);
		av_qp_fini(seg, index);
	}
}

/* A shared queue outlives the queue pair, its own does not. */
TEST_WITH(it_has_its_own_receive_queue_or_shares_one, set_up, tear_down)
{
	const struct av_rq_request shared = {.capacity = 4, .max_sge = 1, .id = 9};

	for (unsigned int shares = 0; shares < 2; shares++) {
		uint32_t srq = av_rq_init(seg, &shared);
		const struct av_qp_request request = {
			.type = IBV_QPT_RC,
			.limit = LIMIT,
			.srq = shares ? srq : 0,
			.cap = {.max_send_wr = 1, .max_recv_wr = 7, .max_recv_sge = 2}};
		uint32_t index = av_qp_init(seg, &request);
		const struct av_qp_shared *qp = av_qp_at(seg, index);

		assert_true(srq && index && qp);
		assert_int_equal(qp->srq, shares);
		assert_int_equal(qp->rq == srq, shares);
		assert_int_equal(av_rq_at(seg, qp->rq)->capacity, shares ? 4 : 7);
		assert_int_equal(av_rq_at(seg, qp->rq)->max_sge, shares ? 1 : 2);
		assert_int_not_equal(atomic_load(&qp->qpn), 0);
		av_qp_fini(seg, index);
		assert_int_equal(atomic_load(&qp->qpn), 0);
		assert_int_equal(atomic_load(&av_rq_at(seg, srq)->id), 9);
		av_rq_fini(seg, srq);
	}
}

/* What is longer than the entry of a CQ has room in the receive request. */
TEST_WITH(payload_has_room_in_an_entry_or_in_a_request, set_up, tear_down)
{
	static const uint32_t inline_recv[] = {0, 1, AV_CQE_DATA, AV_CQE_DATA + 1, 512};

	for (size_t i = 0; i < AV_ARRAY_SIZE(inline_recv); i++) {
		const struct av_qp_request request = {
			.type = IBV_QPT_RC, .limit = LIMIT, .inline_recv = inline_recv[i]};
		uint32_t index = av_qp_init(seg, &request);
		const struct av_qp_shared *qp = av_qp_at(seg, index);

		assert_true(index && qp);
		assert_int_equal(qp->inline_recv, inline_recv[i]);
		assert_int_equal(av_rq_at(seg, qp->rq)->inline_bytes,
				 inline_recv[i] > AV_CQE_DATA ? inline_recv[i] : 0);
		av_qp_fini(seg, index);
	}
}

/* Leave behind what a used queue pair leaves. */
static void use(struct av_qp_shared *qp)
{
	atomic_store(&qp->sq_tail, 1);
	atomic_store(&qp->sq_freed, 1);
	atomic_store(&qp->kick, 1);
	atomic_store(&qp->last_wqe, 1);
	atomic_store(&qp->flush_due, 1);
	qp->sq_next = qp->next_psn = qp->drain_notify = 1;
	qp->expected_psn = qp->msn = qp->established = 1;
	qp->attr.dest_qp_num = 1;
}

static void expect_new(const struct av_qp_shared *qp)
{
	assert_int_equal(atomic_load(&qp->state), IBV_QPS_RESET);
	assert_int_equal(atomic_load(&qp->sq_tail), 0);
	assert_int_equal(atomic_load(&qp->sq_freed), 0);
	assert_int_equal(atomic_load(&qp->kick), 0);
	assert_int_equal(atomic_load(&qp->last_wqe), 0);
	assert_int_equal(atomic_load(&qp->flush_due), 0);
	assert_int_equal(atomic_load(&qp->wait_reason), AV_WAIT_NONE);
	assert_int_equal(qp->sq_next | qp->next_psn | qp->drain_notify, 0);
	assert_int_equal(qp->expected_psn | qp->msn | qp->receiving | qp->established, 0);
	assert_int_equal(qp->attr.dest_qp_num, 0);
}

/* An index is given again when enough others have been. */
TEST_WITH(it_is_new_where_another_was, set_up, tear_down)
{
	const struct av_qp_request request = {.type = IBV_QPT_RC, .limit = LIMIT};
	uint32_t first = 0, index;
	struct av_qp_shared *qp;
	bool again = false;

	for (unsigned int i = 0; i < 5000 && !again; i++) {
		index = av_qp_init(seg, &request);
		qp = av_qp_at(seg, index);
		if (!index || !qp) {
			fail_msg("number %u", i);
			return;
		}
		expect_new(qp);
		again = index == first;
		first = first ? first : index;
		use(qp);
		av_qp_fini(seg, index);
	}
	assert_true(again);
}

/* --- memory ------------------------------------------------------------------------ */

/* Where the next block of so many bytes would be. */
static uint64_t next_block(uint64_t bytes)
{
	uint64_t at = av_ring_alloc(seg, bytes, NULL);

	assert_int_not_equal(at, 0);
	av_seg_free(seg, at, bytes);
	return at;
}

static const uint32_t depths[] = {1, 2, 4, 8};

TEST_WITH(its_ring_is_as_long_as_its_slots, set_up, tear_down)
{
	const struct av_rq_request shared = {.capacity = 1, .max_sge = 1, .id = 9};
	uint32_t srq = av_rq_init(seg, &shared);

	assert_int_not_equal(srq, 0);
	for (size_t i = 0; i < AV_ARRAY_SIZE(depths); i++) {
		const struct av_qp_request request = {.type = IBV_QPT_RC,
						      .limit = LIMIT,
						      .srq = srq,
						      .cap = {.max_send_wr = depths[i]}};
		uint64_t bytes = depths[i] * 128ul, at = next_block(bytes);
		uint32_t index = av_qp_init(seg, &request);

		assert_int_not_equal(index, 0);
		assert_true(av_qp_at(seg, index)->sq_ring == at);
		assert_true(next_block(bytes) != at);
		av_qp_fini(seg, index);
		assert_true(next_block(bytes) == at);
	}
	av_rq_fini(seg, srq);
}

#define TOO_MANY (1u << 20) /* their ring is larger than the heap */
#define TIMES	 300u	    /* more than there are freed indices before one is given again */

static const struct {
	uint32_t send_wr, recv_wr, limit;
	bool shares;
} refused[] = {
	{TOO_MANY, 1, LIMIT, false},
	{TOO_MANY, 1, LIMIT, true},
	{1, TOO_MANY, LIMIT, false},
	{1, 1, 0, false},
	{1, 1, 0, true},
};

/* Nor does it take the receive queue along that others share. */
TEST_WITH(one_that_cannot_be_leaves_nothing, set_up, tear_down)
{
	const struct av_rq_request shared = {.capacity = 1, .max_sge = 1, .id = 9};

	for (size_t i = 0; i < AV_ARRAY_SIZE(refused); i++) {
		uint32_t srq = av_rq_init(seg, &shared), rq;
		const struct av_qp_request request = {.type = IBV_QPT_RC,
						      .limit = refused[i].limit,
						      .srq = refused[i].shares ? srq : 0,
						      .cap = {.max_send_wr = refused[i].send_wr,
							      .max_recv_wr = refused[i].recv_wr,
							      .max_recv_sge = 8}};
		uint64_t at = next_block(128);

		assert_int_not_equal(srq, 0);
		for (unsigned int n = 0; n < TIMES; n++) {
			errno = 0;
			if (av_qp_init(seg, &request) || errno != ENOMEM)
				fail_msg("row %zu: errno %d", i, errno);
		}
		assert_true(next_block(128) == at);
		assert_int_equal(atomic_load(&av_rq_at(seg, srq)->id), 9);
		av_rq_fini(seg, srq);
		for (unsigned int n = 0; n < TIMES; n++) {
			rq = av_rq_init(seg, &shared);
			assert_int_not_equal(rq, 0);
			av_rq_fini(seg, rq);
		}
	}
}

TEST_WITH(none_is_made_when_the_table_is_full, set_up, tear_down)
{
	const struct av_qp_request request = {.type = IBV_QPT_RC, .limit = LIMIT};

	for (unsigned int n = 0; av_slab_alloc(seg, AV_SLAB_QP, AV_MAX_QP); n++)
		assert_true(n < AV_MAX_QP);
	errno = 0;
	assert_int_equal(av_qp_init(seg, &request), 0);
	assert_int_equal(errno, ENOMEM);
}

/* --- rounding ---------------------------------------------------------------------- */

static const struct {
	uint32_t wr, inline_data;	  /* asked for */
	uint32_t rounded, rounded_inline; /* of a send queue */
} caps[] = {
	{0, 0, 0, 0},
	{1, 0, 1, AV_MIN_INLINE},
	{3, AV_MIN_INLINE - 1, 4, AV_MIN_INLINE},
	{5, AV_MIN_INLINE + 1, 8, AV_MIN_INLINE + 1},
	{64, 0, 64, AV_MIN_INLINE},
	{65, 0, MAX_WR, AV_MIN_INLINE},
	{MAX_WR, 0, MAX_WR, AV_MIN_INLINE},
};

TEST(sizes_are_rounded_up_to_the_limit)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(caps); i++) {
		struct ibv_qp_cap cap = {.max_send_wr = caps[i].wr,
					 .max_recv_wr = caps[i].wr,
					 .max_inline_data = caps[i].inline_data};

		av_qp_round_cap(&cap, MAX_WR);
		if (cap.max_send_wr != caps[i].rounded || cap.max_recv_wr != caps[i].rounded ||
		    cap.max_inline_data != caps[i].rounded_inline)
			fail_msg("row %zu", i);
	}
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
