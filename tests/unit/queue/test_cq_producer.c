/* SPDX-License-Identifier: MIT */
/* When the owner of a CQ leaves a producer ring behind, and what it finds in the other one. */
#include <errno.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "lib/skipped_clock.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "queue/rq.h"
#include "unit/memory/heap_fixture.h"

#define PEER	 2u /* identity of another process */
#define CAPACITY 4u
#define LOOKS	 100u

static uint32_t at;
static struct av_cq_shared *cq;
static bool (*usual)(uint32_t);

static int make(void **state)
{
	set_up(state);
	usual = av_lock_owner_alive;
	at = av_cq_init(seg, CAPACITY, 0, 1, 1000, NULL);
	cq = av_cq_at(seg, at);
	return at && cq ? 0 : -1;
}

static int end(void **state)
{
	av_lock_owner_alive = usual;
	atomic_store(&cq->producer[0].lock.owner, 0);
	atomic_store(&cq->producer[1].lock.owner, 0);
	av_cq_fini(seg, at);
	return tear_down(state);
}

static void make_for(uint32_t capacity)
{
	av_cq_fini(seg, at);
	at = av_cq_init(seg, capacity, 0, 1, 1000, NULL);
	cq = av_cq_at(seg, at);
	assert_true(at && cq);
}

static void append(uint64_t wr_id)
{
	struct av_cqe e = {.wr_id = wr_id};

	assert_int_equal(av_cq_push(seg, at, &e, NULL), 0);
}

static uint64_t take(void)
{
	const struct av_cqe *e = av_cq_peek(seg, cq);
	uint64_t wr_id = e ? e->wr_id : 0;

	if (e)
		av_cq_take(cq);
	return wr_id;
}

static bool lives(uint32_t owner)
{
	return true;
}

static bool is_dead(uint32_t owner)
{
	return false;
}

/* The owner looks twice, with so much time in between that the holder of the lock is stuck. */
static void look_twice(void)
{
	av_cq_producer_look(seg, cq);
	clock_skip_ns(AV_STUCK_NS);
	av_cq_producer_look(seg, cq);
}

static void leave_behind(void)
{
	av_lock_owner_alive = lives;
	atomic_store(&cq->producer[0].lock.owner, PEER);
	look_twice();
	assert_int_equal(av_cq_used(cq), 1);
}

/* --- who is left behind ------------------------------------------------------------ */

static const struct {
	uint32_t holder;
	bool (*alive)(uint32_t owner);
	uint32_t used; /* afterwards */
} holders[] = {{0, lives, 0}, {PEER, lives, 1}, {PEER, is_dead, 0}};

TEST_WITH(only_who_lives_and_holds_the_lock, make, end)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(holders); i++) {
		make_for(CAPACITY);
		av_lock_owner_alive = holders[i].alive;
		atomic_store(&cq->producer[0].lock.owner, holders[i].holder);
		look_twice();
		if (av_cq_used(cq) != holders[i].used)
			fail_msg("row %zu", i);
		atomic_store(&cq->producer[0].lock.owner, 0);
		av_cq_producer_look(seg, cq);
	}
}

/* Whatever its number is, and whoever wants the lock. */
TEST_WITH(nobody_takes_the_lock_from_who_lives, make, end)
{
	const struct av_cqe e = {.wr_id = 1};
	const uint32_t self = av_lock_self;

	av_lock_owner_alive = lives;
	seg->own = false; /* its peers do not wait without end: */
	atomic_store(&seg->in_vain_until_ns, UINT64_MAX);
	for (uint32_t holder = 1; holder < 5; holder++) {
		av_lock_self = holder + 1;
		atomic_store(&cq->producer[0].lock.owner, holder);
		assert_int_equal(av_cq_push(seg, at, &e, NULL), -ENOSPC);
		assert_int_equal(atomic_load(&cq->producer[0].lock.owner), holder);
	}
	av_lock_self = self;
	seg->own = true;
}

