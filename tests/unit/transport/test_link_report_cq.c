/* SPDX-License-Identifier: MIT */
/* A receive completion that a peer's CQ does not take: which cause is told? */
#include <errno.h>

#include "lib/unit.h"
#include "lib/own_directory.h"
#include "lib/turned_clock.h"
#include "observe/check.h"
#include "queue/cq.h"
#include "transport/outcome.h"
#include "unit/memory/fake_seg.h"

#define INDEX	   1u
#define CQ_AT	   (8ull << 26)
#define ENTRIES	   2u
#define LIVING	   1000001u /* a process that is none */
#define STOPPED_NS 10000000000u

static struct fake_seg f;
static struct av_qp_ref end;
static struct av_cq_shared *cq;

/* It is stopped, for longer than anybody waits. */
static bool is_alive(uint32_t owner)
{
	turned_clock_to(turned_clock_ns() + STOPPED_NS);
	return true;
}

static int set_up(void **state)
{
	fake_open(&f, 1);
	fake_tables(&f);
	f.seg.own = false;
	end = (struct av_qp_ref){&f.seg, av_qp_at(&f.seg, INDEX)};
	end.qp->recv_cq = INDEX;
	cq = av_cq_at(&f.seg, INDEX);
	cq->ring[0] = CQ_AT;
	cq->mask[0] = ENTRIES - 1;
	cq->capacity = cq->producer[0].level = ENTRIES;
	return 0;
}

static int tear_down(void **state)
{
	av_diag_drop();
	fake_close(&f);
	return 0;
}

static uint16_t cause(void)
{
	const struct av_sq_wqe wqe = {.opcode = IBV_WR_SEND};
	const struct av_failed failed = {
		.req = &end, .rsp = &end, .wqe = &wqe, .fault = AV_FAULT_RECV_CQ};

	av_report_responder(&failed); /* what it notes is kept for the requester */
	return av_diag_pending()->check;
}

static uint64_t entries(void)
{
	return av_diag_pending()->limit;
}

TEST_WITH(it_is_full, set_up, tear_down)
{
	const struct av_cqe e = {.wr_id = 1};

	for (uint32_t i = 0; i < ENTRIES; i++)
		assert_int_equal(av_cq_push(&f.seg, INDEX, &e, NULL), 0);
	assert_int_equal(av_cq_push(&f.seg, INDEX, &e, NULL), -ENOSPC);
	assert_int_equal(cause(), AV_CHECK_RECV_CQ_FULL);
	assert_int_equal(entries(), ENTRIES);
}

/* A peer has written nonsense where the queue pair names its CQ. */
TEST_WITH(there_is_none, set_up, tear_down)
{
	end.qp->recv_cq = UINT32_MAX;
	assert_int_equal(cause(), AV_CHECK_RECV_CQ_FULL);
	assert_int_equal(entries(), 0);
}

TEST_WITH(its_lock_is_held, set_up, tear_down)
{
	const struct av_cqe e = {.wr_id = 1};

	atomic_store(&cq->producer[0].lock.owner, LIVING);
	assert_int_equal(av_cq_push(&f.seg, INDEX, &e, NULL), -ENOSPC);
	assert_int_equal(cause(), AV_CHECK_CQ_HELD);
}

static int join(void **state)
{
	int ret = own_directory_join(state);

	av_lock_owner_alive = is_alive;
	return ret;
}

int main(void)
{
	return run_cases(join, own_directory_leave);
}
