/* SPDX-License-Identifier: MIT */
/* Our own threads: what they leave alone while they begin and end, and what they leave behind. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "lib/refuse_call.h"
#include "lib/sanitized.h"
#include "lib/unit.h"
#include "lib/wait.h"

#define PATIENCE_MS 30000
#define REFUSED	    3 /* exit status of a child that could not do what it is for */

static void *nothing(void *arg)
{
	return arg;
}

static void run(void *(*what)(void *arg), void *arg)
{
	struct av_thread *thread;

	assert_int_equal(av_thread_start(&thread, "anyverbs-test", what, arg), 0);
	av_thread_join(thread);
}

/* Return: exit status of a child that runs this; -1: it was killed */
static int in_child(int (*what)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(what());
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- what a thread finds --------------------------------------------------------------- */

static void *tell_mask(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, arg);
	return NULL;
}

TEST(signals_are_for_the_program)
{
	sigset_t before, inside, after;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	run(tell_mask, &inside);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int sig = 1; sig < 32; sig++) {
		bool open = sig == SIGSEGV || sig == SIGBUS || sig == SIGSYS || sig == SIGKILL ||
			    sig == SIGSTOP;

		assert_int_equal(sigismember(&inside, sig), !open);
		assert_int_equal(sigismember(&after, sig), sigismember(&before, sig));
	}
}

static void *await_name(void *arg)
{
	char name[16] = "";

	*(bool *)arg = WAIT_UNTIL(!pthread_getname_np(pthread_self(), name, sizeof(name)) &&
					  !strcmp(name, "anyverbs-test"),
				  PATIENCE_MS) &&
		       av_thread_own() == 1;
	return NULL;
}

TEST(it_has_its_name_and_is_counted)
{
	bool ret = false;

	assert_int_equal(av_thread_own(), 0);
	run(await_name, &ret);
	assert_true(ret);
	assert_int_equal(av_thread_own(), 0);
}

/* --- registration caches --------------------------------------------------------------- */

/* From here to the end of the process, this thread may make none of the calls. */
static void *forbid_calls(void *arg)
{
	static const int overwritten[] = {SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk};
	void *volatile p;

	for (size_t i = 0; i < sizeof(overwritten) / sizeof(overwritten[0]); i++)
		if (!filter_call((uint32_t)overwritten[i], SECCOMP_RET_KILL_PROCESS))
			_exit(REFUSED);
	p = malloc(100);
	free(p);
	return arg;
}

static int end_without_calls(void)
{
	run(forbid_calls, NULL);
	return 0;
}

/* The filter kills: what a thread of the C library's own does at its end is such a call. */
static int end_with_calls(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, forbid_calls, NULL))
		return REFUSED;
	pthread_join(thread, NULL);
	return 0;
}

TEST(what_caches_overwrite_is_not_called)
{
	if (SANITIZED) /* they unmap what they have for the thread */
		skip();
	assert_int_equal(in_child(end_with_calls), -1);
	assert_int_equal(in_child(end_without_calls), 0);
}

/* --- memory ---------------------------------------------------------------------------- */

static void *tell_stack(void *arg)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0); /* variables may be elsewhere */

	*(void **)arg = (void *)(here - here % (uintptr_t)sysconf(_SC_PAGESIZE));
	return NULL;
}

static bool is_mapped(void *page)
{
	return msync(page, 1, MS_ASYNC) == 0;
}

TEST(who_joins_gives_memory_back)
{
	void *page = NULL;

	run(tell_stack, &page);
	assert_non_null(page);
	assert_false(is_mapped(page));
}

static bool is_given_back(void *page)
{
	run(nothing, NULL);
	return !is_mapped(page);
}

TEST(who_is_left_has_memory_until_another_thread_comes)
{
	struct av_thread *thread;
	void *page = NULL;

	assert_int_equal(av_thread_start(&thread, "anyverbs-left", tell_stack, &page), 0);
	assert_true(WAIT_UNTIL(av_thread_own() == 0, PATIENCE_MS));
	assert_non_null(page);
	assert_true(is_mapped(page));
	av_thread_leave(thread);
	assert_true(is_mapped(page));
	/* The kernel ends a thread a moment after its last instruction. */
	assert_true(WAIT_UNTIL(is_given_back(page), PATIENCE_MS));
}

/* Some end before they are left, some after. */
TEST(many_are_left)
{
	struct av_thread *thread;

	for (int i = 0; i < 300; i++) {
		assert_int_equal(av_thread_start(&thread, "anyverbs-left", nothing, NULL), 0);
		av_thread_leave(thread);
	}
	assert_true(WAIT_UNTIL(av_thread_own() == 0, PATIENCE_MS));
}

static void *wait_for_end(void *arg)
{
	void *page;

	tell_stack(&page);
	atomic_store((void *_Atomic *)arg, page);
	while (atomic_load((void *_Atomic *)arg))
		wait_moment();
	return NULL;
}

static void *_Atomic parents_page;

static int look_in_child(void)
{
	struct av_thread *thread;

	if (is_mapped(atomic_load(&parents_page)) || av_thread_own() != 0)
		return 1;
	if (UNDER_TSAN)
		return 0;
	if (av_thread_start(&thread, "anyverbs-child", nothing, NULL))
		return 2;
	av_thread_join(thread);
	return 0;
}

TEST(a_child_has_none)
{
	struct av_thread *thread;

	assert_int_equal(
		av_thread_start(&thread, "anyverbs-test", wait_for_end, (void *)&parents_page), 0);
	assert_true(WAIT_UNTIL(atomic_load(&parents_page), PATIENCE_MS));
	assert_int_equal(in_child(look_in_child), 0);
	assert_true(is_mapped(atomic_load(&parents_page)));
	atomic_store(&parents_page, NULL);
	av_thread_join(thread);
}

static int start_without_memory(void)
{
	struct rlimit none = {0, 0};
	struct av_thread *thread;

	if (setrlimit(RLIMIT_AS, &none))
		return REFUSED;
	return av_thread_start(&thread, "anyverbs-test", nothing, NULL) == ENOMEM ? 0 : 1;
}

/* They are on the stack of each thread. */
static _Thread_local volatile char large[1 << 20];

static void *use_large(void *arg)
{
	char frame[64 << 10];

	memset(frame, 1, sizeof(frame));
	__asm__ volatile("" : : "r"(frame) : "memory");
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = 1;
	return arg;
}

TEST(the_program_has_large_thread_local_variables)
{
	run(use_large, NULL);
}

TEST(no_memory)
{
	assert_int_equal(in_child(start_without_memory), 0);
}

int main(void)
{
	alarm(120);
	return run_cases(NULL, NULL);
}
