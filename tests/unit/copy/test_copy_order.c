/* SPDX-License-Identifier: MIT */
/*
 * What another core sees of a copy while it happens: the last byte last, and no aligned word in
 * pieces.
 *
 * A writer copies generations of a pattern - every byte of a generation is the same - into a shared
 * buffer; a reader in another thread, or in another process, watches. The amount of work is fixed,
 * not the time; with one core the test passes without having seen much.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "copy/copy.h"
#include "lib/unit.h"

#define BUFFER_BYTES  (64 * 1024 + 8192)
#define POLLS_A_YIELD 50 /* so that writer and reader may share a core */
#define END	      0	 /* a generation that is none: the writer has finished */

/* Shared by both. The writer writes all but @seen, @error and @error_at, which are the reader's. */
struct shared {
	unsigned char target[BUFFER_BYTES] AV_ALIGNED(4096);
	_Atomic uint32_t round AV_ALIGNED(64); /* of the free-running part; END when over */
	_Atomic uint32_t seen AV_ALIGNED(64);
	_Atomic int error;
	size_t error_at;
};

static const size_t sizes[] = {8, 16, 24, 63, 64, 100, 256, 1000, 4096, 10000, 20000, 65536};
static const struct {
	size_t from, to;
} offsets[] = {{0, 0}, {0, 8}, {8, 0}, {4, 0}, {0, 4}, {3, 5}, {5, 3}, {0, 40}, {7, 4095}, {5, 69}};

/* How the writers copy what is large: as av_copy() chooses, or by this way where it is possible. */
static enum av_bulk_way forced = AV_BULK_N;

static enum av_copy_result copy(void *dst, const void *src, size_t size)
{
	if (forced == AV_BULK_N || !av_bulk_possible(forced, dst, src, size))
		return av_copy(dst, src, size);
	return av_bulk_copy_by(forced, dst, src, size) == 0 ? AV_COPY_OK : AV_COPY_FAULT;
}

static unsigned char generation_byte(uint32_t round)
{
	return (unsigned char)(round % 255 + 1);
}

static uint64_t word_at(const unsigned char *p)
{
	return __atomic_load_n((const uint64_t *)(const void *)p, __ATOMIC_RELAXED);
}

