/* SPDX-License-Identifier: MIT */
/*
 * The copy routine: what it copies, what it answers where memory is missing, and that the rest of the process
 * does not notice its signal handler.
 *
 * The rules of copying run twice, before av_copy_init() (the kernel copies) and after it (the guarded
 * routines do). What concerns handlers runs in forked children, each with a history of its own, before the
 * parent has a handler.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/fault_guard.h"

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

#define PATTERN(i) ((unsigned char)((i)*7 + 13 + ((i) >> 8)))

static size_t page;

static void fill(unsigned char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = PATTERN(i);
}

static unsigned char *map_pages(size_t count)
{
	void *p = mmap(NULL, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

/* What follows a stretch of good memory. */
enum edge { EDGE_NONE, EDGE_UNMAPPED, EDGE_END_OF_FILE, EDGE_READ_ONLY, EDGE_N };

/* The first bad address: the two pages before it can be read and written, the one behind it is as @edge says.
 */
static unsigned char *make_edge(enum edge edge)
{
	unsigned char *p = map_pages(3);

	if (edge == EDGE_END_OF_FILE) {
		FILE *file = tmpfile();

		if (!file || ftruncate(fileno(file), (off_t)(2 * page)) != 0 ||
		    mmap(p, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fileno(file), 0) != p)
			abort();
		fclose(file);
	} else if (edge == EDGE_UNMAPPED) {
		munmap(p + 2 * page, page);
	} else {
		mprotect(p + 2 * page, page, edge == EDGE_READ_ONLY ? PROT_READ : PROT_NONE);
	}
	return p + 2 * page;
}

static void drop_edge(unsigned char *edge)
{
	munmap(edge - 2 * page, 3 * page);
}

/*
 * cmocka puts its own handlers in place for each test, so a test of the guarded way has to put ours back, as
 * found right after av_copy_init(), and must not wait for the thread to notice. @state points to whether it
 * is one.
 */
static struct sigaction our_segv, our_bus;
static bool by_kernel = false, guarded = true;

static void choose_way(void **state)
{
	const bool want_guard = *(const bool *)*state;

	if (want_guard) {
		sigaction(SIGSEGV, &our_segv, NULL);
		sigaction(SIGBUS, &our_bus, NULL);
	}
	av_fault_guard_check(av_now_coarse_ns());
	assert_int_equal(av_fault_guard_ready(), want_guard);
}

/* --- what is copied
 * ------------------------------------------------------------------------------------------ */

static void every_size_at_every_offset(void **state)
{
	unsigned char src[384] AV_ALIGNED(64), dst[384] AV_ALIGNED(64), model[384];

	choose_way(state);
	fill(src, sizeof(src));
	for (size_t len = 0; len <= 300; len++)
		for (size_t offsets = 0; offsets < 256; offsets++) {
			const size_t from = 16 + offsets % 16, to = 16 + offsets / 16;

			memset(dst, 0xee, sizeof(dst));
			memset(model, 0xee, sizeof(model));
			memcpy(model + to, src + from, len);
			assert_int_equal(av_copy(dst + to, src + from, len), AV_COPY_OK);
			if (memcmp(dst, model, sizeof(dst)) != 0)
				fail_msg("%zu bytes from offset %zu to offset %zu", len, from, to);
		}
}

static void pages_are_crossed(void **state)
{
	static const size_t distance[] = {0, 1, 3, 7, 8, 9, 15, 16, 31, 33, 64, 127, 128, 129, 1000};
	unsigned char *src = map_pages(8), *dst = map_pages(8), *model = map_pages(8);
	const size_t room = 8 * page;

	choose_way(state);
	fill(src, room);
	for (size_t i = 0; i < AV_ARRAY_SIZE(distance); i++)
		for (size_t j = 0; j < AV_ARRAY_SIZE(distance); j++)
			for (size_t k = 0; k < AV_ARRAY_SIZE(distance); k++) {
				const size_t from = page - distance[i], to = 2 * page - distance[j];
				const size_t len = k % 5 * page + distance[k];

				memset(dst, 0, room);
				memset(model, 0, room);
				memcpy(model + to, src + from, len);
				assert_int_equal(av_copy(dst + to, src + from, len), AV_COPY_OK);
				assert_memory_equal(dst, model, room);
			}
	munmap(src, room);
	munmap(dst, room);
	munmap(model, room);
}

