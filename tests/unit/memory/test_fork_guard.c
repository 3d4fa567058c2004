/* SPDX-License-Identifier: MIT */
/*
 * Which pages a child does not get, against a model: random ranges come and go; what madvise() is
 * asked for (it is replaced here) must be what the model says has changed, no more and no less,
 * also when it refuses.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/unit.h"
#include "memory/region.h"
#include "random.h"

#define PAGES 64u
#define BASE  0x10000000ul
#define SLOTS 24u

static size_t page;
static bool guarded[PAGES];	    /* as madvise() was told */
static unsigned int calls, fail_at; /* the call that fails, from 1; 0: none */
static unsigned int wanted[PAGES];
static bool anywhere; /* what is advised may lie outside of the model */

int madvise(void *addr, size_t bytes, int advice)
{
	const size_t first = ((uintptr_t)addr - BASE) / page;

	if (advice != MADV_DONTFORK && advice != MADV_DOFORK)
		return 0;
	if (++calls == fail_at) {
		errno = ENOMEM;
		return -1;
	}
	assert_int_equal((uintptr_t)addr % page, 0);
	if (anywhere)
		return 0;
	assert_true((uintptr_t)addr >= BASE && first + bytes / page <= PAGES && bytes % page == 0 &&
		    bytes > 0);
	for (size_t i = 0; i < bytes / page; i++)
		guarded[first + i] = advice == MADV_DONTFORK;
	return 0;
}

static uint32_t seed = 99;

static uint32_t random_below(uint32_t n)
{
	return random_from(&seed, n);
}

struct slot {
	uint64_t addr, length; /* 0: free */
};

static void count(const struct slot *s, int by)
{
	for (uint64_t p = s->addr / page; p <= (s->addr + s->length - 1) / page; p++)
		wanted[p - BASE / page] += (unsigned int)by;
}

static void expect_model(void)
{
	for (size_t i = 0; i < PAGES; i++)
		assert_int_equal(guarded[i], wanted[i] > 0);
}

static struct slot random_range(void)
{
	const uint64_t at = random_below(PAGES * (uint32_t)page);
	const uint64_t rest = PAGES * page - at;

	return (struct slot){BASE + at,
			     1 + random_below((uint32_t)(rest < 9 * page ? rest : 9 * page))};
}

static void toggle(struct slot *s, bool refuse)
{
	if (s->length) {
		assert_int_equal(av_fork_unguard(s->addr, s->length), 0);
		count(s, -1);
		s->length = 0;
		return;
	}
	*s = random_range();
	if (refuse) {
		fail_at = calls + 1 + random_below(2);
		if (av_fork_guard(s->addr, s->length) == ENOMEM) {
			s->length = 0; /* nothing has changed */
			fail_at = 0;
			return;
		}
		fail_at = 0; /* so few calls were needed that none failed */
	} else {
		assert_int_equal(av_fork_guard(s->addr, s->length), 0);
	}
	count(s, 1);
}

TEST(ranges_come_and_go)
{
	static struct slot slot[SLOTS];

	for (int turn = 0; turn < 20000; turn++) {
		toggle(&slot[random_below(SLOTS)], turn % 5 == 0);
		expect_model();
	}
	for (size_t i = 0; i < SLOTS; i++)
		if (slot[i].length)
			toggle(&slot[i], false);
	expect_model();
}

/* The kernel refuses to give a range back: it counts as given back, and may be guarded again. */
TEST(a_refused_return_is_forgotten)
{
	assert_int_equal(av_fork_guard(BASE, 3 * page), 0);
	fail_at = calls + 1;
	assert_int_equal(av_fork_unguard(BASE, 3 * page), ENOMEM);
	fail_at = 0;
	assert_int_equal(av_fork_guard(BASE, 3 * page), 0);
	assert_int_equal(av_fork_unguard(BASE, 3 * page), 0);
	expect_model();
}

TEST(nothing_and_nonsense)
{
	const unsigned int before = calls;

	assert_int_equal(av_fork_guard(BASE, 0), 0);
	assert_int_equal(av_fork_guard(BASE + 5, 0), 0);
	assert_int_equal(av_fork_unguard(BASE + 5, 0), 0);
	assert_int_equal(av_fork_guard(UINT64_MAX - 10, 20), 0);
	assert_int_equal(av_fork_guard(UINT64_MAX - 10, 5), 0);
	assert_int_equal(calls, before);
}

/* The last page of all is left alone. */
TEST(the_end_of_the_address_space)
{
	const uint64_t last_but_one = UINT64_MAX - 2 * page + 1;
	unsigned int before = calls;

	anywhere = true;
	assert_int_equal(av_fork_guard(last_but_one, page + 1), 0);
	assert_int_equal(calls, before);
	assert_int_equal(av_fork_guard(last_but_one, page), 0);
	assert_int_equal(calls, before + 1);
	assert_int_equal(av_fork_unguard(last_but_one, page), 0);
	assert_int_equal(calls, before + 2);
	anywhere = false;
}

/* Runs that have become equal are given back by one call, whichever changed last. */
TEST(equal_runs_are_one)
{
	for (unsigned int i = 0; i < 2; i++) {
		const uint64_t first = BASE + i * page, second = BASE + (1 - i) * page;
		unsigned int before;

		assert_int_equal(av_fork_guard(first, page), 0);
		assert_int_equal(av_fork_guard(second, page), 0);
		before = calls;
		assert_int_equal(av_fork_guard(BASE, 2 * page), 0);
		assert_int_equal(av_fork_unguard(first, page), 0);
		assert_int_equal(av_fork_unguard(second, page), 0);
		assert_int_equal(calls, before);
		assert_int_equal(av_fork_unguard(BASE, 2 * page), 0);
		assert_int_equal(calls, before + 1);
		expect_model();
	}
}

/* Or in a child of which the array is not. */
TEST(what_was_never_guarded_can_be_returned)
{
	assert_int_equal(av_fork_unguard(BASE, 3 * page), 0);
	assert_int_equal(av_fork_guard(BASE, 3 * page), 0);
	assert_true(guarded[0] && guarded[2]);
	assert_int_equal(av_fork_unguard(BASE, 3 * page), 0);
	expect_model();
}

TEST(a_child_begins_anew)
{
	int status;
	pid_t pid;

	assert_int_equal(av_fork_guard(BASE, page), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		unsigned int before = calls;

		if (av_fork_unguard(BASE, page) || calls != before ||
		    av_fork_guard(BASE, 2 * page) || calls != before + 1)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(av_fork_unguard(BASE, page), 0);
	expect_model();
}

/* What an earlier call left in errno is no failure, and stays. */
TEST(errno_is_kept)
{
	errno = EIO;
	assert_int_equal(av_fork_guard(BASE, page), 0);
	assert_int_equal(av_fork_unguard(BASE, page), 0);
	assert_int_equal(errno, EIO);
}

int main(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	setenv("ANYVERBS_FORK", "dontfork", 1);
	return run_cases(NULL, NULL);
}
