/* SPDX-License-Identifier: MIT */
/* Appending to a CQ: in order, without room, with an event, and by who dies or stops in between. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "lib/skipped_clock.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "segment/segment.h"
#include "unit/memory/seg_fixture.h"

#define INDEX	 1u
#define CQES	 8u
#define CAPACITY 6u
#define CHUNK_AT (1ul << 26)
#define RING_AT	 (1ul << 27)
#define HEAP_AT	 (1ul << 28)
#define HEAP_END (1ul << 29)
#define PEER	 2u /* identity of another process */

static struct av_cq_shared *cq;

static int set_up(void **state)
{
	fake_open(&fake, 1);
	atomic_store(&fake.seg.head->chunk[AV_SLAB_CQ][0], CHUNK_AT);
	cq = av_cq_at(&fake.seg, INDEX);
	cq->capacity = CAPACITY;
	cq->mask[0] = CQES - 1;
	cq->ring[0] = RING_AT;
	atomic_store(&cq->id, 1);
	return 0;
}

static void append(uint64_t wr_id)
{
	struct av_cqe e = {.wr_id = wr_id};

	assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), 0);
}

static uint64_t take(void)
{
	const struct av_cqe *e = av_cq_peek(&fake.seg, cq);
	uint64_t wr_id = e ? e->wr_id : 0;

	if (e)
		av_cq_take(cq);
	return wr_id;
}

static bool locked(void)
{
	return atomic_load(&cq->producer[0].lock.owner) != 0;
}

/* --- the usual course ------------------------------------------------------------ */

TEST_WITH(entries_come_in_order_over_many_turns_of_the_ring, set_up, close_fake)
{
	uint64_t in = 0, out = 0;

	for (unsigned int round = 0; round < 200; round++) {
		for (unsigned int i = 0; i < 1 + round % CAPACITY; i++)
			append(++in);
		while (out < in)
			assert_int_equal(take(), ++out);
		assert_null(av_cq_peek(&fake.seg, cq));
		assert_false(locked());
	}
}

TEST_WITH(the_time_is_put_down_if_it_is_wanted, set_up, close_fake)
{
	for (uint32_t stamped = 0; stamped < 2; stamped++) {
		atomic_store(&cq->stamped, stamped);
		append(1);
		assert_int_equal(av_cq_peek(&fake.seg, cq)->stamp_ns != 0, stamped);
		(void)take();
	}
}

/* --- no room --------------------------------------------------------------------- */

static void fill_up(void)
{
	for (unsigned int i = 0; i < CAPACITY; i++)
		append(i + 1);
}

TEST_WITH(a_full_cq_is_not_broken_and_has_room_when_polled, set_up, close_fake)
{
	fill_up();
	assert_int_equal(atomic_load(&cq->overrun), 0);
	assert_int_equal(take(), 1);
	append(CAPACITY + 1);
	assert_int_equal(atomic_load(&cq->overrun), 0);
	for (unsigned int i = 2; i <= CAPACITY + 1; i++)
		assert_int_equal(take(), i);
}

/* Wherever its numbers stand; the appender's copy of @head is old. */
TEST_WITH(a_cq_holds_its_capacity_and_no_more, set_up, close_fake)
{
	static const uint32_t heads[] = {0, 1, 1u << 31, UINT32_MAX - CAPACITY, UINT32_MAX};

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct av_cqe e = {.wr_id = 7};

		close_fake(state);
		set_up(state);
		atomic_store(&cq->head, heads[i]);
		atomic_store(&cq->producer[0].tail, heads[i]);
		cq->producer[0].head_seen = heads[i];
		cq->producer[0].level = CAPACITY;
		fill_up();
		assert_int_equal(cq->producer[0].peak, 0); /* not looked at yet */
		assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), -ENOSPC);
		assert_true(cq->producer[0].peak <= CAPACITY);
		for (unsigned int n = 1; n <= CAPACITY; n++)
			assert_int_equal(take(), n);
		assert_int_equal(take(), 0);
	}
}