static void overlap_downwards_is_a_move(void **state)
{
	static const size_t lengths[] = {1, 7, 8, 40, 64, 100, 128, 200, 256, 400, 1500, 5000};
	unsigned char *work = map_pages(2), *model = map_pages(2);

	choose_way(state);
	for (size_t i = 0; i < AV_ARRAY_SIZE(lengths); i++)
		for (size_t distance = 0; distance < 300; distance++) {
			const size_t to = distance % 16;

			fill(work, 2 * page);
			fill(model, 2 * page);
			memmove(model + to, model + to + distance, lengths[i]);
			assert_int_equal(av_copy(work + to, work + to + distance, lengths[i]), AV_COPY_OK);
			assert_memory_equal(work, model, 2 * page);
		}
	munmap(work, 2 * page);
	munmap(model, 2 * page);
}

static void nothing_to_copy_touches_nothing(void **state)
{
	choose_way(state);
	assert_int_equal(av_copy(NULL, NULL, 0), AV_COPY_OK);
	for (uintptr_t at = 1; at < 16; at++)
		assert_int_equal(av_copy((void *)at, (void *)(at + 1), 0), AV_COPY_OK);
}

static void errno_is_left_alone(void **state)
{
	unsigned char *edge = make_edge(EDGE_NONE), byte = 0;

	choose_way(state);
	errno = ENOTTY;
	assert_int_equal(av_copy(&byte, edge, 1), AV_COPY_FAULT);
	assert_int_equal(av_copy(&byte, edge - 1, 1), AV_COPY_OK);
	assert_int_equal(av_copy_probe(edge, 1), AV_COPY_FAULT);
	assert_int_equal(errno, ENOTTY);
	drop_edge(edge);
}

/* --- where memory is missing
 * --------------------------------------------------------------------------------- */

static const size_t before[] = {0,  1,	 2,   7,   8,	9,   16,  31,	63,   64,
				65, 100, 127, 128, 129, 255, 300, 1000, 4097, 5000};
static const size_t behind[] = {1, 2, 8, 200, 3000};

static void source_ends(enum edge kind, size_t good, size_t bad, size_t offset)
{
	unsigned char *edge = make_edge(kind), *dst = map_pages(4), *model = map_pages(4);

	fill(edge - good, good);
	memset(dst, 0xee, 4 * page);
	memset(model, 0xee, 4 * page);
	memcpy(model + offset, edge - good, good);
	assert_int_equal(av_copy(dst + offset, edge - good, good + bad), AV_COPY_FAULT);
	if (memcmp(dst, model, 4 * page) != 0)
		fail_msg("source, edge %d: %zu good bytes, then %zu, to offset %zu", kind, good, bad, offset);
	drop_edge(edge);
	munmap(dst, 4 * page);
	munmap(model, 4 * page);
}

static void destination_ends(enum edge kind, size_t good, size_t bad, size_t offset)
{
	unsigned char *edge = make_edge(kind), *src = map_pages(4);

	fill(src, 4 * page);
	memset(edge - 2 * page, 0xee, 2 * page);
	assert_int_equal(av_copy(edge - good, src + offset, good + bad), AV_COPY_FAULT);
	if (memcmp(edge - good, src + offset, good) != 0)
		fail_msg("destination, edge %d: %zu good bytes, then %zu, from offset %zu", kind, good, bad,
			 offset);
	if (edge[-(ptrdiff_t)good - 1] != 0xee)
		fail_msg("destination, edge %d: byte before the range", kind);
	drop_edge(edge);
	munmap(src, 4 * page);
}

