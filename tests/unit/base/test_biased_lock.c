/* SPDX-License-Identifier: MIT */
/*
 * Locks that are a thread's own: the rules, seen from one thread that takes the names of several.
 * What real ones do to each other: test_biased_lock_races.c; and what they leave when they die:
 * test_biased_lock_deaths.c
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "biased_lock_fixture.h"

/* Names of threads, and identities of processes. */
#define A	4ull
#define B	8ull
#define C	12ull
#define OTHER	2u
#define THE_END 3u

static struct av_biased_lock lock;

static int setup(void **state)
{
	lock = (struct av_biased_lock){0};
	return fixture_setup(state);
}

static void as(uint64_t name)
{
	av_bias_self = name;
}

static void turns_as(uint64_t name, uint32_t n)
{
	as(name);
	while (n--)
		turn(&lock);
}

/* --- whose own it becomes -------------------------------------------------------- */

static void own_after_so_many_turns(void **state)
{
	as(A);
	for (uint32_t n = 1; n < AV_BIAS_TURNS; n++) {
		turn(&lock);
		assert_false(is_own_of(&lock, A));
	}
	turn(&lock);
	assert_true(is_own_of(&lock, A));
}

static void a_thread_gets_a_name(void **state)
{
	assert_int_equal(turns_to_own(&lock, AV_BIAS_TURNS), AV_BIAS_TURNS);
	assert_int_equal(av_bias_self & (AV_BIAS_CANDIDATE | AV_BIAS_FORMER), 0);
	assert_int_not_equal(av_bias_self, 0);
	av_biased_forked();
	assert_false(is_own_of(&lock, av_bias_self));
}

static void anothers_turn_starts_anew(void **state)
{
	turns_as(A, AV_BIAS_TURNS - 1);
	turns_as(B, 1);
	turns_as(A, AV_BIAS_TURNS - 1);
	assert_false(is_own_of(&lock, A));
	turns_as(A, 1);
	assert_true(is_own_of(&lock, A));
}

static void all_ways_of_taking_it_are_turns(void **state)
{
	as(A);
	for (uint32_t n = 0; n < AV_BIAS_TURNS; n++) {
		assert_false(is_own_of(&lock, A));
		switch (n % 3) {
		case 0:
			assert_int_equal(av_biased_acquire(&lock), AV_LOCK_TAKEN);
			av_biased_release(&lock);
			break;
		case 1:
			assert_int_equal(av_biased_try(&lock), AV_LOCK_TAKEN);
			av_biased_release_fence(&lock);
			break;
		default:
			turn(&lock);
		}
	}
	assert_true(is_own_of(&lock, A));
}

static void twice_as_many_when_it_was_taken_away(void **state)
{
	for (uint32_t lost = 0; lost < AV_BIAS_LOST_MAX + 3; lost++) {
		uint32_t wanted = AV_BIAS_TURNS
				  << (lost < AV_BIAS_LOST_MAX ? lost : AV_BIAS_LOST_MAX);

		as(A);
		assert_int_equal(turns_to_own(&lock, 2 * wanted), wanted);
		turns_as(B, 1);
		assert_false(is_own_of(&lock, A));
	}
}

/* What costs others 20 ms: nobody's own where somebody has to do that, from then on. */
static void not_without_the_light_barrier(void **state)
{
	av_barrier_is_light = false;
	turns_as(A, 3 * AV_BIAS_TURNS);
	assert_false(is_own_of(&lock, A));
	av_barrier_is_light = true;
	turns_as(A, AV_BIAS_TURNS << (AV_BIAS_LOST_MAX + 2));
	assert_false(is_own_of(&lock, A));
}

/*
 * A thread from which it was taken may have been stopped between its look at @thread and its store
 * to
 * @inside, and does that store, and takes it back, whenever it goes on. Nobody else may rely on
 * @inside before it has come by, or is dead.
 */
static void nobody_follows_who_may_be_about_to_enter(void **state)
{
	turns_as(A, AV_BIAS_TURNS);
	turns_as(B, AV_BIAS_TURNS << (AV_BIAS_LOST_MAX + 1));
	assert_false(is_own_of(&lock, B));
	as(B);
	assert_int_equal(av_biased_acquire(&lock), AV_LOCK_TAKEN);
	atomic_store(&lock.inside, av_lock_self); /* A goes on */
	as(C);
	assert_int_equal(av_biased_try(&lock), AV_LOCK_BUSY);
	atomic_store(&lock.inside, 0);
	assert_int_equal(av_biased_try(&lock), AV_LOCK_BUSY);
	as(B);
	av_biased_release(&lock);
	turns_as(A, 1);
	as(B);
	assert_int_equal(turns_to_own(&lock, 4 * AV_BIAS_TURNS), 2 * AV_BIAS_TURNS);
}

