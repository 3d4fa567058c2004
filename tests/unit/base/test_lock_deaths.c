/* SPDX-License-Identifier: MIT */
/* Locks of processes that are killed. */
#include <pthread.h>
#include <signal.h>

#include "lib/unit.h"
#include "lib/wait.h"
#include "lock_fixture.h"

#define VICTIM	2u
#define DEATHS	(SANITIZED ? 40 : 100)
#define WAITERS 3

static struct arena {
	struct av_lock lock AV_ALIGNED(8);
	struct av_lock second;
	_Atomic uint64_t begun, done; /* equal, but within a turn */
	_Atomic bool ready;
} * arena;

static int setup(void **state)
{
	arena = shared_memory(sizeof(*arena));
	return fixture_setup(state);
}

static void get_there(void *victim)
{
	void (**run)(void) = victim;

	(*run)();
	atomic_store(&arena->ready, true);
	for (;;)
		pause();
}

/* @victim: what it does before it can be killed */
static pid_t start(void (*victim)(void))
{
	pid_t pid;

	atomic_store(&arena->ready, false);
	pid = fork_as(VICTIM, get_there, &victim);
	CHECK(WAIT_UNTIL(atomic_load(&arena->ready), 1000 * TOO_LONG_S));
	return pid;
}

static enum av_lock_result acquire(void)
{
	return av_lock_acquire(&arena->lock, AV_RANK_CQ);
}

static enum av_lock_result try(void)
{
	enum av_lock_result got;
	time_t stop = deadline();

	while ((got = av_lock_try(&arena->lock, AV_RANK_CQ)) == AV_LOCK_BUSY)
		CHECK(time(NULL) < stop);
	return got;
}

static enum av_lock_result (*const take[])(void) = {acquire, try};

/* --- at a certain point ---------------------------------------------------------- */

static void outside(void)
{
	av_lock_acquire_plain(&arena->lock, AV_RANK_CQ);
	av_lock_release(&arena->lock);
}

static void inside(void)
{
	av_lock_acquire_plain(&arena->lock, AV_RANK_CQ);
}

static void inside_both(void)
{
	CHECK(av_lock_try_both(&arena->lock, AV_RANK_CQ, AV_RANK_CQ));
}

static void inside_the_second(void)
{
	inside_both();
	av_lock_release(&arena->lock);
}

static const struct {
	const char *name;
	void (*victim)(void);
	enum av_lock_result first, second; /* what who takes them first is told */
} points[] = {
	{"outside", outside, AV_LOCK_TAKEN, AV_LOCK_TAKEN},
	{"inside", inside, AV_LOCK_REPAIR, AV_LOCK_TAKEN},
	{"inside both", inside_both, AV_LOCK_REPAIR, AV_LOCK_REPAIR},
	{"inside the second", inside_the_second, AV_LOCK_TAKEN, AV_LOCK_REPAIR},
};

TEST_WITH(repaired_once, setup, NULL)
{
	for (size_t i = 0; i < 2 * AV_ARRAY_SIZE(points); i++) {
		const char *name = points[i / 2].name;
		enum av_lock_result second = points[i / 2].second;

		kill_as(VICTIM, start(points[i / 2].victim));
		if (second == AV_LOCK_REPAIR || points[i / 2].first == AV_LOCK_REPAIR)
			assert_false(av_lock_try_both(&arena->lock, AV_RANK_CQ, AV_RANK_CQ));
		if (take[i % 2]() != points[i / 2].first)
			fail_msg("%s: %zu", name, i % 2);
		av_lock_release(&arena->lock);
		if (av_lock_acquire(&arena->second, AV_RANK_CQ) != second)
			fail_msg("%s: the second", name);
		av_lock_release(&arena->second);
		assert_int_equal(take[i % 2](), AV_LOCK_TAKEN);
		av_lock_release(&arena->lock);
		assert_true(av_lock_try_both(&arena->lock, AV_RANK_CQ, AV_RANK_CQ));
		av_lock_release(&arena->lock);
		av_lock_release(&arena->second);
	}
}