static void for_each_edge(enum edge last,
			  void (*check)(enum edge kind, size_t good, size_t bad, size_t offset))
{
	for (enum edge kind = 0; kind <= last; kind++)
		for (size_t i = 0; i < AV_ARRAY_SIZE(before); i++)
			for (size_t j = 0; j < AV_ARRAY_SIZE(behind); j++)
				check(kind, before[i], behind[j], (before[i] * 5 + behind[j] * 3 + i) % 24);
}

static void missing_source_is_a_fault(void **state)
{
	choose_way(state);
	for_each_edge(EDGE_END_OF_FILE, source_ends);
}

static void missing_destination_is_a_fault(void **state)
{
	choose_way(state);
	for_each_edge(EDGE_READ_ONLY, destination_ends);
}

static void impossible_addresses_are_faults(void **state)
{
	static const uintptr_t impossible[] = {
		0, 8, UINTPTR_MAX, UINTPTR_MAX - 7, (uintptr_t)1 << 62, (uintptr_t)1 << 63};
	unsigned char *ours = map_pages(1);

	choose_way(state);
	for (size_t i = 0; i < AV_ARRAY_SIZE(impossible); i++) {
		assert_int_equal(av_copy(ours, (void *)impossible[i], 8), AV_COPY_FAULT);
		assert_int_equal(av_copy((void *)impossible[i], ours, 8), AV_COPY_FAULT);
		assert_int_equal(av_copy((void *)impossible[i], ours, page), AV_COPY_FAULT);
		assert_int_equal(av_copy_probe((void *)impossible[i], 0), AV_COPY_FAULT);
		assert_int_equal(av_copy_probe((void *)impossible[i], 1), AV_COPY_FAULT);
	}
	munmap(ours, page);
}

static void shrunken_file_is_a_fault(void **state)
{
	FILE *file = tmpfile();
	unsigned char byte = 1, *p;

	choose_way(state);
	assert_int_equal(ftruncate(fileno(file), (off_t)page), 0);
	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(av_copy(p, &byte, 1), AV_COPY_OK);
	assert_int_equal(ftruncate(fileno(file), 0), 0);
	assert_int_equal(av_copy(p, &byte, 1), AV_COPY_FAULT);
	assert_int_equal(av_copy(&byte, p, 1), AV_COPY_FAULT);
	assert_int_equal(av_copy_probe(p, 0), AV_COPY_FAULT);
	munmap(p, page);
	fclose(file);
}

static void probe_tells_what_may_be_done(void **state)
{
	choose_way(state);
	for (enum edge kind = 0; kind < EDGE_N; kind++) {
		unsigned char *edge = make_edge(kind);

		fill(edge - page, page);
		for (int i = 0; i < 9; i++) {
			const enum av_copy_result readable =
				kind == EDGE_READ_ONLY ? AV_COPY_OK : AV_COPY_FAULT;

			assert_int_equal(av_copy_probe(edge + i, 0), readable);
			assert_int_equal(av_copy_probe(edge + i, 1), AV_COPY_FAULT);
			assert_int_equal(av_copy_probe(edge - 1 - i, 0), AV_COPY_OK);
			assert_int_equal(av_copy_probe(edge - 1 - i, 1), AV_COPY_OK);
			assert_int_equal(edge[-1 - i], PATTERN(page - 1 - (size_t)i)); /* unchanged */
		}
		drop_edge(edge);
	}
}

static void atomics_return_the_old_value(void **state)
{
	uint64_t word = 40, old = 0;

	choose_way(state);
	assert_int_equal(av_copy_fetch_add(&word, 2, &old), AV_COPY_OK);
	assert_int_equal(old, 40);
	assert_int_equal(word, 42);
	assert_int_equal(av_copy_fetch_add(&word, UINT64_MAX, &old), AV_COPY_OK);
	assert_int_equal(old, 42);
	assert_int_equal(word, 41);
	assert_int_equal(av_copy_cmp_swap(&word, 41, UINT64_C(0x123456789abcdef0), &old), AV_COPY_OK);
	assert_int_equal(old, 41);
	assert_int_equal(word, UINT64_C(0x123456789abcdef0));
	assert_int_equal(av_copy_cmp_swap(&word, UINT64_C(0x023456789abcdef0), 5, &old), AV_COPY_OK);
	assert_int_equal(old, UINT64_C(0x123456789abcdef0));
	assert_int_equal(word, UINT64_C(0x123456789abcdef0));
}