TEST_WITH(a_cq_that_was_overrun_takes_no_more, set_up, close_fake)
{
	struct av_cqe e = {.wr_id = 7};

	fill_up();
	for (uint64_t lost = 1; lost <= 2; lost++) {
		assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), -ENOSPC);
		assert_int_equal(atomic_load(&cq->overrun), 1);
		assert_int_equal(av_cq_counted(cq).lost, lost);
		assert_false(locked());
	}
	for (unsigned int i = 1; i <= CAPACITY; i++)
		assert_int_equal(take(), i);
	assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), -ENOSPC);
	assert_null(av_cq_peek(&fake.seg, cq));
	assert_false(locked());
}

TEST_WITH(no_cq_takes_nothing, set_up, close_fake)
{
	struct av_cqe e = {.wr_id = 7};

	assert_int_equal(av_cq_push(&fake.seg, AV_SLAB_CHUNKS * AV_OBJ_CHUNK, &e, NULL), -ENOSPC);
	/* of a table that is not there */
	assert_int_equal(av_cq_push(&fake.seg, AV_OBJ_CHUNK + 1, &e, NULL), -ENOSPC);
	av_cq_overrun(&fake.seg, AV_OBJ_CHUNK + 1);
	av_cq_prefetch(&fake.seg, AV_OBJ_CHUNK + 1);
	assert_false(av_cq_holds_receive(&fake.seg, AV_OBJ_CHUNK + 1, 1, 1));
	atomic_store(&cq->ring[0], AV_SEG_BYTES); /* a peer's nonsense */
	assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), -ENOSPC);
	assert_int_equal(atomic_load(&cq->producer[0].tail), 0);
	assert_false(locked());
}

/* --- events ---------------------------------------------------------------------- */

static const struct {
	enum av_cq_armed how;
	uint8_t flags, status;
	bool event;
} rows[] = {
	{AV_CQ_NOT_ARMED, AV_CQE_SOLICITED, IBV_WC_SUCCESS, false},
	{AV_CQ_ARMED_ANY, 0, IBV_WC_SUCCESS, true},
	{AV_CQ_ARMED_ANY, 0, IBV_WC_WR_FLUSH_ERR, true},
	{AV_CQ_ARMED_SOLICITED, 0, IBV_WC_SUCCESS, false},
	{AV_CQ_ARMED_SOLICITED, AV_CQE_SOLICITED, IBV_WC_SUCCESS, true},
	{AV_CQ_ARMED_SOLICITED, 0, IBV_WC_WR_FLUSH_ERR, true},
};

TEST_WITH(an_event_disarms, set_up, close_fake)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct av_cqe e = {.flags = rows[i].flags, .status = rows[i].status};

		close_fake(state);
		set_up(state);
		av_oneshot_arm(&cq->producer[0].armed, rows[i].how);
		assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), 0);
		if ((av_oneshot_armed(&cq->producer[0].armed) != rows[i].how) != rows[i].event)
			fail_msg("row %zu", i);
		assert_false(locked());
	}
}

/*
 * Entries that were appended while it was not armed, those of them that are polled, and those that
 * are appended when it is: arming makes an event of what is still there, and of nothing else.
 */
static const struct {
	unsigned int before, polled;
	bool event;
} armed_rows[] = {{0, 0, false}, {1, 1, false}, {3, 3, false}, {1, 0, true}, {3, 2, true}};

