/* SPDX-License-Identifier: MIT */
/*
 * Locks that are a thread's own, between threads and between processes: nobody is in beside
 * another, and what was left to the holder is not lost.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "biased_lock_fixture.h"
#include "lib/refuse_call.h"

#define WHO_MAX	   3
#define TURNS_MOST (AV_BIAS_TURNS << (AV_BIAS_LOST_MAX + 2))

/* What all participants share. */
struct arena {
	struct av_biased_lock lock;
	uint64_t count; /* guarded by the lock, and by nothing else */
	uint64_t tally[WHO_MAX];
	_Atomic uint32_t busy; /* participants that go on */
	/* Work: what each has posted, and what was found of it by who held the lock. Lines of their
	 * own: what is in one line is hardly ever seen in another order. */
	_Atomic uint32_t posted[WHO_MAX] AV_ALIGNED(AV_CACHE_LINE);
	uint32_t found[WHO_MAX] AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t arrived, phase;
};

struct participant {
	struct arena *arena;
	uint32_t index, n;
	bool process;
	uint64_t random;
	void (*run)(struct participant *p);
};

static struct arena *arena;

static uint32_t draw(struct participant *p, uint32_t below)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 7;
	p->random ^= p->random << 17;
	return (uint32_t)(p->random >> 20) % below;
}

static void pauses(uint32_t n)
{
	while (n--)
		av_pause();
}

/* --- participants ---------------------------------------------------------------- */

static void *participate(void *arg)
{
	struct participant *p = arg;

	p->run(p);
	return NULL;
}

static pid_t child(struct participant *p)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody waiting */
	av_lock_self = p->index + 1;
	av_biased_forked();
	p->run(p);
	_exit(0);
}

/* The first is the caller; the others are threads of its process, or processes. */
static void all_run(uint32_t n, bool processes, void (*run)(struct participant *p))
{
	struct participant p[WHO_MAX];
	pthread_t thread[WHO_MAX];
	pid_t pid[WHO_MAX];

	atomic_store(&arena->busy, n - 1);
	for (uint32_t i = 0; i < n; i++)
		p[i] = (struct participant){arena, i, n, processes, 0x9e3779b97f4a7c15ull * (i + 1),
					    run};
	for (uint32_t i = 1; i < n; i++) {
		if (processes)
			CHECK((pid[i] = child(&p[i])) > 0);
		else
			CHECK(pthread_create(&thread[i], NULL, participate, &p[i]) == 0);
	}
	run(&p[0]);
	for (uint32_t i = 1; i < n; i++) {
		int status = 0;

		CHECK(processes ? waitpid(pid[i], &status, 0) == pid[i] && status == 0
				: pthread_join(thread[i], NULL) == 0);
	}
}

static const struct {
	uint32_t n;
	bool processes;
} casts[] = {{2, false}, {3, false}, {2, true}, {3, true}};

static void each_cast(void (*run)(struct participant *p), void (*judge)(uint32_t n))
{
	for (size_t i = 0; i < sizeof(casts) / sizeof(casts[0]); i++) {
		arena = shared_memory(sizeof(*arena));
		all_run(casts[i].n, casts[i].processes, run);
		judge(casts[i].n);
	}
}

/* --- exclusion ------------------------------------------------------------------- */

#define VISITS (SANITIZED ? 300u : 1500u)

static bool take(struct participant *p)
{
	struct av_biased_lock *b = &p->arena->lock;

	if (draw(p, 4) < 2)
		return av_biased_try(b) != AV_LOCK_BUSY;
	av_biased_acquire_plain(b);
	return true;
}

/* Whoever else is in meanwhile is not counted. */
static void count_one(struct participant *p, uint32_t inside_for)
{
	uint64_t n;

	if (!take(p))
		return;
	n = *(volatile uint64_t *)&p->arena->count;
	pauses(inside_for);
	*(volatile uint64_t *)&p->arena->count = n + 1;
	p->arena->tally[p->index]++;
	if (draw(p, 2))
		av_biased_release(&p->arena->lock);
	else
		av_biased_release_fence(&p->arena->lock);
}

static bool is_somebodys(const struct av_biased_lock *b)
{
	uint64_t thread = atomic_load(&b->thread);

	return thread && !(thread & (AV_BIAS_CANDIDATE | AV_BIAS_FORMER));
}