static void missing_memory_fails_atomics(void **state)
{
	choose_way(state);
	for (enum edge kind = 0; kind < EDGE_N; kind++) {
		unsigned char *edge = make_edge(kind);
		uint64_t old = 99;

		assert_int_equal(av_copy_fetch_add(edge, 1, &old), AV_COPY_FAULT);
		assert_int_equal(av_copy_fetch_add(edge + 8, 0, &old), AV_COPY_FAULT);
		assert_int_equal(av_copy_cmp_swap(edge, 0, 1, &old), AV_COPY_FAULT);
		assert_int_equal(av_copy_cmp_swap(edge, 1, 2, &old),
				 AV_COPY_FAULT); /* would not have compared */
		assert_int_equal(old, 99);
		assert_int_equal(av_copy_fetch_add(edge - 8, 1, &old), AV_COPY_OK);
		assert_int_equal(old, 0);
		drop_edge(edge);
	}
}

#define ADDERS	  3
#define ADD_TURNS 2000

static void *adder(void *arg)
{
	for (int i = 0; i < ADD_TURNS; i++) {
		uint64_t old;

		if (av_copy_fetch_add(arg, 1, &old) != AV_COPY_OK || av_copy_probe(arg, 1) != AV_COPY_OK)
			return arg; /* a fault: the caller asserts */
	}
	return NULL;
}

static void concurrent_additions_are_all_counted(void **state)
{
	pthread_t threads[ADDERS];
	uint64_t word AV_ALIGNED(8) = 0;

	choose_way(state);
	for (int i = 0; i < ADDERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, adder, &word), 0);
	for (int i = 0; i < ADDERS; i++) {
		void *failure;

		pthread_join(threads[i], &failure);
		assert_null(failure);
	}
	assert_int_equal(word, ADDERS * ADD_TURNS);
}

/* --- the rest of the process
 * --------------------------------------------------------------------------------- */