/* At once the holder is not stuck, nor while entries come in. */
TEST_WITH(not_who_goes_on, make, end)
{
	av_lock_owner_alive = lives;
	atomic_store(&cq->producer[0].lock.owner, PEER);
	for (uint32_t turn = 0; turn < 3; turn++) {
		av_cq_producer_look(seg, cq);
		assert_int_equal(av_cq_used(cq), 0);
		clock_skip_ns(AV_STUCK_NS);
		atomic_store(&cq->producer[0].tail, turn + 1);
	}
	av_cq_producer_look(seg, cq);
	atomic_store(&cq->producer[0].lock.owner, 0);
	av_cq_producer_look(seg, cq); /* it had the lock, and took it anew */
	atomic_store(&cq->producer[0].lock.owner, PEER);
	av_cq_producer_look(seg, cq);
	assert_int_equal(av_cq_used(cq), 0);
	atomic_store(&cq->producer[0].tail, 0);
}

static uint32_t waited_for; /* whose lock is, and how often it was asked after */
static unsigned int asked;

/* The lock of that one is free at the second question, some milliseconds after the first. */
static bool let_go(uint32_t owner)
{
	if (owner == waited_for && ++asked == 2)
		for (int i = 0; i < 2; i++)
			if (atomic_load(&cq->producer[i].lock.owner) == owner)
				atomic_store(&cq->producer[i].lock.owner, 0);
	return true;
}

/* From then on each look finds that the holder is stuck. */
static void look_twice_in_vain(void)
{
	asked = 2;
	atomic_store(&cq->producer[1].lock.owner, PEER + 1);
	look_twice();
	assert_int_equal(av_cq_used(cq), 0);
}

/* Within @AV_STUCK_NS, which a busy machine may miss a few times. */
TEST_WITH(the_other_producer_is_waited_for, make, end)
{
	av_lock_owner_alive = let_go;
	waited_for = PEER + 1;
	atomic_store(&cq->producer[0].lock.owner, PEER);
	look_twice_in_vain();
	for (unsigned int look = 0; look < LOOKS && av_cq_used(cq) == 0; look++) {
		asked = 0;
		atomic_store(&cq->producer[1].lock.owner, PEER + 1);
		av_cq_producer_look(seg, cq);
	}
	assert_int_equal(av_cq_used(cq), 1);
}

TEST_WITH(who_holds_the_lock_for_a_moment_is_waited_for, make, end)
{
	bool waited = false;

	av_lock_owner_alive = let_go;
	waited_for = PEER;
	for (unsigned int look = 0; look < LOOKS && !waited; look++) {
		make_for(CAPACITY);
		asked = 0;
		atomic_store(&cq->producer[0].lock.owner, PEER);
		append(1);
		waited = av_cq_used(cq) == 0;
		atomic_store(&cq->producer[0].lock.owner, 0);
	}
	assert_true(waited);
}

/* --- another thread was faster ------------------------------------------------------ */

static uint64_t other_ring;

/* Asked while the lock is waited for: by then, another thread of the owner has changed the producer
 * ring.
 */
static bool change_meanwhile(uint32_t owner)
{
	if (av_cq_used(cq) == 0) {
		atomic_store(&cq->ring[1], other_ring);
		atomic_store(&cq->mask[1], CAPACITY - 1);
		cq->producer[1].level = CAPACITY;
		atomic_store(&cq->used, 1);
	}
	return true;
}

TEST_WITH(what_was_left_behind_already_is_not_left_again, make, end)
{
	other_ring = av_ring_alloc(seg, CAPACITY * sizeof(struct av_cqe), NULL);
	assert_int_not_equal(other_ring, 0);
	av_lock_owner_alive = change_meanwhile;
	atomic_store(&cq->producer[0].lock.owner, PEER);
	append(7);
	assert_int_equal(av_cq_used(cq), 1);
	assert_true(cq->ring[1] == other_ring);
	assert_int_equal(take(), 7);
}

/* --- who leaves it ------------------------------------------------------------------ */

static uint32_t
	poller; /* who held poll_lock at the last question, which leaves the producer ring */

static bool see_poller(uint32_t owner)
{
	poller = atomic_load(&cq->poll_lock.owner);
	return true;
}

static bool of_none(const struct av_cqe *cqe, uint32_t number)
{
	return false;
}

static bool drop(struct av_seg *of, struct av_cqe *cqe)
{
	return true;
}

static void by_push(void)
{
	append(2);
}

static void by_resize(void)
{
	assert_int_equal(av_cq_resize(seg, at, 8, NULL), 0);
}

static void by_purge(void)
{
	av_cq_purge(seg, at, of_none, 0, drop);
}

static void by_arm(void)
{
	av_cq_arm(seg, at, AV_CQ_ARMED_ANY);
}

static void by_notify(void)
{
	assert_true(av_cq_notify_waits(seg, at));
}