/* One who always comes, until the others are done; these come when the lock is his. */
static void count(struct participant *p)
{
	time_t end = deadline();

	if (p->index == 0) {
		while (atomic_load_explicit(&p->arena->busy, memory_order_relaxed))
			count_one(p, draw(p, 64) == 0 ? 400 : 0);
		return;
	}
	for (uint32_t i = 0; i < VISITS; i++) {
		for (uint32_t looks = 0; looks < 1000 && !is_somebodys(&p->arena->lock); looks++)
			looks % 16 == 15 ? (void)sched_yield() : av_pause();
		pauses(draw(p, 32));
		count_one(p, 40);
		CHECK(time(NULL) < end);
	}
	atomic_fetch_sub(&p->arena->busy, 1);
}

static void is_exact(uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += arena->tally[i];
	assert_true(sum > VISITS);
	assert_int_equal(arena->count, sum);
}

static void nobody_is_in_beside_another(void **state)
{
	each_cast(count, is_exact);
}

/* --- work that is left to the holder --------------------------------------------- */

#define ROUNDS (SANITIZED ? 300u : 2000u)

/* All participants have come here. */
static void meet(struct participant *p)
{
	uint32_t phase = atomic_load(&p->arena->phase);
	time_t end = deadline();

	if (atomic_fetch_add(&p->arena->arrived, 1) + 1 == p->n) {
		atomic_store(&p->arena->arrived, 0);
		atomic_store(&p->arena->phase, phase + 1);
		return;
	}
	for (uint32_t looks = 0; atomic_load(&p->arena->phase) == phase; looks++) {
		if (looks % 64 == 63)
			sched_yield();
		if (looks % 65536 == 65535)
			CHECK(time(NULL) < end);
	}
}

static bool is_news(const struct participant *p, const uint32_t *view)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (atomic_load_explicit(&p->arena->posted[i], memory_order_relaxed) != view[i])
			return true;
	return false;
}

/* As send queues are driven: transport/drive.c. */
static void work(struct participant *p, uint32_t inside_for)
{
	uint32_t view[WHO_MAX];

	do {
		if (av_biased_try(&p->arena->lock) == AV_LOCK_BUSY)
			return;
		for (uint32_t i = 0; i < p->n; i++)
			p->arena->found[i] = view[i] =
				atomic_load_explicit(&p->arena->posted[i], memory_order_relaxed);
		pauses(inside_for);
		av_biased_release_fence(&p->arena->lock);
	} while (is_news(p, view));
}

static void post(struct participant *p)
{
	_Atomic uint32_t *mine = &p->arena->posted[p->index];

	av_publish_before_try(mine, atomic_load_explicit(mine, memory_order_relaxed) + 1);
}

/* The lock becomes the first one's own; he works, for some time or other, and the rest come by
 * once. */
static void post_and_work(struct participant *p)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		meet(p);
		if (p->index == 0) {
			p->arena->lock.lost = 0;
			(void)turns_to_own(&p->arena->lock, TURNS_MOST);
		}
		meet(p);
		for (uint32_t i = p->index == 0 ? draw(p, 64) : 0; i > 0; i--) {
			post(p);
			work(p, draw(p, 16) == 0 ? 400 : 0);
		}
		if (p->index != 0) {
			pauses(draw(p, 64));
			post(p);
			work(p, 0);
		}
		meet(p);
		for (uint32_t i = 0; i < p->n; i++)
			CHECK(p->arena->found[i] == atomic_load(&p->arena->posted[i]));
	}
}

static void nobody_is_inside(uint32_t n)
{
	assert_int_equal(av_biased_holder(&arena->lock), 0);
}

static void no_work_is_lost(void **state)
{
	each_cast(post_and_work, nobody_is_inside);
}

/* --- work that is left to a process that dies ------------------------------------ */

#define ELSEWHERE 2u /* identity of that process, which has @lock, for trying, as it is killed */
#define KILLS	  (SANITIZED ? 2000u : 20000u)

/* Return: may this post be forgotten, since threads of this process hold the lock, and nobody else?
 */
static bool leave_work(struct participant *p)
{
	enum av_lock_result got;

	atomic_store(&p->arena->lock.lock.owner, ELSEWHERE);
	post(p);
	got = av_biased_try(&p->arena->lock);
	return got == AV_LOCK_BUSY && av_biased_mine(&p->arena->lock);
}