/* In a child: report the line by the exit status, which must not be cmocka's business there. */
#define CHECK(cond)                                                                       \
	do {                                                                              \
		if (!(cond)) {                                                            \
			fprintf(stderr, "child: %s:%d: %s\n", __FILE__, __LINE__, #cond); \
			_exit(99);                                                        \
		}                                                                         \
	} while (0)

/* Longer than a thread may believe what it knows of its handlers, whatever the kernel's tick. */
static void wait_for_next_check(void)
{
	usleep(30000);
}

static int run_child(void (*body)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		body();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void child_succeeds(void (*body)(void))
{
	int status = run_child(body);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("child ended with status 0x%x", (unsigned int)status);
}

static void child_dies_of(void (*body)(void), int sig)
{
	int status = run_child(body);

	if (!WIFSIGNALED(status) || WTERMSIG(status) != sig)
		fail_msg("child ended with status 0x%x instead of signal %d", (unsigned int)status, sig);
}

static void set_both(void (*handler)(int))
{
	signal(SIGSEGV, handler);
	signal(SIGBUS, handler);
}

static void init_guard(void)
{
	CHECK(av_copy_init() == 0);
	CHECK(av_fault_guard_ready());
}

static NO_SANITIZE void touch(volatile unsigned char *p)
{
	*p = 1;
}

static void copy_faults(void)
{
	unsigned char *edge = make_edge(EDGE_NONE), *eof = make_edge(EDGE_END_OF_FILE), byte = 0;
	uint64_t old;

	CHECK(av_copy(&byte, edge, 1) == AV_COPY_FAULT);
	CHECK(av_copy(edge - 4, edge - 16, 8) == AV_COPY_FAULT);
	CHECK(av_copy(&byte, eof, 1) == AV_COPY_FAULT);
	CHECK(av_copy_probe(eof, 1) == AV_COPY_FAULT);
	CHECK(av_copy_fetch_add(edge, 1, &old) == AV_COPY_FAULT);
	drop_edge(edge);
	drop_edge(eof);
}

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

static void default_action_is_kept(void **state)
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

static void ignored_is_ignored_unless_it_is_a_fault(void **state)
{
	child_succeeds(ignored_then_sent);
	child_dies_of(ignored_then_touch, SIGSEGV);
}

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

static void earlier_handlers_work_as_before(void **state)
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

/* A program that puts itself above us and calls what it found: no circle, and default still means death. */
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

static void later_handlers_see_no_fault_of_a_copy(void **state)
{
	child_succeeds(later_handler);
	child_dies_of(later_handler_that_chains, SIGSEGV);
}

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

static void blocked_signals_are_no_danger(void **state)
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
	CHECK(before_stack.ss_flags == after_stack.ss_flags && before_stack.ss_sp == after_stack.ss_sp);
}

static void fault_leaves_mask_and_stack_alone(void **state)
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

static void forked_child_is_protected_too(void **state)
{
	child_succeeds(fork_after_init);
}

/* Some containers forbid the system call that the slow path prefers. */
static void forbid_process_vm(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {.len = AV_ARRAY_SIZE(code), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0)
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

static void slow_path_survives_a_system_call_filter(void **state)
{
	int status = run_child(copy_without_process_vm);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(); /* no filters here; the other tests of this program have run all the same */
	assert_int_equal(status, 0);
}

/* Every rule of copying, by the way that @way points to. */
#define RULES(way)                                                                            \
	{                                                                                     \
		cmocka_unit_test_prestate(every_size_at_every_offset, way),                   \
			cmocka_unit_test_prestate(pages_are_crossed, way),                    \
			cmocka_unit_test_prestate(overlap_downwards_is_a_move, way),          \
			cmocka_unit_test_prestate(nothing_to_copy_touches_nothing, way),      \
			cmocka_unit_test_prestate(errno_is_left_alone, way),                  \
			cmocka_unit_test_prestate(missing_source_is_a_fault, way),            \
			cmocka_unit_test_prestate(missing_destination_is_a_fault, way),       \
			cmocka_unit_test_prestate(impossible_addresses_are_faults, way),      \
			cmocka_unit_test_prestate(shrunken_file_is_a_fault, way),             \
			cmocka_unit_test_prestate(probe_tells_what_may_be_done, way),         \
			cmocka_unit_test_prestate(atomics_return_the_old_value, way),         \
			cmocka_unit_test_prestate(missing_memory_fails_atomics, way),         \
			cmocka_unit_test_prestate(concurrent_additions_are_all_counted, way), \
	}

int main(void)
{
	const struct CMUnitTest process_tests[] = {
		cmocka_unit_test(default_action_is_kept),
		cmocka_unit_test(ignored_is_ignored_unless_it_is_a_fault),
		cmocka_unit_test(earlier_handlers_work_as_before),
		cmocka_unit_test(later_handlers_see_no_fault_of_a_copy),
		cmocka_unit_test(blocked_signals_are_no_danger),
		cmocka_unit_test(fault_leaves_mask_and_stack_alone),
		cmocka_unit_test(forked_child_is_protected_too),
		cmocka_unit_test(slow_path_survives_a_system_call_filter),
	};
	const struct CMUnitTest kernel_tests[] = RULES(&by_kernel);
	const struct CMUnitTest guarded_tests[] = RULES(&guarded);
	int failed;

	page = (size_t)sysconf(_SC_PAGESIZE);
	failed = cmocka_run_group_tests_name("copy: the process", process_tests, NULL, NULL);
	failed += cmocka_run_group_tests_name("copy: by the kernel", kernel_tests, NULL, NULL);
	if (av_copy_init() != 0 || sigaction(SIGSEGV, NULL, &our_segv) != 0 ||
	    sigaction(SIGBUS, NULL, &our_bus) != 0)
		return 1;
	failed += cmocka_run_group_tests_name("copy: guarded", guarded_tests, NULL, NULL);
	return failed;
}