static void who_is_dead_is_followed(void **state)
{
	time_t end = deadline();

	av_lock_self = OTHER;
	turns_as(A, AV_BIAS_TURNS);
	av_lock_self = 1;
	turns_as(B, AV_BIAS_TURNS << (AV_BIAS_LOST_MAX + 1));
	assert_false(is_own_of(&lock, B));
	atomic_store(&dead[OTHER], true);
	while (!is_own_of(&lock, B)) {
		turn(&lock);
		assert_true(time(NULL) < end);
	}
}

/* --- guests: threads of another process than the lock's own ---------------------- */

static void visit(bool tries)
{
	enum av_lock_result got =
		tries ? av_biased_try_shared(&lock) : av_biased_acquire_shared(&lock);

	assert_int_equal(got, AV_LOCK_TAKEN);
	assert_int_equal(av_biased_try(&lock), AV_LOCK_BUSY);
	av_biased_leave_fence(&lock);
	assert_int_equal(av_biased_holder(&lock), 0);
}

static void visits(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		visit(i % 2);
}

static void never_a_guests_own(void **state)
{
	as(A);
	visits(AV_BIAS_TURNS << (AV_BIAS_LOST_MAX + 1));
	assert_int_equal(atomic_load(&lock.thread), 0);
	turns_as(A, AV_BIAS_TURNS);
	assert_true(is_own_of(&lock, A));
}

static void a_guest_takes_it_away_and_is_no_candidate(void **state)
{
	turns_as(A, AV_BIAS_TURNS);
	as(B);
	visits(1);
	assert_false(is_own_of(&lock, A));
	for (uint32_t n = 0; n < 2 * AV_BIAS_TURNS; n++) {
		assert_false(is_own_of(&lock, A));
		turns_as(A, 1);
		as(B);
		if (n < 2 * AV_BIAS_TURNS - 1)
			visits(1);
	}
	assert_true(is_own_of(&lock, A));
}

static void a_guest_without_the_light_barrier_shuts_it(void **state)
{
	av_barrier_is_light = false;
	visits(1);
	av_barrier_is_light = true;
	turns_as(A, AV_BIAS_TURNS << (AV_BIAS_LOST_MAX + 2));
	assert_false(is_own_of(&lock, A));
}

/* --- what is said in which state ------------------------------------------------- */

static void s_free(void)
{
}
static void s_candidate(void)
{
	turns_as(A, 1);
}
static void s_own(void)
{
	turns_as(A, AV_BIAS_TURNS);
}
static void s_anothers(void)
{
	turns_as(B, AV_BIAS_TURNS);
}
static void s_inside(void)
{
	s_own();
	av_biased_acquire_plain(&lock);
}
static void s_shared(void)
{
	as(A);
	av_biased_acquire_plain(&lock);
}
static void s_anothers_inside(void)
{
	av_lock_self = OTHER;
	s_anothers();
	av_biased_acquire_plain(&lock);
	av_lock_self = 1;
}
static void s_anothers_shared(void)
{
	av_lock_self = OTHER;
	as(B);
	av_biased_acquire_plain(&lock);
	av_lock_self = 1;
}
static void
s_former_passes(void) /* a former owner has been about to enter, and takes that back soon */
{
	s_anothers();
	turns_as(A, 1);
	atomic_store(&lock.inside, OTHER);
}

static void s_inside_and_another_waits(void) /* or looks, or died as it did */
{
	s_inside();
	atomic_store(&lock.lock.owner, OTHER);
}

enum answer { NO, YES };
static const struct {
	const char *name;
	void (*make)(void);
	enum av_lock_result try;
	enum answer mine;
	uint32_t other;
} states[] = {
	{"free", s_free, AV_LOCK_TAKEN, NO, 0},
	{"a candidate's", s_candidate, AV_LOCK_TAKEN, NO, 0},
	{"own", s_own, AV_LOCK_TAKEN, NO, 0},
	{"another's own", s_anothers, AV_LOCK_TAKEN, NO, 0},
	{"own, and held", s_inside, AV_LOCK_BUSY, YES, 0},
	{"held by the caller", s_shared, AV_LOCK_BUSY, YES, 0},
	{"another's own, and held", s_anothers_inside, AV_LOCK_BUSY, NO, OTHER},
	{"held by another", s_anothers_shared, AV_LOCK_BUSY, NO, OTHER},
	{"a former owner passes", s_former_passes, AV_LOCK_BUSY, NO, OTHER},
	{"own, held, and another has @lock", s_inside_and_another_waits, AV_LOCK_BUSY, NO, OTHER},
};

static void make_state(size_t i)
{
	lock = (struct av_biased_lock){0};
	states[i].make();
	as(A);
}

static void answers(void **state)
{
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		make_state(i);
		if (av_biased_mine(&lock) != states[i].mine ||
		    av_biased_other(&lock) != states[i].other)
			fail_msg("%s: mine %d, other %u", states[i].name, av_biased_mine(&lock),
				 av_biased_other(&lock));
		if (av_biased_try(&lock) != states[i].try)
			fail_msg("%s: try", states[i].name);
	}
}

/* In each state in which it can be had: who got it holds it, and who lets it go does not. */
static void (*const release[])(struct av_biased_lock *b) = {av_biased_release,
							    av_biased_release_fence};

