/* SPDX-License-Identifier: MIT */
/* The checker of lock orders: which waits it lets pass, and that it aborts at all others. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "lib/check.h"
#include "lib/unit.h"

#define RANKS	 (AV_RANK_KEY + 1)
#define HELD_MAX 32 /* by one thread */

static int locks[HELD_MAX + 1]; /* only their addresses count */

/* Two ranks in one word, for a function that runs in a child. */
struct pair {
	enum av_lock_rank have, want;
};

/* Does @what end in a child's abort? Anything else than that and a peaceful end fails. */
static bool aborts(void (*what)(const struct pair *p), const struct pair *p)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0});
		CHECK(dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO) >= 0);
		what(p);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
		return true;
	assert_int_equal(status, 0);
	return false;
}

/* --- pairs of ranks -------------------------------------------------------------- */

static void wait_then_wait(const struct pair *p)
{
	av_lock_order_wait(&locks[0], p->have);
	av_lock_order_wait(&locks[1], p->want);
}

static void try_then_wait(const struct pair *p)
{
	av_lock_order_taken(&locks[0], p->have);
	av_lock_order_wait(&locks[1], p->want);
}

static void wait_then_try(const struct pair *p)
{
	av_lock_order_wait(&locks[0], p->have);
	av_lock_order_taken(&locks[1], p->want);
}

static void release_then_wait(const struct pair *p)
{
	av_lock_order_wait(&locks[0], p->have);
	av_lock_order_released(&locks[0]);
	av_lock_order_wait(&locks[1], p->want);
}

/* A row of the table is what is held; a column, what is waited for; x: it aborts. */
static const char *const expected[RANKS] = {
	[AV_RANK_APPEND] = "............", /* of several queue pairs: ibv_wr_start(3) */
	[AV_RANK_REQUESTER] = "xx..........",  [AV_RANK_RESPONDER] = "xxx.........",
	[AV_RANK_SENDER] = "xxxx........",     [AV_RANK_CHUNK] = "xxxxx.......",
	[AV_RANK_KEY_CHANGE] = "xxxxxx......", [AV_RANK_POLL] = "xxxxxxx.....",
	[AV_RANK_CQ] = "xxxxxxxx....",	       [AV_RANK_POST_RECV] = "xxxxxxxxx...",
	[AV_RANK_TAKE_RECV] = "xxxxxxxxxx..",  [AV_RANK_ATOMIC] = "xxxxxxxxxxx.",
	[AV_RANK_KEY] = "xxxxxxxxxxxx",
};

TEST(every_pair)
{
	static const struct {
		const char *name;
		void (*run)(const struct pair *p);
		bool waits; /* for the second, while the first is held */
	} ways[] = {
		{"wait, wait", wait_then_wait, true},
		{"try, wait", try_then_wait, true},
		{"wait, try", wait_then_try, false},
		{"wait, release, wait", release_then_wait, false},
	};

	for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
		for (int have = 0; have < RANKS; have++)
			for (int want = 0; want < RANKS; want++) {
				struct pair p = {(enum av_lock_rank)have, (enum av_lock_rank)want};
				bool bad = ways[w].waits && expected[have][want] == 'x';

				if (aborts(ways[w].run, &p) != bad)
					fail_msg("%s: rank %d, then %d", ways[w].name, have, want);
			}
}

/* --- more than two --------------------------------------------------------------- */

static void wait_below_the_lowest_of_three(const struct pair *p)
{
	av_lock_order_wait(&locks[0], AV_RANK_RESPONDER);
	av_lock_order_taken(&locks[1], AV_RANK_CQ);
	av_lock_order_taken(&locks[2], AV_RANK_REQUESTER); /* it does not hide the others */
	av_lock_order_wait(&locks[3], p->want);
}

static void release_the_highest(const struct pair *p)
{
	av_lock_order_wait(&locks[0], AV_RANK_REQUESTER);
	av_lock_order_wait(&locks[1], AV_RANK_RESPONDER);
	av_lock_order_wait(&locks[2], AV_RANK_CQ);
	av_lock_order_released(&locks[1]);
	av_lock_order_released(&locks[2]);
	av_lock_order_wait(&locks[3], p->want);
}

