/* SPDX-License-Identifier: MIT */
/* The table of fork handlers: who is called around fork(), and in which order. */
#include <assert.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "lib/unit.h"

#define MAX (4 * AV_FORK_N)

enum when { PREPARE = 'p', PARENT = 'P', CHILD = 'C' };

/* What was called, a when and a row each. */
static struct call {
	enum when when;
	int row;
} calls[MAX];
static int count;

static void call(enum when when, int row)
{
	if (count < MAX)
		calls[count] = (struct call){when, row};
	count++;
}

/* Handlers do not know their row, so each row has its own. */
/* clang-format off */
#define ROWS(X) \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
	X(16) X(17)
#define HANDLERS(row) \
	static void prepare_##row(void) { call(PREPARE, row); } \
	static void parent_##row(void) { call(PARENT, row); } \
	static void child_##row(void) { call(CHILD, row); }
#define ENTRY(row) {.prepare = prepare_##row, .parent = parent_##row, .child = child_##row},
ROWS(HANDLERS)
static const struct av_fork_handlers all[] = {ROWS(ENTRY)};
/* clang-format on */
static_assert(sizeof(all) / sizeof(all[0]) == AV_FORK_N, "handlers for each row");

static const struct av_fork_handlers none;

static int set_all(void **state)
{
	count = 0;
	for (int row = 0; row < AV_FORK_N; row++)
		if (av_fork_register((enum av_fork_row)row, &all[row]))
			return -1;
	return 0;
}

/* Were these the calls from @at on? Counts up @at. */
static bool was(int *at, enum when when, int row)
{
	int i = (*at)++;

	return i < count && i < MAX && calls[i].when == when && calls[i].row == row;
}

/* Upwards before the fork, downwards after it; @after in this process. */
static bool in_order(enum when after)
{
	bool good = count == 2 * AV_FORK_N;
	int at = 0;

	for (int row = 0; row < AV_FORK_N; row++)
		good = good && was(&at, PREPARE, row);
	for (int row = AV_FORK_N - 1; row >= 0; row--)
		good = good && was(&at, after, row);
	return good;
}

/* Fork, and let the child say whether @good holds there. */
static bool child_finds(bool (*good)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(good() ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool child_in_order(void)
{
	return in_order(CHILD);
}

TEST_WITH(rows_run_in_order_and_back, set_all, NULL)
{
	assert_true(child_finds(child_in_order));
	assert_true(in_order(PARENT));
}

static bool nothing_called(void)
{
	return count == 0;
}

TEST_WITH(what_is_not_there_is_not_called, set_all, NULL)
{
	for (int row = 0; row < AV_FORK_N; row++)
		assert_int_equal(av_fork_register((enum av_fork_row)row, &none), 0);
	assert_true(child_finds(nothing_called));
	assert_true(nothing_called());
}

static bool grandchild_in_order(void)
{
	int at = 6; /* behind the calls of both ways into the child */

	return count == 8 && was(&at, CHILD, 1) && was(&at, CHILD, 0);
}

static bool child_and_grandchild_in_order(void)
{
	int at = 2;

	return count == 4 && was(&at, CHILD, 1) && was(&at, CHILD, 0) &&
	       child_finds(grandchild_in_order);
}

TEST_WITH(children_fork_too, set_all, NULL)
{
	for (int row = 2; row < AV_FORK_N; row++)
		assert_int_equal(av_fork_register((enum av_fork_row)row, &none), 0);
	assert_true(child_finds(child_and_grandchild_in_order));
}

/* As another thread may do while this one forks. */
static void register_first_row(void)
{
	(void)av_fork_register((enum av_fork_row)0, &all[0]);
}

static bool only_child_called(void)
{
	int at = 0;

	return count == 1 && was(&at, CHILD, 0);
}

/* Its prepare() has not taken the lock that its parent() would release. */
TEST_WITH(row_that_came_late_is_not_released, set_all, NULL)
{
	static const struct av_fork_handlers adds = {.prepare = register_first_row};

	for (int row = 0; row < AV_FORK_N; row++)
		assert_int_equal(av_fork_register((enum av_fork_row)row, row == 1 ? &adds : &none),
				 0);
	assert_true(child_finds(only_child_called));
	assert_true(nothing_called());
}

int main(void)
{
	return run_cases(NULL, NULL);
}
