/* SPDX-License-Identifier: MIT */
/*
 * That the program's handlers of SIGSEGV and SIGBUS, and the lack of them, do what they did before
 * the copy routine had its own: for faults, and for signals that somebody sent.
 */
#include "copy_fixture.h"

#include <signal.h>

#include "copy/copy.h"

/* An access that is meant to fault is not the sanitizers' business. */
#define NO_SANITIZE __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

/* ThreadSanitizer runs every handler with all signals blocked, whatever its mask says. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define HANDLER_MASK_IS_FULL 1
#else
#define HANDLER_MASK_IS_FULL 0
#endif

static NO_SANITIZE void touch(volatile unsigned char *p)
{
	*p = 1;
}

/* --- none ------------------------------------------------------------------------ */

static void default_then_touch_none(void)
{
	set_both(SIG_DFL);
	init_guard();
	copy_faults();
	touch(make_edge(EDGE_NONE));
}

static void default_then_touch_end_of_file(void)
{
	set_both(SIG_DFL);
	init_guard();
	touch(make_edge(EDGE_END_OF_FILE));
}

static void default_then_sent(void)
{
	set_both(SIG_DFL);
	init_guard();
	raise(SIGSEGV);
}

static void default_then_killed(void)
{
	set_both(SIG_DFL);
	init_guard();
	kill(getpid(), SIGBUS);
	pause();
}

TEST(default_action_is_kept)
{
	child_dies_of(default_then_touch_none, SIGSEGV);
	child_dies_of(default_then_touch_end_of_file, SIGBUS);
	child_dies_of(default_then_sent, SIGSEGV);
	child_dies_of(default_then_killed, SIGBUS);
}

static void ignored_then_sent(void)
{
	set_both(SIG_IGN);
	init_guard();
	raise(SIGSEGV);
	raise(SIGBUS);
	copy_faults();
}

static void ignored_then_touch(void)
{
	set_both(SIG_IGN);
	init_guard();
	touch(make_edge(EDGE_NONE));
}

TEST(ignored_is_ignored_unless_it_is_a_fault)
{
	child_succeeds(ignored_then_sent);
	child_dies_of(ignored_then_touch, SIGSEGV);
}

/* --- those of the program -------------------------------------------------------- */

static volatile sig_atomic_t calls, seen_signal;
static volatile int seen_code;
static void *volatile seen_addr;
static sigset_t seen_mask;
static sigjmp_buf back;

static void program_handler(int sig, siginfo_t *info, void *uc)
{
	calls++;
	seen_signal = sig;
	seen_code = info->si_code;
	seen_addr = info->si_addr;
	pthread_sigmask(SIG_BLOCK, NULL, &seen_mask);
	if (info->si_code > 0)
		siglongjmp(back, 1);
}

static void program_plain_handler(int sig)
{
	calls++;
	seen_signal = sig;
	siglongjmp(back, 1);
}

static void install(int sig, int flags)
{
	struct sigaction sa = {.sa_sigaction = program_handler, .sa_flags = SA_SIGINFO | flags};

	sigemptyset(&sa.sa_mask);
	sigaddset(&sa.sa_mask, SIGUSR1);
	CHECK(sigaction(sig, &sa, NULL) == 0);
}

static void earlier_handler_gets_faults(void)
{
	unsigned char *edge = make_edge(EDGE_NONE), *eof = make_edge(EDGE_END_OF_FILE);

	install(SIGSEGV, 0);
	install(SIGBUS, 0);
	init_guard();
	copy_faults();
	CHECK(calls == 0);
	if (sigsetjmp(back, 1) == 0)
		touch(edge + 5);
	CHECK(calls == 1 && seen_signal == SIGSEGV && seen_code > 0 && seen_addr == edge + 5);
	CHECK(sigismember(&seen_mask, SIGUSR1) && sigismember(&seen_mask, SIGSEGV));
	if (sigsetjmp(back, 1) == 0)
		touch(eof + 6);
	CHECK(calls == 2 && seen_signal == SIGBUS && seen_code > 0 && seen_addr == eof + 6);
	copy_faults();
	CHECK(calls == 2);
}

static void earlier_handler_gets_sent_signals(void)
{
	install(SIGSEGV, 0);
	install(SIGBUS, SA_NODEFER);
	init_guard();
	copy_faults();
	raise(SIGSEGV);
	CHECK(calls == 1 && seen_signal == SIGSEGV && seen_code <= 0);
	CHECK(sigismember(&seen_mask, SIGUSR1) && sigismember(&seen_mask, SIGSEGV));
	raise(SIGBUS);
	CHECK(calls == 2 && seen_signal == SIGBUS && seen_code <= 0);
	CHECK(sigismember(&seen_mask, SIGBUS) == HANDLER_MASK_IS_FULL);
	copy_faults();
	CHECK(calls == 2);
}

static void earlier_plain_handler(void)
{
	set_both(program_plain_handler);
	init_guard();
	copy_faults();
	if (sigsetjmp(back, 1) == 0)
		touch(make_edge(EDGE_UNMAPPED));
	CHECK(calls == 1 && seen_signal == SIGSEGV);
	copy_faults();
}

static void earlier_handler_for_once(void)
{
	install(SIGSEGV, SA_RESETHAND);
	install(SIGBUS, 0);
	init_guard();
	if (sigsetjmp(back, 1) == 0)
		touch(make_edge(EDGE_NONE));
	CHECK(calls == 1);
	copy_faults();
	touch(make_edge(EDGE_NONE));
}

TEST(earlier_handlers_work_as_before)
{
	child_succeeds(earlier_handler_gets_faults);
	child_succeeds(earlier_handler_gets_sent_signals);
	child_succeeds(earlier_plain_handler);
	child_dies_of(earlier_handler_for_once, SIGSEGV);
}

static void later_handler(void)
{
	set_both(SIG_DFL);
	init_guard();
	copy_faults();
	install(SIGSEGV, 0);
	wait_for_next_check();
	copy_faults();
	CHECK(calls == 0);
	CHECK(av_copy_init() == 0);
	wait_for_next_check();
	copy_faults();
	CHECK(calls == 0);
	if (sigsetjmp(back, 1) == 0)
		touch(make_edge(EDGE_NONE));
	CHECK(calls == 1);
}

static struct sigaction chained_to;

static void chaining_handler(int sig, siginfo_t *info, void *uc)
{
	calls++;
	chained_to.sa_sigaction(sig, info, uc);
}

/* A program that puts itself above us and calls what it found: no circle, and default still means
 * death. */
static void later_handler_that_chains(void)
{
	struct sigaction sa = {.sa_sigaction = chaining_handler, .sa_flags = SA_SIGINFO};

	set_both(SIG_DFL);
	init_guard();
	CHECK(sigaction(SIGSEGV, &sa, &chained_to) == 0);
	CHECK(av_copy_init() == 0);
	wait_for_next_check();
	copy_faults();
	CHECK(calls == 0);
	touch(make_edge(EDGE_NONE));
}

TEST(later_handlers_see_no_fault_of_a_copy)
{
	child_succeeds(later_handler);
	child_dies_of(later_handler_that_chains, SIGSEGV);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