TEST(each_that_is_held_counts)
{
	assert_true(aborts(wait_below_the_lowest_of_three, &(struct pair){.want = AV_RANK_POLL}));
	assert_true(aborts(wait_below_the_lowest_of_three, &(struct pair){.want = AV_RANK_CQ}));
	assert_false(aborts(wait_below_the_lowest_of_three, &(struct pair){.want = AV_RANK_KEY}));
	assert_false(aborts(release_the_highest, &(struct pair){.want = AV_RANK_RESPONDER}));
	assert_true(aborts(release_the_highest, &(struct pair){.want = AV_RANK_REQUESTER}));
}

/* As many as @want, all by trying. */
static void hold_many(const struct pair *p)
{
	for (int i = 0; i < (int)p->want; i++)
		av_lock_order_taken(&locks[i], AV_RANK_RESPONDER);
	for (int i = 0; i < (int)p->want; i++)
		av_lock_order_released(&locks[i]);
}

TEST(so_many_and_no_more)
{
	assert_false(aborts(hold_many, &(struct pair){.want = (enum av_lock_rank)HELD_MAX}));
	assert_true(aborts(hold_many, &(struct pair){.want = (enum av_lock_rank)(HELD_MAX + 1)}));
}

/* --- held or not ----------------------------------------------------------------- */

static void assert_held(const struct pair *p)
{
	av_lock_order_wait(&locks[0], AV_RANK_REQUESTER);
	av_lock_order_wait(&locks[1], AV_RANK_RESPONDER);
	AV_ASSERT_HELD(&locks[0]);
	AV_ASSERT_HELD(&locks[1]);
}

static void assert_another(const struct pair *p)
{
	av_lock_order_wait(&locks[0], AV_RANK_REQUESTER);
	AV_ASSERT_HELD(&locks[1]);
}

static void assert_released(const struct pair *p)
{
	av_lock_order_wait(&locks[0], AV_RANK_REQUESTER);
	av_lock_order_released(&locks[0]);
	AV_ASSERT_HELD(&locks[0]);
}

static void release_what_is_not_held(const struct pair *p)
{
	av_lock_order_released(&locks[0]);
}

static void release_twice(const struct pair *p)
{
	av_lock_order_wait(&locks[0], AV_RANK_REQUESTER);
	av_lock_order_released(&locks[0]);
	av_lock_order_released(&locks[0]);
}

static void *take_and_keep(void *arg)
{
	av_lock_order_wait(&locks[0], AV_RANK_KEY);
	return NULL;
}

static void let_another_thread_hold(void)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, take_and_keep, NULL) == 0);
	pthread_join(thread, NULL);
}

static void assert_what_another_thread_holds(const struct pair *p)
{
	let_another_thread_hold();
	AV_ASSERT_HELD(&locks[0]);
}

static void wait_beside_another_thread(const struct pair *p)
{
	let_another_thread_hold();
	av_lock_order_wait(&locks[1], AV_RANK_REQUESTER);
}

static void wait_in_a_forked_child(const struct pair *p)
{
	av_lock_order_wait(&locks[0], AV_RANK_KEY);
	av_lock_order_forked();
	av_lock_order_wait(&locks[1], AV_RANK_REQUESTER);
}

static const struct {
	const char *name;
	void (*run)(const struct pair *p);
	bool aborts;
} rows[] = {
	{"held", assert_held, false},
	{"another is held", assert_another, true},
	{"released", assert_released, true},
	{"releasing what is not held", release_what_is_not_held, true},
	{"releasing twice", release_twice, true},
	{"another thread holds it", assert_what_another_thread_holds, true},
	{"waiting beside another thread", wait_beside_another_thread, false},
	{"a forked child holds nothing", wait_in_a_forked_child, false},
};

TEST(held_or_not)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (aborts(rows[i].run, NULL) != rows[i].aborts)
			fail_msg("%s", rows[i].name);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