static void by_look(void)
{
	av_cq_look_again(seg, at);
}

static void by_moderate(void)
{
	av_cq_moderate(seg, at, 1, 0);
}

static void by_timer(void)
{
	atomic_store(&cq->producer[0].event_due_ns, 1);
	assert_true(av_cq_put_off(seg, at, 2) == UINT64_MAX);
}

static void by_repair(void)
{
	assert_false(av_cq_holds_receive(seg, at, 5, 5));
}

static void by_overrun(void)
{
	av_cq_overrun(seg, at);
}

/* Some hold poll_lock before. */
static void (*const ways[])(void) = {by_push, by_resize,   by_purge, by_arm,	by_notify,
				     by_look, by_moderate, by_timer, by_repair, by_overrun};

TEST_WITH(nobody_polls_while_a_producer_is_left, make, end)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(ways); i++) {
		make_for(CAPACITY);
		append(1);
		poller = 0;
		av_lock_owner_alive = see_poller;
		atomic_store(&cq->producer[0].lock.owner, PEER);
		ways[i]();
		assert_int_equal(av_cq_used(cq), 1);
		assert_int_equal(poller, av_lock_self);
		assert_int_equal(atomic_load(&cq->poll_lock.owner), 0);
		assert_int_equal(take(), 1);
		atomic_store(&cq->producer[0].lock.owner, 0);
	}
}

/* --- the other ring ------------------------------------------------------------------ */

static const uint32_t sizes[] = {1, 2, 4, 8};

/* Where the next ring for so many entries would be. */
static uint64_t next_ring(uint32_t entries)
{
	uint64_t bytes = entries * sizeof(struct av_cqe), ring = av_ring_alloc(seg, bytes, NULL);

	assert_int_not_equal(ring, 0);
	av_seg_free(seg, ring, bytes);
	return ring;
}

TEST_WITH(it_is_of_the_same_size_and_the_former_goes_back, make, end)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(sizes); i++) {
		uint64_t next, former;

		make_for(sizes[i]);
		next = next_ring(sizes[i]);
		former = cq->ring[0];
		leave_behind();
		assert_true(cq->ring[1] == next);
		assert_true(next_ring(sizes[i]) != next);
		assert_true(next_ring(sizes[i]) != former);
		av_cq_producer_look(seg, cq); /* somebody is in there still */
		assert_true(next_ring(sizes[i]) != former);
		atomic_store(&cq->producer[0].lock.owner, 0);
		av_cq_producer_look(seg, cq);
		assert_true(next_ring(sizes[i]) == former);
	}
}

TEST_WITH(it_has_all_entries_of_a_full_one, make, end)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(sizes); i++) {
		make_for(sizes[i]);
		append(99);
		assert_int_equal(take(), 99);
		for (uint32_t n = 1; n <= sizes[i]; n++)
			append(n);
		leave_behind();
		for (uint32_t n = 1; n <= sizes[i]; n++)
			assert_int_equal(take(), n);
		assert_int_equal(take(), 0);
		append(100);
		assert_int_equal(take(), 100);
		atomic_store(&cq->producer[0].lock.owner, 0);
		av_cq_producer_look(seg, cq);
	}
}

/* Whatever the memory of the new ring has held, and whatever numbers come next. */
TEST_WITH(it_has_no_other_entries, make, end)
{
	static const uint32_t heads[] = {0, 0x01010100, 0xfffffffe, UINT32_MAX};

	for (size_t i = 0; i < AV_ARRAY_SIZE(heads); i++) {
		make_for(CAPACITY);
		atomic_store(&cq->head, heads[i]);
		atomic_store(&cq->producer[0].tail, heads[i]);
		leave_behind();
		assert_int_equal(take(), 0);
		assert_int_equal(atomic_load(&cq->producer[1].tail), heads[i]);
		append(1);
		assert_int_equal(take(), 1);
		assert_int_equal(take(), 0);
		atomic_store(&cq->producer[0].lock.owner, 0);
		av_cq_producer_look(seg, cq);
	}
}

TEST_WITH(it_is_empty_if_the_former_is_nowhere, make, end)
{
	uint64_t ring = cq->ring[0];

	append(1);
	atomic_store(&cq->ring[0], AV_SEG_BYTES); /* a peer's nonsense */
	leave_behind();
	assert_int_equal(take(), 0);
	atomic_store(&cq->ring[0], ring);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