/* Who only wants what is free leaves the dead alone. */
TEST_WITH(not_who_tries_what_is_free, setup, NULL)
{
	kill_as(VICTIM, start(inside));
	for (int i = 0; i < 1000; i++)
		assert_false(av_lock_try_free(&arena->lock, AV_RANK_CQ));
	assert_int_equal(acquire(), AV_LOCK_REPAIR);
	av_lock_release(&arena->lock);
}

/* Its holder is alive, and one that waits for it is killed. */
static void wait_for_it(void *arg)
{
	atomic_store(&arena->ready, true);
	av_lock_acquire_plain(&arena->lock, AV_RANK_CQ);
}

TEST_WITH(who_only_waited_has_left_nothing, setup, NULL)
{
	pid_t pid;

	assert_int_equal(acquire(), AV_LOCK_TAKEN);
	pid = fork_as(VICTIM, wait_for_it, NULL);
	assert_true(WAIT_UNTIL(atomic_load(&arena->ready) && task_sleeps(pid), 1000 * TOO_LONG_S));
	kill_as(VICTIM, pid);
	av_lock_release(&arena->lock);
	assert_int_equal(acquire(), AV_LOCK_TAKEN);
	av_lock_release(&arena->lock);
}

/* --- while several wait ---------------------------------------------------------- */

static _Atomic uint32_t repairs;

static void *wait_once(void *arg)
{
	if (acquire() == AV_LOCK_REPAIR)
		atomic_fetch_add(&repairs, 1);
	av_lock_release(&arena->lock);
	return NULL;
}

TEST_WITH(one_of_those_who_wait_repairs, setup, NULL)
{
	for (int round = 0; round < 10; round++) {
		pid_t pid = start(inside);
		pthread_t thread[WAITERS];

		atomic_store(&repairs, 0);
		for (int i = 0; i < WAITERS; i++)
			assert_int_equal(pthread_create(&thread[i], NULL, wait_once, NULL), 0);
		kill_as(VICTIM, pid);
		for (int i = 0; i < WAITERS; i++)
			pthread_join(thread[i], NULL);
		assert_int_equal(atomic_load(&repairs), 1);
	}
}

/* --- anywhere -------------------------------------------------------------------- */

static void turn(void)
{
	uint64_t n = atomic_load(&arena->done) + 1;

	atomic_store(&arena->begun, n);
	pauses(40);
	atomic_store(&arena->done, n);
}

static void turns(void *arg)
{
	atomic_store(&arena->ready, true);
	for (;;) {
		if (av_lock_acquire(&arena->lock, AV_RANK_CQ) == AV_LOCK_REPAIR)
			_exit(1);
		turn();
		av_lock_release(&arena->lock);
		pauses(40); /* others want it, too */
	}
}

/* Whoever takes it afterwards is told unless all turns were over; and only then is it repaired. */
TEST_WITH(whoever_dies_inside_is_told_of, setup, NULL)
{
	struct participant p = {.random = 1};
	uint32_t inside_it = 0;

	/* Chance decides who dies inside: some more, until one has. */
	for (int i = 0; i < DEATHS || (inside_it == 0 && i < 50 * DEATHS); i++) {
		enum av_lock_result got;
		bool held;
		pid_t pid;

		atomic_store(&arena->ready, false);
		pid = fork_as(VICTIM, turns, NULL);
		CHECK(WAIT_UNTIL(atomic_load(&arena->ready), 1000 * TOO_LONG_S));
		for (uint32_t n = draw(&p, 8); n > 0; n--) { /* beside it */
			CHECK(acquire() == AV_LOCK_TAKEN);
			turn();
			av_lock_release(&arena->lock);
		}
		pauses(draw(&p, 2000));
		kill_as(VICTIM, pid);
		held = atomic_load(&arena->lock.owner) == VICTIM;
		got = take[i % 2]();
		assert_int_equal(got, held ? AV_LOCK_REPAIR : AV_LOCK_TAKEN);
		if (got == AV_LOCK_TAKEN)
			assert_int_equal(atomic_load(&arena->begun), atomic_load(&arena->done));
		inside_it += held;
		atomic_store(&arena->done, atomic_load(&arena->begun));
		av_lock_release(&arena->lock);
	}
	assert_true(inside_it > 0);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
