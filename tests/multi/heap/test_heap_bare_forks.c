/* SPDX-License-Identifier: MIT */
/*
 * Forks that run no fork handlers: _Fork(3), clone(2) and by number. The child has the memory of
 * its moment, whatever its parent stores later; what it stores, maps and unmaps is nobody else's.
 */
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_fixture.h"

static uint8_t *memory;
static int go[2];

/* --- ways to make a child, which runs @run and exits with what it returns --------- */

typedef int run_fn(void *arg);

static uint8_t stack[64 << 10] __attribute__((aligned(16)));

static pid_t exit_in_child(long pid, run_fn *run)
{
	if (pid == 0)
		_exit(run(NULL));
	return (pid_t)pid;
}

static pid_t by_bare_fork(run_fn *run)
{
	return exit_in_child(_Fork(), run);
}

static pid_t by_clone(run_fn *run)
{
	return clone(run, stack + sizeof(stack), SIGCHLD, NULL);
}

static pid_t by_clone_number(run_fn *run)
{
	return exit_in_child(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), run);
}

static pid_t by_clone3_number(run_fn *run)
{
	struct clone_args args = {.exit_signal = SIGCHLD};

	return exit_in_child(syscall(SYS_clone3, &args, sizeof(args)), run);
}

static pid_t by_fork_number(run_fn *run)
{
#ifdef SYS_fork
	return exit_in_child(syscall(SYS_fork), run);
#else
	return by_clone_number(run);
#endif
}

static const struct way {
	const char *name;
	pid_t (*fork)(run_fn *run);
} ways[] = {
	{"_Fork()", by_bare_fork},
	{"clone()", by_clone},
	{"clone by number", by_clone_number},
	{"clone3 by number", by_clone3_number},
	{"fork by number", by_fork_number},
};

/* --- what the child does ---------------------------------------------------------- */

/* After the parent has stored. */
static int use_memory(void *unused)
{
	uint8_t *own;
	char c;

	if (read(go[0], &c, 1) != 1)
		return 1;
	if (same(memory, BYTES, 8) != BYTES)
		return 2;
	own = map_private(BYTES);
	fill(own, BYTES, 9);
	fill(memory, BYTES, 9);
	if (madvise(memory, PAGE, MADV_DONTNEED) || memory[0] || same(own, BYTES, 9) != BYTES)
		return 3;
	return munmap(memory, BYTES) ? 4 : 0;
}

static int store_byte(void *unused)
{
	memory[0] ^= 0xff;
	return 0;
}

static void expect_exited(pid_t child)
{
	int status = -1;

	EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0,
	       "child %d, status %#x, errno %d", (int)child, (unsigned int)status, errno);
}

/* --- rows ------------------------------------------------------------------------- */

static void fork_row(const struct way *w)
{
	struct ibv_mr *mr;
	uint8_t *later;
	pid_t child;

	row("%s", w->name);
	memory = map_private(BYTES);
	fill(memory, BYTES, 8);
	mr = reg(memory, BYTES);
	NEED(pipe(go) == 0);
	child = w->fork(use_memory);
	fill(memory, BYTES, 10);
	later = map_private(BYTES);
	fill(later, BYTES, 11);
	NEED(write(go[1], "", 1) == 1);
	expect_exited(child);
	expect_filled(memory, BYTES, 10);
	expect_filled(later, BYTES, 11);
	expect_shared(later, true);
	expect_reached(memory, mr);
	dereg(mr);
	munmap(memory, BYTES);
	munmap(later, BYTES);
	close(go[0]);
	close(go[1]);
}

/* As posix_spawn(3) does: nothing becomes private for a child that has no memory of its own. */
static void shared_row(void)
{
	const int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;

	row("clone() that shares memory");
	memory = map_private(BYTES);
	fill(memory, BYTES, 12);
	expect_exited(clone(store_byte, stack + sizeof(stack), flags, NULL));
	memory[0] ^= 0xff;
	expect_filled(memory, BYTES, 12);
	expect_shared(memory, true);
	munmap(memory, BYTES);
}

static void refused_row(void)
{
	struct clone_args args = {.exit_signal = SIGCHLD, .flags = CLONE_SIGHAND};

	row("forks that the kernel refuses");
	memory = map_private(BYTES);
	fill(memory, BYTES, 13);
	EXPECT(clone(store_byte, NULL, SIGCHLD, NULL) == -1 && errno == EINVAL, "no stack");
	EXPECT(clone(store_byte, stack + sizeof(stack), CLONE_SIGHAND, NULL) == -1 &&
		       errno == EINVAL,
	       "clone: errno %d", errno);
	EXPECT(syscall(SYS_clone3, &args, sizeof(args)) == -1 && errno == EINVAL,
	       "clone3: errno %d", errno);
	EXPECT(syscall(SYS_clone3, NULL, 0) == -1 && errno == EINVAL, "clone3 of nothing");
	expect_filled(memory, BYTES, 13);
	munmap(memory, BYTES);
	memory = map_private(BYTES);
	expect_shared(memory, true); /* what comes later */
	munmap(memory, BYTES);
}

static void run(void)
{
	for (size_t i = 0; i < COUNT_OF(ways); i++)
		fork_row(&ways[i]);
	shared_row();
	refused_row();
}

int main(int argc, char **argv)
{
	return heap_test(argc, argv, run);
}