TEST_WITH(arming_makes_an_event_of_what_is_there, set_up, close_fake)
{
	for (size_t i = 0; i < sizeof(armed_rows) / sizeof(armed_rows[0]); i++) {
		close_fake(state);
		set_up(state);
		for (uint64_t n = 1; n <= armed_rows[i].before; n++)
			append(n);
		for (uint64_t n = 1; n <= armed_rows[i].polled; n++)
			assert_true(take() == n);
		av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
		if ((av_oneshot_armed(&cq->producer[0].armed) == AV_CQ_NOT_ARMED) !=
		    armed_rows[i].event)
			fail_msg("row %zu", i);
		/* What has made an event makes none again. */
		av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
		if (armed_rows[i].before - armed_rows[i].polled < 2)
			assert_int_equal(av_oneshot_armed(&cq->producer[0].armed), AV_CQ_ARMED_ANY);
		assert_false(locked());
	}
}

/* Polled or not: programs arm the CQ, then poll. */
TEST_WITH(what_has_made_an_event_makes_none_again, set_up, close_fake)
{
	av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
	append(1);
	assert_int_equal(av_oneshot_armed(&cq->producer[0].armed), AV_CQ_NOT_ARMED);
	av_cq_arm(&fake.seg, INDEX, AV_CQ_ARMED_ANY);
	assert_int_equal(av_oneshot_armed(&cq->producer[0].armed), AV_CQ_ARMED_ANY);
	append(2);
	assert_int_equal(av_oneshot_armed(&cq->producer[0].armed), AV_CQ_NOT_ARMED);
}

/* Fewer than @count entries wait for @period_us, which is the timer's to watch. */
static const struct {
	uint16_t count, period_us, entries;
	bool event;
	uint32_t woken; /* times that the timer is */
} moderated_rows[] = {
	{0, 0, 1, true, 0},	 {2, 0, 1, false, 0},	 {2, 0, 2, true, 0},
	{2, 60000, 1, false, 1}, {2, 60000, 2, true, 1}, {0, 60000, 2, false, 1},
};

TEST_WITH(the_timer_watches_an_event_that_is_put_off, set_up, close_fake)
{
	for (size_t i = 0; i < sizeof(moderated_rows) / sizeof(moderated_rows[0]); i++) {
		close_fake(state);
		set_up(state);
		cq->producer[0].event_count = moderated_rows[i].count;
		cq->producer[0].event_period_us = moderated_rows[i].period_us;
		av_oneshot_arm(&cq->producer[0].armed, AV_CQ_ARMED_ANY);
		for (uint64_t n = 1; n <= moderated_rows[i].entries; n++)
			append(n);
		if ((av_oneshot_armed(&cq->producer[0].armed) == AV_CQ_NOT_ARMED) !=
			    moderated_rows[i].event ||
		    atomic_load(&fake.seg.head->timer_doorbell) != moderated_rows[i].woken)
			fail_msg("row %zu", i);
	}
}

/* Who has put the event off may have been stopped before the timer was told when it is due. */
static const struct {
	uint64_t due_ns;
	bool event;
} late_rows[] = {{1, true}, {UINT64_MAX / 2, false}};

TEST_WITH(an_entry_sends_the_event_that_the_timer_is_late_for, set_up, close_fake)
{
	for (size_t i = 0; i < sizeof(late_rows) / sizeof(late_rows[0]); i++) {
		close_fake(state);
		set_up(state);
		cq->producer[0].event_period_us = 60000;
		atomic_store(&cq->producer[0].event_due_ns, late_rows[i].due_ns);
		av_oneshot_arm(&cq->producer[0].armed, AV_CQ_ARMED_ANY);
		append(1);
		if ((av_oneshot_armed(&cq->producer[0].armed) == AV_CQ_NOT_ARMED) !=
		    late_rows[i].event)
			fail_msg("row %zu", i);
		assert_int_equal(atomic_load(&cq->producer[0].event_due_ns),
				 late_rows[i].event ? 0 : late_rows[i].due_ns);
		assert_int_equal(atomic_load(&fake.seg.head->timer_doorbell), 0);
	}
}

TEST_WITH(the_first_who_waits_directly_is_told_that_it_is, set_up, close_fake)
{
	for (int i = 0; i < 3; i++) {
		assert_int_equal(av_cq_notify_waits(&fake.seg, INDEX), i == 0);
		assert_int_equal(atomic_load(&cq->notify), AV_CQ_NOTIFY_USED);
		assert_false(locked());
	}
}

