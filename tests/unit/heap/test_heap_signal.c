/* SPDX-License-Identifier: MIT */
/*
 * A signal comes at instructions all over the heap, and its handler does what fork() has done here:
 * it ends, and then no block is shared any more, whatever the interrupted call was about to do. The
 * thread can be cancelled afterwards.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "lib/sanitized.h"
#include "lib/stepped.h"
#include "lib/unit.h"
#include "heap/blocks.h"

#define BYTES (16 * AV_BLOCK_PAGE)

static const struct av_shared_heap *heap;
static void *block;
static volatile sig_atomic_t left_shared;

static void ignore_leaving(uint64_t addr, uint64_t bytes)
{
}

static void ignore_exchange(uint64_t addr, uint64_t bytes, bool begins)
{
}

static bool any_shared(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[256];
	bool ret = maps == NULL;

	while (maps && fgets(line, sizeof(line), maps))
		ret = ret || (strstr(line, " rw-s ") && strstr(line, "anyverbs-heap"));
	if (maps)
		fclose(maps);
	return ret;
}

static void fork_here(int sig)
{
	heap->before_fork(ignore_exchange, false);
	left_shared = any_shared();
	heap->after_fork_in_parent();
}

static void look_up(void)
{
	(void)av_block_bytes(block);
}

static void take_new(void)
{
	(void)!av_block_take(BYTES, 1, true);
}

static void take_spare(void)
{
	(void)!av_block_take(2 * BYTES, 1, false);
}

static void keep_spare(void)
{
	av_block_free(block);
}

static void grow(void)
{
	(void)!av_block_resize(block, 2 * BYTES);
}

static const struct row {
	const char *name;
	void (*call)(void);
	unsigned int stride;
} rows[] = {
	{"looking one up", look_up, 3}, {"taking one that is kept", take_spare, 7},
	{"keeping one", keep_spare, 7}, {"taking a new one", take_new, 17},
	{"letting one grow", grow, 13},
};

static const struct row *now;

/*
 * One block in use, and one that is kept for the next one who takes one. The first call of a
 * function of the C library's looks for it, in far too many instructions: so each is called before.
 */
static void begin(void)
{
	static const struct av_shared_heap_user user = {.leaving = ignore_leaving};
	void *spare;

	heap = av_block_begin(&user);
	CHECK(heap != NULL);
	block = av_block_take(BYTES, 1, true);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		rows[i].call();
	block = av_block_take(BYTES, 1, true);
	spare = av_block_take(2 * BYTES, 1, true);
	CHECK(block != NULL && spare != NULL);
	av_block_free(spare);
	signal(SIGUSR1, fork_here);
	alarm(0);
}

/* It stops at the end of the call, and then ends. */
static void call_and_judge(void)
{
	int cancel;

	alarm(30);
	now->call();
	raise(SIGSTOP);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
	_exit(left_shared || cancel != PTHREAD_CANCEL_ENABLE);
}

/* To its end, with each signal that it is stopped for. */
static void expect_end(pid_t child, int sig)
{
	int status;

	do {
		CHECK(ptrace(PTRACE_CONT, child, NULL, sig) == 0);
		CHECK(waitpid(child, &status, 0) == child);
		sig = WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP ? WSTOPSIG(status) : 0;
	} while (WIFSTOPPED(status));
	if (status)
		fail_msg("%s: status %#x", now->name, (unsigned int)status);
}

/* Return: false: the call has ended before */
static bool interrupted_after(unsigned int steps)
{
	pid_t child = start_stopped(call_and_judge);
	int status, sig = SIGTRAP;

	for (unsigned int i = 0; i < steps && sig == SIGTRAP; i++) {
		CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
		CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
		sig = WSTOPSIG(status);
	}
	expect_end(child, SIGUSR1);
	return sig == SIGTRAP;
}

TEST(between_instructions)
{
	begin();
	for (now = rows; now < rows + AV_ARRAY_SIZE(rows); now++) {
		unsigned int steps = 0;

		while (interrupted_after(steps))
			steps += now->stride;
		print_message("%s: %u instructions\n", now->name, steps);
	}
}

int main(void)
{
	if (SANITIZED) {
		printf("SKIPPED: no sanitizer looks into the heap, and each fork takes long\n");
		return 77;
	}
	return run_cases(NULL, NULL);
}
