/* SPDX-License-Identifier: MIT */
/*
 * What the copy routine copies, and what it answers where memory is missing.
 *
 * The rules run twice, before av_copy_init() (the kernel copies) and after it (the guarded routines
 * do).
 */
#include "copy_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "copy/copy.h"

/*
 * cmocka puts its own handlers in place for each test, so a test of the guarded way has to put ours
 * back, as found right after av_copy_init(), and must not wait for the thread to notice. @state
 * points to whether it is one.
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
	assert_int_equal(av_copy_guard_check(av_now_coarse_ns()), want_guard);
}

/* --- what is copied -------------------------------------------------------------- */

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
	static const size_t distance[] = {0,  1,  3,  7,   8,	9,   15,  16,
					  31, 33, 64, 127, 128, 129, 1000};
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
			assert_int_equal(av_copy(work + to, work + to + distance, lengths[i]),
					 AV_COPY_OK);
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

/* --- where memory is missing ----------------------------------------------------- */

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
		fail_msg("source, edge %d: %zu good bytes, then %zu, to offset %zu", kind, good,
			 bad, offset);
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
		fail_msg("destination, edge %d: %zu good bytes, then %zu, from offset %zu", kind,
			 good, bad, offset);
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
				check(kind, before[i], behind[j],
				      (before[i] * 5 + behind[j] * 3 + i) % 24);
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
			assert_int_equal(edge[-1 - i],
					 PATTERN(page - 1 - (size_t)i)); /* unchanged */
		}
		drop_edge(edge);
	}
}

/* --- atomics --------------------------------------------------------------------- */

static void atomics_return_the_old_value(void **state)
{
	uint64_t word = 40, old = 0;

	choose_way(state);
	assert_int_equal(av_copy_fetch_add(&word, 2, &old, av_now_coarse_ns()), AV_COPY_OK);
	assert_int_equal(old, 40);
	assert_int_equal(word, 42);
	assert_int_equal(av_copy_fetch_add(&word, UINT64_MAX, &old, av_now_coarse_ns()),
			 AV_COPY_OK);
	assert_int_equal(old, 42);
	assert_int_equal(word, 41);
	assert_int_equal(
		av_copy_cmp_swap(&word, 41, UINT64_C(0x123456789abcdef0), &old, av_now_coarse_ns()),
		AV_COPY_OK);
	assert_int_equal(old, 41);
	assert_int_equal(word, UINT64_C(0x123456789abcdef0));
	assert_int_equal(
		av_copy_cmp_swap(&word, UINT64_C(0x023456789abcdef0), 5, &old, av_now_coarse_ns()),
		AV_COPY_OK);
	assert_int_equal(old, UINT64_C(0x123456789abcdef0));
	assert_int_equal(word, UINT64_C(0x123456789abcdef0));
}

static void missing_memory_fails_atomics(void **state)
{
	choose_way(state);
	for (enum edge kind = 0; kind < EDGE_N; kind++) {
		unsigned char *edge = make_edge(kind);
		uint64_t old = 99;

		assert_int_equal(av_copy_fetch_add(edge, 1, &old, av_now_coarse_ns()),
				 AV_COPY_FAULT);
		assert_int_equal(av_copy_fetch_add(edge + 8, 0, &old, av_now_coarse_ns()),
				 AV_COPY_FAULT);
		assert_int_equal(av_copy_cmp_swap(edge, 0, 1, &old, av_now_coarse_ns()),
				 AV_COPY_FAULT);
		assert_int_equal(av_copy_cmp_swap(edge, 1, 2, &old, av_now_coarse_ns()),
				 AV_COPY_FAULT); /* would not have compared */
		assert_int_equal(old, 99);
		assert_int_equal(av_copy_fetch_add(edge - 8, 1, &old, av_now_coarse_ns()),
				 AV_COPY_OK);
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

		if (av_copy_fetch_add(arg, 1, &old, av_now_coarse_ns()) != AV_COPY_OK ||
		    av_copy_probe(arg, 1) != AV_COPY_OK)
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

/* Every rule of copying, by the way that @route points to. */
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
	const struct CMUnitTest kernel_tests[] = RULES(&by_kernel);
	const struct CMUnitTest guarded_tests[] = RULES(&guarded);
	int failed = cmocka_run_group_tests_name("copy: by the kernel", kernel_tests, NULL, NULL);

	if (av_copy_init() != 0 || sigaction(SIGSEGV, NULL, &our_segv) != 0 ||
	    sigaction(SIGBUS, NULL, &our_bus) != 0)
		return 1;
	failed += cmocka_run_group_tests_name("copy: guarded", guarded_tests, NULL, NULL);
	return failed;
}