/* --- who appends dies with the lock ---------------------------------------------- */

static bool all_dead(uint32_t owner)
{
	return false;
}

/* Up to which store an appender of entry 2 came before it died. */
enum moment { LOCKED, WRITTEN, PUBLISHED, COUNTED, MOMENTS };

/* What it left. */
static void die_appending(enum moment moment)
{
	uint32_t tail = atomic_load(&cq->producer[0].tail);
	struct av_cqe *e = av_cq_entry(&fake.seg, cq, 0, tail);

	atomic_store(&cq->producer[0].lock.owner, PEER);
	if (moment >= WRITTEN)
		*e = (struct av_cqe){.wr_id = 2, .there = atomic_load(&e->there)};
	if (moment >= PUBLISHED)
		atomic_store(&e->there, AV_CQE_THERE(tail));
	if (moment >= COUNTED)
		atomic_store(&cq->producer[0].tail, tail + 1);
}

/* @polled: the owner has taken all there is before the lock is taken over. */
TEST_WITH(death_in_between, set_up, close_fake)
{
	bool (*const alive)(uint32_t) = av_lock_owner_alive;

	for (int i = 0; i < 2 * MOMENTS; i++) {
		enum moment moment = i / 2;
		uint64_t there = moment >= PUBLISHED ? 2 : 1, polled = i % 2 ? there : 0;

		close_fake(state);
		set_up(state);
		append(1);
		die_appending(moment);
		for (uint64_t n = 1; n <= polled; n++)
			assert_int_equal(take(), n);
		assert_true(!polled || !av_cq_peek(&fake.seg, cq));
		av_lock_owner_alive = all_dead;
		append(3);
		av_lock_owner_alive = alive;
		for (uint64_t n = polled + 1; n <= there; n++)
			assert_int_equal(take(), n);
		assert_int_equal(take(), 3);
		assert_null(av_cq_peek(&fake.seg, cq));
		assert_int_equal(atomic_load(&cq->head), atomic_load(&cq->producer[0].tail));
		assert_false(locked());
	}
}

/* --- who appends is stopped with the lock ---------------------------------------- */

/*
 * Asked before the producer ring is left behind. It has its lock held by this process from then on,
 * for which the change waits between the new producer ring's announcement and the look at what is
 * there.
 */
static bool hold_for_peer(uint32_t owner)
{
	atomic_store(&cq->producer[0].lock.owner, av_lock_self);
	return true;
}

static void *leave_producer(void *unused)
{
	av_cq_producer_look(&fake.seg, cq);
	clock_skip_ns(AV_STUCK_NS);
	av_cq_producer_look(&fake.seg, cq);
	return NULL;
}

/* @polled: the owner has taken the entry before. Return: does its appender have to append again? */
static bool stop_appending(enum moment moment, bool polled)
{
	bool (*const alive)(uint32_t) = av_lock_owner_alive;
	pthread_t owner;
	bool again;

	die_appending(moment);
	if (polled)
		assert_int_equal(take(), 2);
	av_lock_owner_alive = hold_for_peer;
	assert_int_equal(pthread_create(&owner, NULL, leave_producer, NULL), 0);
	while (av_cq_used(cq) == 0)
		sched_yield();
	again = av_cqe_claim(av_cq_entry(&fake.seg, cq, 0, 1), 1);
	atomic_store(&cq->producer[0].lock.owner, 0);
	assert_int_equal(pthread_join(owner, NULL), 0);
	av_lock_owner_alive = alive;
	return again;
}

