/* SPDX-License-Identifier: MIT */
/* Numbers of queue pairs: where they begin, that none is given twice, and what is known of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "registry/directory.h"
#include "registry/tables.h"

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
TEST(directories_begin_anywhere)
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

TEST(none_is_given_twice)
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

TEST(what_is_known_of_a_number)
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

static uint32_t block_of(uint32_t qpn)
{
	return AV_QPN_BLOCK(qpn);
}

/* A child adds numbers, and is kept alive until it may go. */
static void in_child(uint32_t *qpn, unsigned int n, const int go[2], const int done[2])
{
	uint32_t ref = enter();
	char byte;

	close(go[1]);
	for (unsigned int i = 0; i < n; i++)
		qpn[i] = (uint32_t)av_dir_qpn_add(ref, i, LIMIT);
	(void)!write(done[1], "", 1);
	(void)!read(go[0], &byte, 1);
	leave(ref);
	_exit(0);
}

/* So little is to be told the kernel about whose they are. */
TEST(numbers_of_a_process_lie_together)
{
	enum { N = 5 * 16 };
	const size_t bytes = N * sizeof(uint32_t);
	uint32_t *theirs =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t ref = enter(), own[N], blocks = 0;
	int go[2], done[2];
	char byte;

	(void)state;
	own[0] = (uint32_t)av_dir_qpn_add(ref, 0, LIMIT);
	assert_false(pipe2(go, O_CLOEXEC) || pipe2(done, O_CLOEXEC));
	if (fork() == 0)
		in_child(theirs, N, go, done);
	assert_int_equal(read(done[0], &byte, 1), 1);
	for (unsigned int i = 1; i < N; i++) {
		own[i] = (uint32_t)av_dir_qpn_add(ref, i, LIMIT);
		blocks += block_of(own[i]) != block_of(own[i - 1]);
	}
	assert_in_range(blocks, N / 16 - 1, N / 16);
	for (unsigned int i = 0; i < N; i++)
		for (unsigned int j = 0; j < N; j++)
			assert_int_not_equal(block_of(own[i]), block_of(theirs[j]));
	close(go[1]);
	assert_true(wait(NULL) > 0);
	for (unsigned int i = 0; i < N; i++)
		av_dir_qpn_remove(own[i]);
	close(go[0]);
	close(done[0]);
	close(done[1]);
	munmap(theirs, bytes);
	leave(ref);
}

/* Blocks that are used in part are used at last. */
TEST(all_numbers_can_be_had)
{
	const uint32_t all = (1u << AV_QPN_INDEX_BITS) - 1 - 16;
	static uint32_t qpn[1u << AV_QPN_INDEX_BITS];
	uint32_t ref = enter();

	(void)state;
	for (uint32_t i = 0; i < all; i++)
		qpn[i] = (uint32_t)av_dir_qpn_add(ref, 1, UINT32_MAX);
	assert_int_equal(av_dir_qpn_add(ref, 1, UINT32_MAX), -ENOMEM);
	av_dir_qpn_remove(qpn[all / 2]);
	assert_int_equal(AV_QPN_INDEX(av_dir_qpn_add(ref, 1, UINT32_MAX)),
			 AV_QPN_INDEX(qpn[all / 2]));
	leave(ref);
}

int main(void)
{
	return run_cases(make_folder, remove_folder);
}
