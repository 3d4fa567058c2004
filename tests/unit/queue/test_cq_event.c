/* SPDX-License-Identifier: MIT */
/*
 * The event of an appender that is stopped or killed in the middle: at each of its instructions
 * either the CQ is armed, or the event is there. And the event for an owner that sleeps while its
 * CQ's lock is held.
 */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/skipped_clock.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "unit/queue/event_fixture.h"

#define INDEX	 1u
#define CQES	 8u
#define DOORBELL 1u
#define CHUNK_AT (1ul << 26)
#define RING_AT	 (1ul << 27)
#define PEER	 2u /* identity of another process */

static struct fake_seg fake;
static struct av_cq_shared *cq;
static int channel; /* what the owner reads */

static int set_up(void **state)
{
	fake_open(&fake, 1);
	channel = doorbell_open(&fake, DOORBELL);
	atomic_store(&fake.seg.head->chunk[AV_SLAB_CQ][0], CHUNK_AT);
	cq = av_cq_at(&fake.seg, INDEX);
	cq->capacity = CQES;
	cq->mask[0] = CQES - 1;
	cq->ring[0] = RING_AT;
	cq->doorbell = DOORBELL;
	av_oneshot_arm(&cq->producer[0].armed, AV_CQ_ARMED_ANY);
	atomic_store(&cq->id, 1);
	return 0;
}

static int tear_down(void **state)
{
	doorbell_close(&fake, DOORBELL, channel);
	fake_close(&fake);
	return 0;
}

/* --- stopped at each instruction -------------------------------------------------- */

static void append(void)
{
	struct av_cqe e = {.wr_id = 7};

	CHECK(av_cq_push(&fake.seg, INDEX, &e, NULL) == 0);
}

static bool is_armed(void)
{
	return av_oneshot_armed(&cq->producer[0].armed) != AV_CQ_NOT_ARMED;
}

static bool is_free(void)
{
	return atomic_load(&cq->producer[0].lock.owner) == 0;
}

TEST_WITH(armed_or_told_at_each_instruction, set_up, tear_down)
{
	pid_t child = start_stopped(append);
	unsigned int armed = 0, told = 0;

	while (step(child)) {
		assert_true(is_armed() || events_at(channel) == 1);
		armed += is_armed() && av_cq_peek(&fake.seg, cq);
		told += events_at(channel);
	}
	assert_true(armed > 10 && told > 10); /* or it was looked at nothing */
	assert_false(is_armed());
	assert_int_equal(events_at(channel), 1);
}

/* Who wakes the owner may lose its core to it: with the lock, all others would wait. */
TEST_WITH(the_lock_is_free_when_the_owner_is_told, set_up, tear_down)
{
	pid_t child = start_stopped(append);
	unsigned int told = 0;

	while (step(child)) {
		told += events_at(channel);
		assert_true(is_free() || events_at(channel) == 0);
	}
	assert_true(told > 0);
}

/* Stopped in many places, for long, while another process appends. */
TEST_WITH(another_tells_the_owner_for_who_is_stopped, set_up, tear_down)
{
	unsigned int stride = stride_of(append);
	bool runs = true;

	tear_down(state);
	set_up(state);
	for (unsigned int steps = 1; runs; steps += stride) {
		pid_t child = start_stopped(append);
		int early;

		for (unsigned int i = 0; i < steps && runs; i++)
			runs = step(child);
		early = events_at(channel);
		if (is_free()) { /* else see below */
			append();
			clock_skip_ns(2 * AV_STUCK_NS);
			append();
			assert_true(events_at(channel) == 1 ||
				    (events_at(channel) == 2 && early == 1));
			assert_false(is_armed());
		}
		if (runs) {
			kill(child, SIGKILL);
			CHECK(waitpid(child, NULL, 0) == child);
		}
		tear_down(state);
		set_up(state);
	}
}

/* Who has claimed the event is dead, or may be: whoever arms the CQ does not rely on it. */
TEST_WITH(arming_tells_of_what_the_dead_did_not, set_up, tear_down)
{
	static const enum av_cq_armed rows[] = {AV_CQ_ARMED_SOLICITED, AV_CQ_ARMED_ANY};
	const uint64_t stuck_ms = AV_STUCK_NS / 1000000 + 2;
	const struct av_cqe e = {.wr_id = 7, .flags = AV_CQE_SOLICITED};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct av_cq_bell bell = {0};

		tear_down(state);
		set_up(state);
		av_oneshot_arm(&cq->producer[0].armed, rows[i]);
		assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, &bell), 0);
		assert_true(av_oneshot_is_begun(&cq->producer[0].armed));
		atomic_fetch_sub(&cq->producer[0].armed.word, stuck_ms << 32);
		av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
		assert_int_equal(events_at(channel), 1);
		assert_false(is_armed());
	}
}