/* It goes on when the other producer ring is announced, and nothing has been brought there yet. */
TEST_WITH(an_appender_that_was_stopped_appends_what_nobody_has, set_up, close_fake)
{
	for (int i = 0; i < 4; i++) {
		enum moment moment = i < 2 ? PUBLISHED : COUNTED;
		bool polled = i % 2;

		close_fake(state);
		set_up(state);
		assert_true(av_own_fd_keep(&fake.seg.file, dup(fake.fd)));
		assert_true(av_heap_create(&fake.seg, HEAP_AT, HEAP_END, 1));
		append(1);
		assert_int_equal(take(), 1);
		assert_int_equal(stop_appending(moment, polled), !polled);
		assert_null(av_cq_peek(&fake.seg, cq));
		append(3);
		assert_int_equal(take(), 3);
		av_heap_destroy(&fake.seg);
		av_own_fd_close(&fake.seg.file);
	}
}

/* --- which entries are there ----------------------------------------------------- */

TEST_WITH(an_entry_is_there_when_it_is_published, set_up, close_fake)
{
	struct av_cqe *e = av_cq_entry(&fake.seg, cq, 0, 0);

	e->wr_id = 1;
	assert_null(av_cq_peek(&fake.seg, cq));
	atomic_store(&e->there, AV_CQE_THERE(0));
	assert_int_equal(take(), 1);
}

TEST_WITH(an_entry_is_present_before_it_is_counted_and_not_a_turn_later, set_up, close_fake)
{
	append(1);
	append(2);
	atomic_store(&cq->producer[0].tail,
		     1); /* as between publishing the second and counting it */
	for (uint32_t i = 0; i < 4 * CQES; i++) {
		atomic_store(&cq->head, i);
		assert_int_equal(av_cq_peek(&fake.seg, cq) != NULL, i < 2);
	}
}

static const struct {
	uint32_t qpn, wqe;
	bool held;
} receives[] = {
	{5, 3, true},  {6, 4, true},  {5, 4, false}, {6, 3, false},
	{7, 3, false}, {8, 1, false}, {9, 9, false},
};

/* Neither an entry that was polled, nor one of a send queue, holds a receive request. */
TEST_WITH(an_entry_holds_its_receive_request, set_up, close_fake)
{
	const struct av_cqe entries[] = {
		{.qpn = 7, .wqe = 3, .flags = AV_CQE_RECV},
		{.qpn = 5, .wqe = 3, .flags = AV_CQE_RECV},
		{.qpn = 8, .wqe = 1},
		{.qpn = 6, .wqe = 4, .flags = AV_CQE_RECV},
	};

	const struct av_cqe former = {.qpn = 9, .wqe = 9, .flags = AV_CQE_RECV};

	assert_false(av_cq_holds_receive(&fake.seg, INDEX, 7, 3));
	for (unsigned int i = 0; i < 3 * CQES; i++) { /* each place has held one */
		assert_int_equal(av_cq_push(&fake.seg, INDEX, &former, NULL), 0);
		av_cq_take(cq);
	}
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		assert_int_equal(av_cq_push(&fake.seg, INDEX, &entries[i], NULL), 0);
	(void)take();
	for (size_t i = 0; i < sizeof(receives) / sizeof(receives[0]); i++)
		if (av_cq_holds_receive(&fake.seg, INDEX, receives[i].qpn, receives[i].wqe) !=
		    receives[i].held)
			fail_msg("row %zu", i);
	assert_false(locked());
}

TEST_WITH(a_cq_holds_no_more_than_there_can_be, set_up, close_fake)
{
	const struct av_cqe e = {.qpn = 5, .wqe = 3, .flags = AV_CQE_RECV};

	assert_int_equal(av_cq_push(&fake.seg, INDEX, &e, NULL), 0);
	atomic_store(&cq->producer[0].tail, AV_MAX_CQE);
	assert_true(av_cq_holds_receive(&fake.seg, INDEX, 5, 3));
	atomic_store(&cq->producer[0].tail, AV_MAX_CQE + 1); /* a peer's nonsense */
	assert_false(av_cq_holds_receive(&fake.seg, INDEX, 5, 3));
}

int main(void)
{
	return run_cases(NULL, NULL);
}