static unsigned char byte_at(const unsigned char *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static void pause_politely(unsigned int *polls)
{
	if (++*polls % POLLS_A_YIELD == 0)
		sched_yield();
	else
		av_pause();
}

/* The aligned words that lie wholly in [to, to + size). */
static size_t first_word(size_t to)
{
	return av_round_up(to, 8);
}

static size_t end_of_words(size_t to, size_t size)
{
	return (to + size) & ~(size_t)7;
}

static void report(struct shared *sh, int error, size_t at)
{
	sh->error_at = at;
	atomic_store(&sh->error, error);
}

enum { STALE = 1, TORN = 2, FAULT = 3 };

/* The last byte is new: nothing before it may be old. Looked at from the end, where it would be
 * most likely.
 */
static void all_is_new(struct shared *sh, size_t to, size_t size, unsigned char want)
{
	const uint64_t word = want * UINT64_C(0x0101010101010101);
	size_t at = end_of_words(to, size);

	for (; at > first_word(to); at -= 8)
		if (word_at(sh->target + at - 8) != word)
			report(sh, STALE, at - 8);
	for (at = to; at < to + size && at % 8 != 0; at++)
		if (byte_at(sh->target + at) != want)
			report(sh, STALE, at);
}

static void reader_waits_for_last(struct shared *sh, size_t to, size_t size, unsigned int turns)
{
	for (uint32_t round = 1; round <= turns; round++) {
		const unsigned char want = generation_byte(round);
		unsigned int polls = 0;

		while (__atomic_load_n(sh->target + to + size - 1, __ATOMIC_ACQUIRE) != want)
			pause_politely(&polls);
		all_is_new(sh, to, size, want);
		atomic_store_explicit(&sh->seen, round, memory_order_release);
	}
}

static void writer_waits_for_reader(struct shared *sh, unsigned char *source, size_t from,
				    size_t to, size_t size, unsigned int turns)
{
	for (uint32_t round = 1; round <= turns; round++) {
		unsigned int polls = 0;

		memset(source + from, generation_byte(round), size);
		if (copy(sh->target + to, source + from, size) != AV_COPY_OK)
			report(sh, FAULT, 0);
		while (atomic_load_explicit(&sh->seen, memory_order_acquire) != round)
			pause_politely(&polls);
	}
}

/* Every word looked at is of one generation or another, never of two. */
static void reader_looks_for_torn_words(struct shared *sh, size_t to, size_t size)
{
	unsigned int polls = 0;
	size_t at = first_word(to);

	atomic_store(&sh->seen, 1); /* here: the writer may start */
	while (atomic_load_explicit(&sh->round, memory_order_relaxed) != END) {
		for (int i = 0; i < 64; i++) {
			const uint64_t word = word_at(sh->target + at);

			if (word != (word & 0xff) * UINT64_C(0x0101010101010101))
				report(sh, TORN, at);
			at += 8;
			if (at >= end_of_words(to, size))
				at = first_word(to);
		}
		if (++polls % POLLS_A_YIELD == 0)
			sched_yield();
	}
}

static void writer_runs_free(struct shared *sh, unsigned char *source, size_t from, size_t to,
			     size_t size, unsigned int turns)
{
	unsigned int polls = 0;

	while (atomic_load(&sh->seen) == 0)
		pause_politely(&polls);
	for (uint32_t round = 1; round <= turns; round++) {
		memset(source + from, generation_byte(round), size);
		if (copy(sh->target + to, source + from, size) != AV_COPY_OK)
			report(sh, FAULT, 0);
	}
	atomic_store(&sh->round, END);
}

/* One combination of size and offsets, watched in one of two ways. */
struct watch {
	struct shared *sh;
	size_t from, to, size;
	unsigned int turns;
	bool tearing;
};

static void start_over(struct shared *sh)
{
	memset(sh->target, 0, sizeof(sh->target));
	atomic_store(&sh->round, 1);
	atomic_store(&sh->seen, 0);
}

static void read_side(const struct watch *w)
{
	if (w->tearing)
		reader_looks_for_torn_words(w->sh, w->to, w->size);
	else
		reader_waits_for_last(w->sh, w->to, w->size, w->turns);
}

static void write_side(const struct watch *w, unsigned char *source)
{
	if (w->tearing)
		writer_runs_free(w->sh, source, w->from, w->to, w->size, w->turns);
	else
		writer_waits_for_reader(w->sh, source, w->from, w->to, w->size, w->turns);
}

static void *reader_thread(void *arg)
{
	read_side(arg);
	return NULL;
}

static void watch_from_thread(const struct watch *w, unsigned char *source)
{
	pthread_t reader;

	assert_int_equal(pthread_create(&reader, NULL, reader_thread, (void *)(uintptr_t)w), 0);
	write_side(w, source);
	pthread_join(reader, NULL);
}

static void watch_from_process(const struct watch *w, unsigned char *source)
{
	pid_t reader = fork();
	int status;

	if (reader == 0) {
		read_side(w);
		_exit(0);
	}
	assert_true(reader > 0);
	write_side(w, source);
	assert_int_equal(waitpid(reader, &status, 0), reader);
	assert_int_equal(status, 0);
}

/* Few turns of large copies, many of small ones; a system call each time costs as much as 8 KiB. */
static unsigned int turns_for(size_t size, unsigned int effort)
{
	return effort * 32768 / (1024 + (unsigned int)size) + 8;
}

static void watch_all(bool tearing, unsigned int effort,
		      void (*watch)(const struct watch *w, unsigned char *source))
{
	struct shared *sh =
		mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned char *source = aligned_alloc(4096, BUFFER_BYTES);

	assert_ptr_not_equal(sh, MAP_FAILED);
	assert_non_null(source);
	for (size_t i = 0; i < AV_ARRAY_SIZE(sizes); i++)
		for (size_t j = 0; j < AV_ARRAY_SIZE(offsets); j++) {
			const size_t to = offsets[j].to;
			struct watch w = {
				sh,	offsets[j].from, to, sizes[i], turns_for(sizes[i], effort),
				tearing};

			if (forced != AV_BULK_N && sizes[i] < AV_BULK_MIN)
				continue;
			if (tearing && end_of_words(to, sizes[i]) <= first_word(to))
				continue; /* no whole word to look at */
			start_over(sh);
			watch(&w, source);
			if (atomic_load(&sh->error) != 0)
				fail_msg("error %d at offset %zu: %zu bytes from offset %zu to %zu",
					 sh->error, sh->error_at, w.size, w.from, w.to);
		}
	free(source);
	munmap(sh, sizeof(*sh));
}

/* cmocka has put its own handlers in place; see test_copy.c. */
static struct sigaction our_segv, our_bus;

static void use_guard(void)
{
	sigaction(SIGSEGV, &our_segv, NULL);
	sigaction(SIGBUS, &our_bus, NULL);
	assert_true(av_copy_guard_check(av_now_coarse_ns()));
}

static void last_byte_is_last_for_a_thread(void **state)
{
	use_guard();
	watch_all(false, 120, watch_from_thread);
}

static void last_byte_is_last_for_a_process(void **state)
{
	use_guard();
	watch_all(false, 120, watch_from_process);
}

static void words_are_whole_for_a_thread(void **state)
{
	use_guard();
	watch_all(true, 400, watch_from_thread);
}

static void words_are_whole_for_a_process(void **state)
{
	use_guard();
	watch_all(true, 400, watch_from_process);
}

/* Those that are large enough, by each way: av_copy() takes some of them only beyond tens of MiB.
 */
static void every_way_of_large_copies(bool tearing)
{
	use_guard();
	for (enum av_bulk_way way = 0; way < AV_BULK_N; way++) {
		forced = way;
		watch_all(tearing, 200, watch_from_thread);
	}
	forced = AV_BULK_N;
}

static void last_byte_is_last_by_every_way(void **state)
{
	every_way_of_large_copies(false);
}

static void words_are_whole_by_every_way(void **state)
{
	every_way_of_large_copies(true);
}

static void kernel_copies_the_last_byte_last(void **state)
{
	watch_all(false, 50, watch_from_thread);
}

static void kernel_copies_whole_words(void **state)
{
	watch_all(true, 100, watch_from_thread);
}

int main(void)
{
	const struct CMUnitTest kernel_tests[] = {
		cmocka_unit_test(kernel_copies_the_last_byte_last),
		cmocka_unit_test(kernel_copies_whole_words),
	};
	const struct CMUnitTest guarded_tests[] = {
		cmocka_unit_test(last_byte_is_last_for_a_thread),
		cmocka_unit_test(last_byte_is_last_for_a_process),
		cmocka_unit_test(words_are_whole_for_a_thread),
		cmocka_unit_test(words_are_whole_for_a_process),
		cmocka_unit_test(last_byte_is_last_by_every_way),
		cmocka_unit_test(words_are_whole_by_every_way),
	};
	int failed =
		cmocka_run_group_tests_name("copy order: by the kernel", kernel_tests, NULL, NULL);

	if (av_copy_init() != 0 || sigaction(SIGSEGV, NULL, &our_segv) != 0 ||
	    sigaction(SIGBUS, NULL, &our_bus) != 0)
		return 1;
	return failed +
	       cmocka_run_group_tests_name("copy order: guarded", guarded_tests, NULL, NULL);
}