/* Armed again, the CQ stays armed when who was stopped goes on and ends the event of before. */
TEST_WITH(a_late_end_is_not_that_of_a_later_arming, set_up, tear_down)
{
	const uint64_t stuck_ms = AV_STUCK_NS / 1000000 + 2;
	const struct av_cqe e = {.wr_id = 7};
	struct av_cq_bell bell = {0};

	assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, &bell), 0);
	atomic_fetch_sub(&cq->producer[0].armed.word, stuck_ms << 32);
	bell.claim -= stuck_ms << 32;
	av_cq_take(cq);
	av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
	av_cq_ring(&fake.seg, &bell);
	assert_int_equal(events_at(channel), 1);
	assert_true(is_armed());
	append();
	assert_int_equal(events_at(channel), 2);
}

/* --- others ----------------------------------------------------------------------- */

TEST_WITH(the_owner_is_told_once_that_entries_are_lost, set_up, tear_down)
{
	int async = doorbell_open(&fake, AV_DOORBELL_ASYNC);
	struct av_cqe e = {.wr_id = 7};
	struct av_doorbell_record record;

	for (unsigned int i = 0; i < CQES; i++)
		append();
	assert_int_equal(events_at(async), 0);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), -ENOSPC);
		assert_int_equal(events_at(async), 1);
	}
	assert_int_equal(read(async, &record, sizeof(record)), sizeof(record));
	assert_int_equal(record.event, IBV_EVENT_CQ_ERR);
	assert_int_equal(record.kind, AV_SLAB_CQ);
	assert_int_equal(record.index, INDEX);
	assert_int_equal(record.id, 1);
	doorbell_close(&fake, AV_DOORBELL_ASYNC, async);
}

/* Its event is sent later, when there may be another CQ, or none, and for an entry or none. */
static const struct {
	uint32_t index, id; /* added to what the bell says */
	bool told;
} bells[] = {{0, 0, true}, {0, 1, false}, {AV_OBJ_CHUNK, 0, false}};

TEST_WITH(an_event_is_only_for_its_cq, set_up, tear_down)
{
	const struct av_cqe e = {.wr_id = 7};

	for (size_t i = 0; i < sizeof(bells) / sizeof(bells[0]); i++) {
		struct av_cq_bell bell = {0}, none = {0};

		tear_down(state);
		set_up(state);
		assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, &bell), 0);
		assert_int_equal(events_at(channel), 0);
		none.index = bell.index;
		none.id = bell.id;
		av_cq_ring(&fake.seg, &none);
		assert_int_equal(events_at(channel), 0);
		bell.index += bells[i].index;
		bell.id += bells[i].id;
		av_cq_ring(&fake.seg, &bell);
		assert_int_equal(events_at(channel), bells[i].told);
	}
}

/* --- waiting for the lock of one who is stopped ----------------------------------- */

static bool all_alive(uint32_t owner)
{
	return true;
}

TEST_WITH(the_owner_is_told, set_up, tear_down)
{
	static const struct {
		enum av_cq_armed armed;
		bool told;
	} rows[] = {
		{AV_CQ_NOT_ARMED, false},
		{AV_CQ_ARMED_SOLICITED, true},
		{AV_CQ_ARMED_ANY, true},
	};
	bool (*const alive)(uint32_t) = av_lock_owner_alive;
	struct av_cqe e = {.wr_id = 7};

	av_lock_owner_alive = all_alive;
	fake.seg.own = false;
	atomic_store(&cq->producer[0].lock.owner, PEER);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct av_doorbell_record record;

		av_oneshot_arm(&cq->producer[0].armed, rows[i].armed);
		atomic_store(&fake.seg.in_vain_until_ns, 0);
		assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), -ENOSPC); /* after 2 s */
		assert_int_equal(events_at(channel) > 0, rows[i].told);
		while (read(channel, &record, sizeof(record)) == sizeof(record))
			assert_true(record.kind == AV_SLAB_CQ && record.index == INDEX &&
				    record.id == 1 && record.event == 0);
	}
	av_lock_owner_alive = alive;
}

int main(void)
{
	return run_cases(NULL, NULL);
}
