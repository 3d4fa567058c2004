/* SPDX-License-Identifier: MIT */
/* Which entries of a CQ stay when those of a queue pair go. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "unit/memory/heap_fixture.h"

#define CAPACITY 8u
#define GOING	 5u
#define STAYING	 6u

static uint32_t cq;
static uint64_t dropped; /* a bit for each request */

static void append(uint64_t wr_id, uint32_t qpn)
{
	struct av_cqe e = {.wr_id = wr_id, .qpn = qpn};

	assert_int_equal(av_cq_push(seg, cq, &e, NULL), 0);
}

static uint64_t take(void)
{
	struct av_cq_shared *shared = av_cq_at(seg, cq);
	const struct av_cqe *e = av_cq_peek(seg, shared);
	uint64_t wr_id = e ? e->wr_id : 0;

	if (e)
		av_cq_take(shared);
	return wr_id;
}

static bool of_qp(const struct av_cqe *cqe, uint32_t number)
{
	return cqe->qpn == number;
}

static bool drop(struct av_seg *of, struct av_cqe *cqe)
{
	assert_ptr_equal(of, seg);
	assert_int_equal(dropped >> cqe->wr_id, 0); /* each once, in order */
	dropped |= 1ull << cqe->wr_id;
	return true;
}

static bool let_stay(struct av_seg *of, struct av_cqe *cqe)
{
	cqe->queue = 7;
	return false;
}

/* @count entries, of which the bits of @going say who goes, from each place of the ring on. */
static void purge(unsigned int count, unsigned int going, unsigned int from)
{
	cq = av_cq_init(seg, CAPACITY, 0, 1, 1000, NULL);
	assert_int_not_equal(cq, 0);
	for (unsigned int i = 0; i < from; i++) {
		append(63, STAYING);
		assert_int_equal(take(), 63);
	}
	for (unsigned int i = 0; i < count; i++)
		append(i + 1, going >> i & 1 ? GOING : STAYING);
	dropped = 0;
	assert_int_equal(av_cq_purge(seg, cq, of_qp, GOING, drop), 0);
	assert_int_equal(dropped, going << 1);
	for (unsigned int i = 0; i < count; i++)
		if (!(going >> i & 1))
			assert_int_equal(take(), i + 1);
	assert_int_equal(take(), 0);
	for (unsigned int i = 0; i < CAPACITY; i++)
		append(i + 1, GOING);
	for (unsigned int i = 0; i < CAPACITY; i++)
		assert_int_equal(take(), i + 1);
	assert_int_equal(take(), 0);
	av_cq_fini(seg, cq);
}

TEST_WITH(the_others_stay_in_their_order, set_up, tear_down)
{
	for (unsigned int count = 0; count <= CAPACITY; count++)
		for (unsigned int going = 0; going < 1u << count; going++)
			for (unsigned int from = going % CAPACITY, n = 0; n < 2; from = 0, n++)
				purge(count, going, from);
}

/* The event of an entry that is gone is over, and the next entry has its own. */
TEST_WITH(what_is_gone_makes_no_event, set_up, tear_down)
{
	struct av_cq_shared *shared;

	cq = av_cq_init(seg, CAPACITY, 0, 1, 1000, NULL);
	shared = av_cq_at(seg, cq);
	assert_non_null(shared);
	append(1, STAYING);
	assert_int_equal(take(), 1);
	av_cq_arm(seg, cq, AV_CQ_ARMED_ANY);
	append(2, GOING);
	assert_int_equal(av_oneshot_armed(&shared->producer[0].armed), AV_CQ_NOT_ARMED);
	dropped = 0;
	av_cq_purge(seg, cq, of_qp, GOING, drop);
	av_cq_arm(seg, cq, AV_CQ_ARMED_ANY);
	assert_int_equal(av_oneshot_armed(&shared->producer[0].armed), AV_CQ_ARMED_ANY);
	append(3, STAYING);
	assert_int_equal(av_oneshot_armed(&shared->producer[0].armed), AV_CQ_NOT_ARMED);
	av_cq_fini(seg, cq);
}

TEST_WITH(an_entry_may_stay_after_all, set_up, tear_down)
{
	cq = av_cq_init(seg, CAPACITY, 0, 1, 1000, NULL);
	for (uint64_t i = 1; i <= 4; i++)
		append(i, i % 2 ? GOING : STAYING);
	assert_int_equal(av_cq_purge(seg, cq, of_qp, GOING, let_stay), 2);
	for (uint64_t i = 1; i <= 4; i++) {
		assert_int_equal(av_cq_peek(seg, av_cq_at(seg, cq))->queue, i % 2 ? 7 : 0);
		assert_int_equal(take(), i);
	}
	assert_int_equal(take(), 0);
	av_cq_fini(seg, cq);
}

TEST_WITH(nothing_is_gone_where_no_ring_is, set_up, tear_down)
{
	uint64_t ring;

	cq = av_cq_init(seg, CAPACITY, 0, 1, 1000, NULL);
	assert_int_not_equal(cq, 0);
	append(1, GOING);
	append(2, STAYING);
	ring = av_cq_at(seg, cq)->ring[0];
	atomic_store(&av_cq_at(seg, cq)->ring[0], AV_SEG_BYTES); /* a peer's nonsense */
	dropped = 0;
	av_cq_purge(seg, cq, of_qp, GOING, drop);
	assert_int_equal(dropped, 0);
	atomic_store(&av_cq_at(seg, cq)->producer[0].tail, 2);
	/* Only its first place is in the segment. */
	atomic_store(&av_cq_at(seg, cq)->ring[0], AV_SEG_BYTES - sizeof(struct av_cqe));
	av_cq_entry(seg, av_cq_at(seg, cq), 0, 0)->qpn = GOING;
	av_cq_purge(seg, cq, of_qp, GOING, drop);
	assert_int_equal(dropped, 1 << 0);
	atomic_store(&av_cq_at(seg, cq)->ring[0], ring);
	av_cq_fini(seg, cq);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
