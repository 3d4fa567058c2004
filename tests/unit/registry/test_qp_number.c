/* SPDX-License-Identifier: MIT */
/* Numbers of queue pairs: where they begin, that none is given twice, and what is known of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "registry/directory.h"

#define WORLDS 160
#define LIMIT  1000

static char folder[] = "/dev/shm/anyverbs-test-XXXXXX";

static int make_folder(void **state)
{
	return !mkdtemp(folder) || setenv("ANYVERBS_DIR", folder, 1);
}

static int remove_folder(void **state)
{
	rmdir(folder);
	return 0;
}

/* Join a new directory, and add one context to it. */
static uint32_t enter(void)
{
	uint32_t ref;
	int fd;

	assert_int_equal(av_dir_join(NULL), 0);
	fd = av_dir_context_add(&ref);
	assert_true(fd >= 0);
	close(fd);
	return ref;
}

/* The last process that leaves a directory removes it, so that the next one is new. */
static void leave(uint32_t ref)
{
	av_dir_context_remove(ref);
	av_dir_leave();
}

static int ascending(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Of 160 random numbers of 24 bits, two are equal in one run of a thousand, and three pairs of them
 * never are. If all directories began with one number, all would be equal.
 */
static void directories_begin_anywhere(void **state)
{
	uint32_t numbers[WORLDS], twice = 0;

	(void)state;
	for (uint32_t i = 0; i < WORLDS; i++) {
		uint32_t ref = enter();
		int qpn = av_dir_qpn_add(ref, 1, LIMIT);

		assert_in_range(qpn, 2, 0xfffffe);
		numbers[i] = (uint32_t)qpn;
		av_dir_qpn_remove((uint32_t)qpn);
		leave(ref);
	}
	qsort(numbers, WORLDS, sizeof(numbers[0]), ascending);
	for (uint32_t i = 1; i < WORLDS; i++)
		twice += numbers[i] == numbers[i - 1];
	assert_in_range(twice, 0, 2);
}

static void none_is_given_twice(void **state)
{
	static uint8_t given[(AV_QPN_MASK + 1) / 8];
	uint32_t ref = enter();

	(void)state;
	for (uint32_t i = 0; i < 3u << AV_QPN_INDEX_BITS; i++) { /* round all indices, thrice */
		uint32_t qpn = (uint32_t)av_dir_qpn_add(ref, 1, LIMIT);

		assert_in_range(qpn, 2, 0xfffffe);
		assert_false(given[qpn / 8] & 1u << qpn % 8);
		given[qpn / 8] |= (uint8_t)(1u << qpn % 8);
		av_dir_qpn_remove(qpn);
	}
	leave(ref);
}

static void what_is_known_of_a_number(void **state)
{
	uint32_t ref = enter(), qpn = (uint32_t)av_dir_qpn_add(ref, 77, LIMIT);
	const uint32_t other_tag = qpn ^ 1u << AV_QPN_INDEX_BITS;

	(void)state;
	assert_int_equal(av_dir_qpn_find(qpn).ref, ref);
	assert_int_equal(av_dir_qpn_find(qpn).index, 77);
	assert_int_equal(av_dir_qpn_find(other_tag).ref, 0);
	assert_false(av_dir_qpn_ended(qpn));
	assert_false(av_dir_qpn_ended(other_tag));
	av_dir_qpn_remove(qpn);
	assert_int_equal(av_dir_qpn_find(qpn).ref, 0);
	assert_true(av_dir_qpn_ended(qpn));
	assert_false(av_dir_qpn_ended(other_tag));
	leave(ref);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(directories_begin_anywhere),
		cmocka_unit_test(none_is_given_twice),
		cmocka_unit_test(what_is_known_of_a_number),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
