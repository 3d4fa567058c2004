/* SPDX-License-Identifier: MIT */
/* SRQ_LIMIT_REACHED: when it comes, and that no stop or death of a taker loses it. */
#include "base/clock.h"
#include "lib/skipped_clock.h"
#include "lib/unit.h"
#include "queue/rq.h"
#include "unit/queue/event_fixture.h"

#define INDEX 1u
#define LIMIT 4u

static struct fake_seg fake;
static struct av_rq_shared *rq;
static int channel;

static int set_up(void **state)
{
	fake_open(&fake, 1);
	fake_tables(&fake);
	channel = doorbell_open(&fake, AV_DOORBELL_ASYNC);
	rq = av_rq_at(&fake.seg, INDEX);
	atomic_store(&rq->id, 1);
	return 0;
}

static int tear_down(void **state)
{
	doorbell_close(&fake, AV_DOORBELL_ASYNC, channel);
	fake_close(&fake);
	return 0;
}

static void with_requests(uint32_t posted, uint32_t taken)
{
	atomic_store(&rq->tail, posted);
	atomic_store(&rq->head, taken);
}

/* The queue has no order, so nothing is taken. */
static void look(void)
{
	uint32_t receiving;

	assert_null(av_rq_take(&fake.seg, rq, 1, &receiving));
}

TEST_WITH(once_when_fewer_are_left, set_up, tear_down)
{
	with_requests(10, 0);
	av_srq_limit_set(&fake.seg, rq, LIMIT);
	for (uint32_t taken = 0; taken <= 10; taken++) {
		int before = events_at(channel);
		bool reached = 10 - taken < LIMIT;

		with_requests(10, taken);
		look();
		assert_int_equal(events_at(channel), reached);
		assert_int_equal(events_at(channel) - before, taken == 10 - LIMIT + 1);
		assert_int_equal(av_srq_limit(rq), reached ? 0 : LIMIT);
	}
	look();
	assert_int_equal(events_at(channel), 1);
}

TEST_WITH(at_once_if_it_is_undercut_already, set_up, tear_down)
{
	with_requests(10, 10 - LIMIT + 1);
	av_srq_limit_set(&fake.seg, rq, LIMIT);
	assert_int_equal(events_at(channel), 1);
	assert_int_equal(av_srq_limit(rq), 0);
	av_srq_limit_set(&fake.seg, rq, LIMIT);
	assert_int_equal(events_at(channel), 2);
}

TEST_WITH(armed_or_told_at_each_instruction, set_up, tear_down)
{
	pid_t child;
	unsigned int armed = 0;

	with_requests(10, 10);
	av_oneshot_arm(&rq->limit, LIMIT);
	child = start_stopped(look);
	while (step(child)) {
		assert_true(av_srq_limit(rq) == LIMIT || events_at(channel) == 1);
		armed += av_srq_limit(rq) == LIMIT;
	}
	assert_true(armed > 10); /* or it was looked at nothing */
	assert_int_equal(av_srq_limit(rq), 0);
	assert_int_equal(events_at(channel), 1);
}

/* Stopped in many places, for long, while another taker looks. */
TEST_WITH(another_raises_it_for_who_is_stopped, set_up, tear_down)
{
	unsigned int stride;
	bool runs = true;

	with_requests(10, 10);
	av_oneshot_arm(&rq->limit, LIMIT);
	stride = stride_of(look);
	tear_down(state);
	set_up(state);
	for (unsigned int steps = 1; runs; steps += stride) {
		pid_t child;
		int early, late;

		with_requests(10, 10);
		av_oneshot_arm(&rq->limit, LIMIT);
		child = start_stopped(look);
		for (unsigned int i = 0; i < steps && runs; i++)
			runs = step(child);
		early = events_at(channel);
		look();
		clock_skip_ns(2 * AV_STUCK_NS);
		look();
		late = events_at(channel);
		assert_true(late == 1 || (late == 2 && early == 1));
		assert_int_equal(av_srq_limit(rq), 0);
		if (runs) {
			kill(child, SIGKILL);
			CHECK(waitpid(child, NULL, 0) == child);
		}
		tear_down(state);
		set_up(state);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
