/* SPDX-License-Identifier: MIT */
/* What a region's memory is asked for after ibv_fork_init(), if ANYVERBS_FORK is not set. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/region.h"

/* How the program asks: once and for all, so each row is a process of its own. */
static const struct {
	bool call;
	const char *variable;
	int refused; /* for memory with a hole */
} rows[] = {
	{false, NULL, 0},
	{true, NULL, ENOMEM},
	{false, "RDMAV_FORK_SAFE", ENOMEM},
	{false, "IBV_FORK_SAFE", ENOMEM},
};

/* Return: what is wrong; 0: nothing */
static int try(size_t i)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint8_t *p =
		mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t at = (uintptr_t)p;
	pid_t pid;
	int status;

	if (rows[i].variable)
		setenv(rows[i].variable, "1", 1);
	if (rows[i].call)
		av_fork_asked();
	if (p == MAP_FAILED || av_fork_guard(at + 5, page) || av_fork_unguard(at + 5, page))
		return 1;
	if (madvise(p, page, MADV_DONTFORK) || av_fork_unguard(at, page))
		return 2;
	pid = fork(); /* the child has the page if it was asked for back */
	if (pid == 0)
		_exit(msync(p, page, MS_ASYNC) != 0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != (rows[i].refused ? 0 : 1 << 8))
		return 3;
	if (munmap(p + page, page))
		return 4;
	if (av_fork_guard(at, 2 * page) != rows[i].refused ||
	    av_fork_unguard(at, 2 * page) != rows[i].refused)
		return 5;
	return 0;
}

TEST(who_asked_hears_of_holes)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (pid == 0)
			_exit(try(i));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status)
			fail_msg("row %zu: %d", i, WEXITSTATUS(status));
	}
}

int main(void)
{
	unsetenv("ANYVERBS_FORK");
	unsetenv("RDMAV_FORK_SAFE");
	unsetenv("IBV_FORK_SAFE");
	return run_cases(NULL, NULL);
}
