/* SPDX-License-Identifier: MIT */
/*
 * That copies work whatever a process does with its signals, its children and its system calls, and
 * leave its masks and stacks as they were.
 */
#include "copy_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "copy/copy.h"
#include "lib/refuse_call.h"

static void blocked_signals(void)
{
	sigset_t all, mask;

	set_both(SIG_DFL);
	init_guard();
	copy_faults();
	sigfillset(&all);
	CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
	wait_for_next_check();
	copy_faults();
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0);
	CHECK(sigismember(&mask, SIGSEGV) && sigismember(&mask, SIGBUS));
	CHECK(pthread_sigmask(SIG_UNBLOCK, &all, NULL) == 0);
	wait_for_next_check();
	copy_faults();
}

static void *copy_faults_in_thread(void *arg)
{
	copy_faults();
	return NULL;
}

/* One thread blocks everything, the other nothing; a thread's first copy needs no waiting. */
static void blocked_in_one_thread(void)
{
	sigset_t all;
	pthread_t thread;

	set_both(SIG_DFL);
	init_guard();
	copy_faults();
	CHECK(pthread_create(&thread, NULL, copy_faults_in_thread, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	sigfillset(&all);
	CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, copy_faults_in_thread, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

TEST(blocked_signals_are_no_danger)
{
	child_succeeds(blocked_signals);
	child_succeeds(blocked_in_one_thread);
}

static void state_of_signals_after_faults(void)
{
	sigset_t before_mask, after_mask;
	stack_t before_stack, after_stack;

	set_both(SIG_DFL);
	init_guard();
	sigemptyset(&before_mask);
	sigaddset(&before_mask, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &before_mask, NULL);
	sigaltstack(NULL, &before_stack);
	for (int i = 0; i < 20; i++)
		copy_faults();
	pthread_sigmask(SIG_BLOCK, NULL, &after_mask);
	sigaltstack(NULL, &after_stack);
	for (int sig = 1; sig < 32; sig++)
		CHECK(sigismember(&before_mask, sig) == sigismember(&after_mask, sig));
	CHECK(before_stack.ss_flags == after_stack.ss_flags &&
	      before_stack.ss_sp == after_stack.ss_sp);
}

TEST(fault_leaves_mask_and_stack_alone)
{
	child_succeeds(state_of_signals_after_faults);
}

static void fork_after_init(void)
{
	int status;
	pid_t pid;

	set_both(SIG_DFL);
	init_guard();
	pid = fork();
	if (pid == 0) {
		copy_faults();
		wait_for_next_check();
		copy_faults();
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	copy_faults();
}

TEST(forked_child_is_protected_too)
{
	child_succeeds(fork_after_init);
}

/* Some containers forbid the system call that the slow path prefers. */
static void forbid_process_vm(void)
{
	if (!refuse_call(SYS_process_vm_readv, EPERM))
		_exit(77);
}

static void copy_without_process_vm(void)
{
	unsigned char *src = map_pages(4), *dst = map_pages(4), *edge = make_edge(EDGE_NONE);

	forbid_process_vm();
	fill(src, 4 * page);
	for (size_t offset = 0; offset < 20; offset++) {
		memset(dst, 0, 4 * page);
		CHECK(av_copy(dst + offset, src + 3, 2 * page + offset) == AV_COPY_OK);
		CHECK(memcmp(dst + offset, src + 3, 2 * page + offset) == 0 &&
		      dst[2 * page + 2 * offset] == 0);
		memset(dst, 0, page);
		fill(edge - 600, 600);
		CHECK(av_copy(dst + offset, edge - 600, 700) == AV_COPY_FAULT);
		CHECK(memcmp(dst + offset, edge - 600, 600) == 0 && dst[600 + offset] == 0);
	}
	copy_faults();
}

TEST(slow_path_survives_a_system_call_filter)
{
	int status = run_child(copy_without_process_vm);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(); /* no filters here; the other tests of this program have run all the same */
	assert_int_equal(status, 0);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
