/* SPDX-License-Identifier: MIT */
/* A lock in each of its states: what each function answers, and what it leaves. */
#include <pthread.h>

#include "base/clock.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "lib/wanted_core.h"
#include "lock_fixture.h"

#define SELF   1u
#define LIVING 2u
#define DEAD   3u

static struct {
	struct av_lock first AV_ALIGNED(8);
	struct av_lock second;
} locks;

static const uint32_t owners[] = {0, SELF, LIVING, DEAD};

static int setup(void **state)
{
	(void)fixture_setup(state);
	atomic_store(&dead[DEAD], true);
	return 0;
}

/* As if the owner had taken it. Not by taking it: the order of locks is not what is tested here. */
static void set(struct av_lock *lock, uint32_t owner)
{
	atomic_store(&lock->owner, owner);
}

static uint32_t owner_of(const struct av_lock *lock)
{
	return atomic_load(&lock->owner);
}

/* --- one lock -------------------------------------------------------------------- */

TEST_WITH(answers, setup, NULL)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(owners); i++) {
		uint32_t owner = owners[i];

		set(&locks.first, owner);
		assert_int_equal(av_lock_mine(&locks.first), owner == SELF);
		assert_int_equal(av_lock_other(&locks.first), owner == SELF ? 0 : owner);
	}
}

TEST_WITH(trying_takes_what_is_free_only, setup, NULL)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(owners); i++) {
		set(&locks.first, owners[i]);
		assert_int_equal(av_lock_try_free(&locks.first, AV_RANK_CQ), owners[i] == 0);
		assert_int_equal(owner_of(&locks.first), owners[i] ? owners[i] : SELF);
		if (owners[i] == 0)
			av_lock_release(&locks.first);
	}
}

static enum av_lock_result try(void)
{
	return av_lock_try(&locks.first, AV_RANK_CQ);
}

/* Whether a holder lives is asked at intervals. */
static enum av_lock_result try_on(void)
{
	enum av_lock_result got;
	time_t end = deadline();

	while ((got = try()) == AV_LOCK_BUSY)
		CHECK(time(NULL) < end);
	return got;
}

static enum av_lock_result acquire(void)
{
	return av_lock_acquire(&locks.first, AV_RANK_CQ);
}

TEST_WITH(a_busy_lock_is_left_to_the_living, setup, NULL)
{
	time_t begin = time(NULL);

	for (int own = 0; own < 2; own++) {
		set(&locks.first, own ? SELF : LIVING);
		while (time(NULL) < begin + 1) {
			assert_int_equal(try(), AV_LOCK_BUSY);
			assert_int_equal(owner_of(&locks.first), own ? SELF : LIVING);
		}
		begin++;
	}
}

/* The time counts, not how often it has yielded: each yield may take milliseconds. */
TEST_WITH(who_can_do_without_gives_up_in_time, setup, NULL)
{
	set(&locks.first, LIVING);
	want_core(true);
	assert_int_equal(
		av_lock_acquire_until(&locks.first, AV_RANK_CQ, av_now_ns() + OTHERS_HAVE_IT_NS),
		AV_LOCK_BUSY);
	assert_true(atomic_load(&yields) > 0 && atomic_load(&yields) < ENOUGH_YIELDS);
	want_core(false);
}

static const struct {
	uint32_t owner;
	enum av_lock_result result;
} taken[] = {{0, AV_LOCK_TAKEN}, {DEAD, AV_LOCK_REPAIR}};

/* Who takes it over is told, and nobody after that. */
TEST_WITH(taken_and_let_go, setup, NULL)
{
	enum av_lock_result (*const take[])(void) = {try_on, acquire};
	void (*const release[])(struct av_lock * lock) = {av_lock_release, av_lock_release_fence};

	for (size_t i = 0; i < 4 * AV_ARRAY_SIZE(taken); i++) {
		set(&locks.first, taken[i / 4].owner);
		assert_int_equal(take[i % 2](), taken[i / 4].result);
		assert_true(av_lock_mine(&locks.first));
		assert_int_equal(try(), AV_LOCK_BUSY);
		release[i / 2 % 2](&locks.first);
		assert_int_equal(owner_of(&locks.first), 0);
		assert_int_equal(take[i % 2](), AV_LOCK_TAKEN);
		release[i / 2 % 2](&locks.first);
	}
}

static _Atomic bool over;

static void *acquire_and_release(void *arg)
{
	enum av_lock_result *got = arg;

	*got = acquire();
	atomic_store(&over, true);
	av_lock_release(&locks.first);
	return NULL;
}

/* Nobody asks about its own process, whose other threads may hold the lock. */
TEST_WITH(this_process_lives, setup, NULL)
{
	enum av_lock_result got;
	pthread_t thread;

	atomic_store(&dead[SELF], true);
	set(&locks.first, SELF);
	atomic_store(&over, false);
	assert_int_equal(pthread_create(&thread, NULL, acquire_and_release, &got), 0);
	assert_false(WAIT_UNTIL(atomic_load(&over), 50));
	assert_int_equal(try(), AV_LOCK_BUSY);
	set(&locks.first, 0);
	pthread_join(thread, NULL);
	assert_int_equal(got, AV_LOCK_TAKEN);
}

/* --- two at once ----------------------------------------------------------------- */

static bool try_both(void)
{
	return av_lock_try_both(&locks.first, AV_RANK_REQUESTER, AV_RANK_APPEND);
}

TEST_WITH(both_or_none, setup, NULL)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(owners) * AV_ARRAY_SIZE(owners); i++) {
		uint32_t first = owners[i % AV_ARRAY_SIZE(owners)];
		uint32_t second = owners[i / AV_ARRAY_SIZE(owners)];
		bool free = !first && !second;

		set(&locks.first, first);
		set(&locks.second, second);
		assert_int_equal(try_both(), free);
		assert_int_equal(owner_of(&locks.first), free ? SELF : first);
		assert_int_equal(owner_of(&locks.second), free ? SELF : second);
		if (free) {
			av_lock_release(&locks.second);
			av_lock_release(&locks.first);
		}
	}
}

/* Each of the two is a lock like any other, whichever is let go first. */
TEST_WITH(each_by_itself, setup, NULL)
{
	struct av_lock *const lock[] = {&locks.first, &locks.second};
	const enum av_lock_rank rank[] = {AV_RANK_REQUESTER, AV_RANK_APPEND};

	set(&locks.first, 0);
	set(&locks.second, 0);
	for (int i = 0; i < 2; i++) {
		struct av_lock *one = lock[i], *other = lock[!i];

		assert_true(try_both());
		av_lock_release(one);
		assert_true(av_lock_mine(other) && !av_lock_mine(one));
		assert_false(try_both());
		assert_int_equal(av_lock_try(one, rank[i]), AV_LOCK_TAKEN);
		av_lock_release(other);
		assert_false(try_both());
		av_lock_release_fence(one);
		assert_true(try_both());
		av_lock_release(one);
		av_lock_release(other);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