/* The first one's turn, as its own, while the second finds @lock busy. */
static void work_beside_one_that_dies(struct participant *p)
{
	for (uint32_t round = 0; round < KILLS; round++) {
		bool forgotten = false;

		meet(p);
		if (p->index == 0) {
			p->arena->lock = (struct av_biased_lock){0};
			CHECK(turns_to_own(&p->arena->lock, AV_BIAS_TURNS) == AV_BIAS_TURNS);
		}
		meet(p);
		pauses(draw(p, 40));
		if (p->index == 0)
			work(p, 0);
		else
			forgotten = leave_work(p);
		meet(p);
		CHECK(!forgotten || p->arena->found[1] == atomic_load(&p->arena->posted[1]));
	}
}

static void no_work_is_left_to_the_dead(void **state)
{
	arena = shared_memory(sizeof(*arena));
	all_run(2, false, work_beside_one_that_dies);
}

/* --- where membarrier(2) is refused ---------------------------------------------- */

static const int refusals[] = {EPERM, ENOSYS};

/* A process that has it, and makes the lock its own, and one that has not, and takes it. */
static void count_refused(struct participant *p)
{
	int error = refusals[p->arena->found[0]];

	if (p->index == 0) {
		count(p);
		return;
	}
	if (!refuse_call(SYS_membarrier, (uint32_t)error))
		_exit(77);
	av_barrier_join();
	CHECK(!av_barrier_is_light);
	for (uint32_t i = 0; i < 40; i++)
		count_one(p, 40);
	for (uint32_t i = 0; i < TURNS_MOST; i++)
		turn(&p->arena->lock);
	CHECK(!is_own_of(&p->arena->lock, av_bias_self));
	atomic_store(&p->arena->busy, 0);
}

static void where_it_is_refused(void **state)
{
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t before;

		arena = shared_memory(sizeof(*arena));
		arena->found[0] = i;
		before = turns_to_own(&arena->lock, AV_BIAS_TURNS);
		assert_int_equal(before, AV_BIAS_TURNS);
		all_run(2, true, count_refused);
		assert_int_equal(arena->count, arena->tally[0] + arena->tally[1]);
		(void)turns_to_own(&arena->lock, TURNS_MOST);
		assert_false(
			is_own_of(&arena->lock, av_bias_self)); /* 20 ms for the other, each time */
	}
}

/* A process that locks itself in once it has begun: 20 ms for each lock, and only once. */
static void locked_in(void)
{
	uint64_t self = av_bias_self;

	if (!refuse_call(SYS_membarrier, EPERM))
		_exit(77);
	CHECK(is_own_of(&arena->lock, self));
	av_biased_forked(); /* another thread */
	turn(&arena->lock);
	CHECK(av_barrier_is_light);
	av_bias_self = self;
	(void)turns_to_own(&arena->lock, TURNS_MOST);
	CHECK(!is_own_of(&arena->lock, av_bias_self));
}

static void nameless(void)
{
	if (!refuse_call(SYS_getrandom, EPERM))
		_exit(77);
	av_biased_forked();
	arena->lock = (struct av_biased_lock){0};
	(void)turns_to_own(&arena->lock, TURNS_MOST);
	CHECK(atomic_load(&arena->lock.thread) == 0 && arena->lock.lost == UINT8_MAX);
}

static void where_it_is_refused_later(void **state)
{
	void (*const what[])(void) = {locked_in, nameless};

	for (size_t i = 0; i < 2; i++) {
		int status;
		pid_t pid;

		arena = shared_memory(sizeof(*arena));
		pid = fork();
		if (pid == 0) {
			av_biased_forked();
			CHECK(turns_to_own(&arena->lock, AV_BIAS_TURNS) == AV_BIAS_TURNS);
			what[i]();
			_exit(0);
		}
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nobody_is_in_beside_another, fixture_setup),
		cmocka_unit_test_setup(no_work_is_lost, fixture_setup),
		cmocka_unit_test_setup(no_work_is_left_to_the_dead, fixture_setup),
		cmocka_unit_test_setup(where_it_is_refused, fixture_setup),
		cmocka_unit_test_setup(where_it_is_refused_later, fixture_setup),
	};

	if (fixture_setup(NULL))
		return 77; /* no membarrier(2) here: no lock is anybody's own */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
