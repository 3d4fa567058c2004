/* SPDX-License-Identifier: MIT */
/* Locks that are a thread's own, of processes that are killed. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "biased_lock_fixture.h"

#define VICTIM 2u
#define DEATHS (SANITIZED ? 60 : 200)

static struct arena {
	struct av_biased_lock lock;
	uint64_t begun, done; /* equal, but within a turn */
	_Atomic bool ready;
} * arena;

static int setup(void **state)
{
	arena = shared_memory(sizeof(*arena));
	return fixture_setup(state);
}

static pid_t start(void (*victim)(void))
{
	pid_t pid;

	atomic_store(&dead[VICTIM], false);
	atomic_store(&arena->ready, false);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		av_lock_self = VICTIM;
		av_biased_forked();
		victim();
		for (;;)
			pause();
	}
	CHECK(pid > 0);
	while (!atomic_load(&arena->ready))
		av_pause();
	return pid;
}

static void end(pid_t pid)
{
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	atomic_store(&dead[VICTIM], true);
}

static enum av_lock_result acquire(void)
{
	return av_biased_acquire(&arena->lock);
}

static enum av_lock_result try(void)
{
	enum av_lock_result got;
	time_t stop = deadline();

	while ((got = av_biased_try(&arena->lock)) == AV_LOCK_BUSY)
		CHECK(time(NULL) < stop);
	return got;
}

static enum av_lock_result (*const take[])(void) = {acquire, try};

/* --- at a certain point ---------------------------------------------------------- */

static void outside(void)
{
	CHECK(turns_to_own(&arena->lock, AV_BIAS_TURNS) == AV_BIAS_TURNS);
}
static void inside_as_its_own(void)
{
	outside();
	av_biased_acquire_plain(&arena->lock);
	CHECK(arena->lock.lock.owner == 0);
}
static void inside(void)
{
	av_biased_acquire_plain(&arena->lock);
	CHECK(arena->lock.lock.owner == VICTIM);
}
static void nowhere(void)
{
	turn(&arena->lock);
}

static const struct {
	const char *name;
	void (*victim)(void);
	enum av_lock_result first;
} points[] = {
	{"outside of its own", outside, AV_LOCK_TAKEN},
	{"inside of its own", inside_as_its_own, AV_LOCK_REPAIR},
	{"inside", inside, AV_LOCK_REPAIR},
	{"nowhere", nowhere, AV_LOCK_TAKEN},
};

static size_t point;

static void get_there(void)
{
	points[point].victim();
	atomic_store(&arena->ready, true);
}

static void repaired_once(void **state)
{
	for (size_t i = 0; i < 2 * sizeof(points) / sizeof(points[0]); i++) {
		point = i / 2;
		arena->lock = (struct av_biased_lock){0};
		end(start(get_there));
		if (take[i % 2]() != points[point].first)
			fail_msg("%s: %zu", points[point].name, i % 2);
		av_biased_release(&arena->lock);
		assert_int_equal(take[i % 2](), AV_LOCK_TAKEN);
		av_biased_release(&arena->lock);
	}
}

/* Its holder is alive, and one that waits for it is killed. */
static void wait_for_it(void)
{
	atomic_store(&arena->ready, true);
	av_biased_acquire_plain(&arena->lock);
}

static void who_only_waited_has_left_nothing(void **state)
{
	time_t stop = deadline();
	pid_t pid;

	CHECK(turns_to_own(&arena->lock, AV_BIAS_TURNS) == AV_BIAS_TURNS);
	assert_int_equal(av_biased_acquire(&arena->lock), AV_LOCK_TAKEN);
	pid = start(wait_for_it);
	while (atomic_load(&arena->lock.lock.owner) != VICTIM)
		assert_true(time(NULL) < stop);
	end(pid);
	av_biased_release(&arena->lock);
	assert_int_equal(acquire(), AV_LOCK_TAKEN);
	av_biased_release(&arena->lock);
}

/* --- at any point ---------------------------------------------------------------- */

static void half_and_half(void)
{
	(*(volatile uint64_t *)&arena->begun)++;
	(*(volatile uint64_t *)&arena->done)++;
}

static void turns_without_end(void)
{
	for (uint32_t i = 0;; i++) {
		if (i == AV_BIAS_TURNS / 2)
			atomic_store(&arena->ready, true);
		if (i % 3 && av_biased_try(&arena->lock) == AV_LOCK_BUSY)
			continue;
		if (i % 3 == 0)
			av_biased_acquire_plain(&arena->lock);
		half_and_half();
		av_biased_release(&arena->lock);
	}
}

static void repair(enum av_lock_result got)
{
	if (got == AV_LOCK_REPAIR)
		arena->done = arena->begun;
	else
		assert_int_equal(arena->done, arena->begun);
}

/* Of the killed one's turns each is whole, or is repaired; while the other takes the lock from it.
 */
static void no_half_turn_is_left(void **state)
{
	for (int i = 0; i < DEATHS; i++) {
		pid_t pid = start(turns_without_end);

		for (int n = i % 7; n > 0; n--) {
			repair(acquire());
			half_and_half();
			av_biased_release(&arena->lock);
			nanosleep(&(struct timespec){.tv_nsec = 1000 * (i % 5)}, NULL);
		}
		end(pid);
		repair(take[i % 2]());
		half_and_half();
		av_biased_release_fence(&arena->lock);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(repaired_once, setup),
		cmocka_unit_test_setup(who_only_waited_has_left_nothing, setup),
		cmocka_unit_test_setup(no_half_turn_is_left, setup),
	};

	if (fixture_setup(NULL))
		return 77; /* no membarrier(2) here: no lock is anybody's own */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
