/* SPDX-License-Identifier: MIT */
/*
 * Locks between threads and between processes: nobody is in beside another, of two locks that are
 * taken one by one and both at once; and what was left to the holder is not lost.
 */
#include <sched.h>

#include "lib/far_stores.h"
#include "lock_fixture.h"
#include "lib/unit.h"

#define VISITS (SANITIZED ? 2000u : 20000u)
#define ROUNDS (SANITIZED ? 300u : 2000u)

/* What all participants share. */
static struct arena {
	/* Guarded by a lock, and by nothing else. */
	struct {
		uint64_t count;
	} guarded[2];
	struct av_lock lock[2] AV_ALIGNED(AV_CACHE_LINE);
	uint64_t tally[PARTICIPANTS_MAX][2];
	_Atomic uint32_t both; /* so often both were had at once */
	/* Work: what each has posted, and what was found of it by who held the lock. Lines of their
	 * own: what is in one line is hardly ever seen in another order. */
	_Atomic uint32_t posted[PARTICIPANTS_MAX] AV_ALIGNED(AV_CACHE_LINE);
	uint32_t found[PARTICIPANTS_MAX] AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t arrived, phase;
} * arena;

static void new_arena(void)
{
	arena = shared_memory(sizeof(*arena));
}

/* --- exclusion ------------------------------------------------------------------- */

static const enum av_lock_rank rank[2] = {AV_RANK_REQUESTER, AV_RANK_APPEND};

/* Return: has it been taken? */
static bool take_one(struct participant *p, int which)
{
	struct av_lock *lock = &arena->lock[which];

	switch (draw(p, 3)) {
	case 0:
		return av_lock_try(lock, rank[which]) != AV_LOCK_BUSY;
	case 1:
		return av_lock_try_free(lock, rank[which]);
	default:
		av_lock_acquire_plain(lock, rank[which]);
		return true;
	}
}

static void count_one(struct participant *p, int which)
{
	volatile uint64_t *count = &arena->guarded[which].count;
	uint64_t n = *count;

	pauses(draw(p, 16));
	*count = n + 1;
	arena->tally[p->index][which]++;
}

static void let_go(struct participant *p, int which)
{
	if (draw(p, 2))
		av_lock_release(&arena->lock[which]);
	else
		av_lock_release_fence(&arena->lock[which]);
}

/* As a poster does: both at once, and else the second. */
static void visit_both(struct participant *p)
{
	int first = (int)draw(p, 2);

	if (!av_lock_try_both(arena->lock, rank[0], rank[1])) {
		av_lock_acquire_plain(&arena->lock[1], rank[1]);
		count_one(p, 1);
		let_go(p, 1);
		return;
	}
	atomic_fetch_add_explicit(&arena->both, 1, memory_order_relaxed);
	count_one(p, 0);
	count_one(p, 1);
	let_go(p, first);
	if (draw(p, 2))
		count_one(p, !first);
	let_go(p, !first);
}

static void visit(struct participant *p)
{
	int which = (int)draw(p, 2);

	if (draw(p, 2)) {
		visit_both(p);
	} else if (take_one(p, which)) {
		count_one(p, which);
		let_go(p, which);
	}
}

static void visits(struct participant *p)
{
	for (uint32_t i = 0; i < VISITS; i++) {
		visit(p);
		pauses(draw(p, 32));
	}
}

static void counts_are_exact(uint32_t n)
{
	for (int which = 0; which < 2; which++) {
		uint64_t sum = 0;

		for (uint32_t i = 0; i < n; i++)
			sum += arena->tally[i][which];
		assert_true(sum > VISITS / 4);
		assert_int_equal(arena->guarded[which].count, sum);
		assert_int_equal(atomic_load(&arena->lock[which].owner), 0);
	}
	assert_true(atomic_load(&arena->both) > 0);
}

TEST_WITH(nobody_is_in_beside_another, fixture_setup, NULL)
{
	each_cast(new_arena, visits, counts_are_exact);
}

/* --- work that is left to the holder --------------------------------------------- */

/* All participants have come here. */
static void meet(struct participant *p)
{
	uint32_t phase = atomic_load(&arena->phase);
	time_t end = deadline();

	if (atomic_fetch_add(&arena->arrived, 1) + 1 == p->n) {
		atomic_store(&arena->arrived, 0);
		atomic_store(&arena->phase, phase + 1);
		return;
	}
	for (uint32_t looks = 0; atomic_load(&arena->phase) == phase; looks++) {
		if (looks % 64 == 63)
			sched_yield();
		if (looks % 65536 == 65535)
			CHECK(time(NULL) < end);
	}
}

static bool is_news(const struct participant *p, const uint32_t *view)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (atomic_load_explicit(&arena->posted[i], memory_order_relaxed) != view[i])
			return true;
	return false;
}

/* Work with the lock held, and let it go. Return: is there more? */
static bool run(struct participant *p, uint32_t inside_for)
{
	uint32_t view[PARTICIPANTS_MAX];

	for (uint32_t i = 0; i < p->n; i++)
		arena->found[i] = view[i] =
			atomic_load_explicit(&arena->posted[i], memory_order_relaxed);
	pauses(inside_for);
	if (inside_for)
		store_far_away();
	av_lock_release_fence(&arena->lock[0]);
	return is_news(p, view);
}

/* As send queues are driven: transport/progress.c. */
static void work(struct participant *p, uint32_t inside_for)
{
	while (av_lock_try(&arena->lock[0], rank[0]) != AV_LOCK_BUSY && run(p, inside_for))
		;
}

/*
 * As requests are posted: both locks, if they can be had, or the second one, under which the
 * request is made known.
 */
static void post_and_work(struct participant *p, uint32_t inside_for)
{
	_Atomic uint32_t *mine = &arena->posted[p->index];
	bool both = av_lock_try_both(arena->lock, rank[0], rank[1]);

	if (!both)
		av_lock_acquire_plain(&arena->lock[1], rank[1]);
	av_publish_before_try(mine, atomic_load_explicit(mine, memory_order_relaxed) + 1);
	av_lock_release(&arena->lock[1]);
	if (!both || run(p, inside_for))
		work(p, inside_for);
}

/* The same of one who has no second lock, as a peer that removes an obstacle. */
static void kick_and_work(struct participant *p, uint32_t inside_for)
{
	_Atomic uint32_t *mine = &arena->posted[p->index];

	av_publish_before_try(mine, atomic_load_explicit(mine, memory_order_relaxed) + 1);
	work(p, inside_for);
}

/* The first one works, for some time or other, and the rest come by once. */
static void rounds(struct participant *p)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		meet(p);
		for (uint32_t i = p->index == 0 ? draw(p, 64) : 1; i > 0; i--) {
			uint32_t inside_for = draw(p, 4) == 0 ? draw(p, 400) : 0;

			pauses(p->index == 0 ? 0 : draw(p, 64));
			if (draw(p, 2))
				post_and_work(p, inside_for);
			else
				kick_and_work(p, inside_for);
		}
		meet(p);
		for (uint32_t i = 0; i < p->n; i++)
			CHECK(arena->found[i] == atomic_load(&arena->posted[i]));
	}
}

static void nobody_is_inside(uint32_t n)
{
	assert_int_equal(atomic_load(&arena->lock[0].owner), 0);
	assert_int_equal(atomic_load(&arena->lock[1].owner), 0);
}

TEST_WITH(no_work_is_lost, fixture_setup, NULL)
{
	each_cast(new_arena, rounds, nobody_is_inside);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