static void held_and_let_go(void **state)
{
	for (size_t i = 0; i < 2 * sizeof(states) / sizeof(states[0]); i++) {
		make_state(i / 2);
		if (states[i / 2].try != AV_LOCK_TAKEN)
			continue;
		assert_int_equal(av_biased_acquire(&lock), AV_LOCK_TAKEN);
		assert_true(av_biased_mine(&lock));
		assert_int_equal(av_biased_try(&lock), AV_LOCK_BUSY);
		release[i % 2](&lock);
		assert_int_equal(av_biased_holder(&lock), 0);
		assert_int_equal(av_biased_try(&lock), AV_LOCK_TAKEN);
	}
}

/* The one it was taken from while inside keeps it until it leaves. */
static void taken_away_while_held(void **state)
{
	for (int i = 0; i < 2; i++) {
		lock = (struct av_biased_lock){0};
		s_inside();
		as(B);
		assert_int_equal(av_biased_try(&lock), AV_LOCK_BUSY);
		as(A);
		assert_false(is_own_of(&lock, A));
		assert_true(av_biased_mine(&lock));
		release[i](&lock);
		as(B);
		assert_int_equal(av_biased_try(&lock), AV_LOCK_TAKEN);
		as(A);
		assert_int_equal(av_biased_try(&lock), AV_LOCK_BUSY);
	}
}

/* --- dead holders, from what they leave ------------------------------------------ */

static void d_inside(void)
{
	s_anothers_inside();
}
static void d_shared(void)
{
	s_anothers_shared();
}
static void d_waiting(void)
{
	atomic_store(&lock.lock.owner, OTHER);
}
static void d_own(void)
{
	av_lock_self = OTHER;
	s_anothers();
	av_lock_self = 1;
}
static void d_shared_and_former_passes(void) /* the one that is about to take it back lives */
{
	av_lock_self = THE_END;
	turns_as(C, AV_BIAS_TURNS);
	d_shared();
	atomic_store(&lock.inside, THE_END);
}

static const struct {
	const char *name;
	void (*make)(void);
	enum av_lock_result first;
} deaths[] = {
	{"inside, as its own", d_inside, AV_LOCK_REPAIR},
	{"inside", d_shared, AV_LOCK_REPAIR},
	{"waiting, or looking", d_waiting, AV_LOCK_TAKEN},
	{"outside of its own", d_own, AV_LOCK_TAKEN},
	{"inside, and another passes", d_shared_and_former_passes, AV_LOCK_REPAIR},
};

static enum av_lock_result try_until_taken(struct av_biased_lock *b)
{
	enum av_lock_result got;
	time_t end = deadline();

	while ((got = av_biased_try(b)) == AV_LOCK_BUSY) {
		if (lock.lock.owner == 0 && atomic_load(&lock.inside) == THE_END)
			atomic_store(&lock.inside, 0); /* it has passed */
		CHECK(time(NULL) < end);
	}
	return got;
}

static enum av_lock_result acquire(struct av_biased_lock *b)
{
	if (atomic_load(&b->inside) == THE_END)
		atomic_store(&b->inside, 0);
	return av_biased_acquire(b);
}

static enum av_lock_result (*const take[])(struct av_biased_lock *b) = {try_until_taken, acquire};

static void repaired_once(void **state)
{
	for (size_t i = 0; i < 2 * sizeof(deaths) / sizeof(deaths[0]); i++) {
		lock = (struct av_biased_lock){0};
		atomic_store(&dead[OTHER], false);
		deaths[i / 2].make();
		atomic_store(&dead[OTHER], true);
		av_lock_self = 1;
		as(A);
		if (take[i % 2](&lock) != deaths[i / 2].first)
			fail_msg("%s: %zu", deaths[i / 2].name, i % 2);
		av_biased_release(&lock);
		assert_int_equal(av_biased_acquire(&lock), AV_LOCK_TAKEN);
		av_biased_release(&lock);
	}
}

#define WITH_SETUP(test) cmocka_unit_test_setup(test, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SETUP(own_after_so_many_turns),
		WITH_SETUP(a_thread_gets_a_name),
		WITH_SETUP(anothers_turn_starts_anew),
		WITH_SETUP(all_ways_of_taking_it_are_turns),
		WITH_SETUP(twice_as_many_when_it_was_taken_away),
		WITH_SETUP(not_without_the_light_barrier),
		WITH_SETUP(nobody_follows_who_may_be_about_to_enter),
		WITH_SETUP(who_is_dead_is_followed),
		WITH_SETUP(never_a_guests_own),
		WITH_SETUP(a_guest_takes_it_away_and_is_no_candidate),
		WITH_SETUP(a_guest_without_the_light_barrier_shuts_it),
		WITH_SETUP(answers),
		WITH_SETUP(held_and_let_go),
		WITH_SETUP(taken_away_while_held),
		WITH_SETUP(repaired_once),
	};

	if (fixture_setup(NULL))
		return 77; /* no membarrier(2) here: no lock is anybody's own */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
