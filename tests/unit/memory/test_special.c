/* SPDX-License-Identifier: MIT */
/* Which memory is special, asked with and without hooks that note what the program asks for. */
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/closed_input.h"
#include "lib/few_descriptors.h"
#include "memory/special.h"

#define BYTES (16ul * 4096)

static uint8_t *map(int prot)
{
	uint8_t *p = mmap(NULL, BYTES, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static bool is_special(const uint8_t *p)
{
	return av_special((uintptr_t)p, (uintptr_t)p + BYTES);
}

static void code_is_special(void **state)
{
	uint8_t *p = map(PROT_READ | PROT_WRITE);

	assert_false(is_special(p));
	assert_int_equal(mprotect(p + BYTES / 2, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	assert_true(is_special(p));
	assert_int_equal(munmap(p, BYTES / 2), 0); /* what is behind a hole is not in it */
	assert_false(av_special((uintptr_t)p, (uintptr_t)p + BYTES / 2));
	munmap(p, BYTES);
}

/* First of all rows, without hooks: the kernel is asked. */
static void advice_is_seen_without_hooks(void **state)
{
	static const int advice[][2] = {{MADV_DONTFORK, MADV_DOFORK},
					{MADV_WIPEONFORK, MADV_KEEPONFORK},
					{MADV_DONTDUMP, MADV_DODUMP}};
	uint8_t *p = map(PROT_READ | PROT_WRITE);

	for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++) {
		assert_false(is_special(p));
		assert_int_equal(madvise(p + BYTES - 4096, 4096, advice[i][0]), 0);
		assert_true(is_special(p));
		assert_false(av_special((uintptr_t)p, (uintptr_t)p + BYTES - 4096));
		assert_int_equal(madvise(p + BYTES - 4096, 4096, advice[i][1]), 0);
	}
	assert_false(is_special(p));
	munmap(p, BYTES);
}

static void lock_is_seen_without_hooks(void **state)
{
	uint8_t *p = map(PROT_READ | PROT_WRITE);

	assert_int_equal(syscall(SYS_mlock, p, 4096), 0); /* sanitizers have none */
	assert_true(is_special(p));
	munmap(p, BYTES);
}

/* A policy is seen where it begins within the range, and goes to where the memory does. */
static void a_policy_is_seen_and_moved(void **state)
{
	uint8_t *p = map(PROT_READ | PROT_WRITE), *to = map(PROT_READ | PROT_WRITE);
	const uint8_t *placed = p + BYTES / 2;
	unsigned long node = 1;

	if (syscall(SYS_mbind, placed, 4096, MPOL_INTERLEAVE, &node, 8 * sizeof(node), 0)) {
		munmap(p, BYTES);
		munmap(to, BYTES);
		skip(); /* no NUMA, or no right to ask */
	}
	assert_true(is_special(p));
	assert_true(av_special((uintptr_t)placed, (uintptr_t)placed + 1));
	assert_false(av_special((uintptr_t)p, (uintptr_t)placed));
	assert_false(av_special((uintptr_t)placed + 4096, (uintptr_t)p + BYTES));
	assert_false(is_special(to));
	av_special_move_policy((uintptr_t)p, 4096, to); /* there is none */
	assert_false(is_special(to));
	av_special_move_policy((uintptr_t)placed, 4096, to);
	assert_false(is_special(p));
	assert_true(av_special((uintptr_t)to, (uintptr_t)to + 4096));
	assert_false(av_special((uintptr_t)to + 4096, (uintptr_t)to + BYTES));
	munmap(p, BYTES);
	munmap(to, BYTES);
}

static void a_key_of_protection_is_seen(void **state)
{
	uint8_t *p = map(PROT_READ | PROT_WRITE);
	int key = pkey_alloc(0, 0);

	if (key < 0) {
		munmap(p, BYTES);
		skip(); /* the processor has none */
	}
	assert_false(is_special(p));
	assert_int_equal(pkey_mprotect(p, 4096, PROT_READ | PROT_WRITE, key), 0);
	assert_true(is_special(p));
	assert_false(av_special((uintptr_t)p + 4096, (uintptr_t)p + BYTES));
	munmap(p, BYTES);
	pkey_free(key);
}

/* A program may have closed its standard input, or have no descriptor left. */
static void whatever_descriptors_there_are(void **state)
{
	uint8_t *p = map(PROT_READ | PROT_WRITE);
	struct rlimit was;
	int saved = close_input();

	assert_false(is_special(p));
	assert_int_equal(fcntl(0, F_GETFD), -1); /* none is left open */
	input_again(saved);
	was = few_descriptors(0);
	assert_true(is_special(p)); /* nobody knows */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	munmap(p, BYTES);
}

/* Last of all. What is noted is asked for, and may be so no more. */
static void hooks_spare_the_question(void **state)
{
	uint8_t *p = map(PROT_READ | PROT_WRITE), *q = map(PROT_READ | PROT_WRITE);

	madvise(p, BYTES, MADV_DONTFORK);
	madvise(q, BYTES, MADV_DONTFORK);
	av_special_begin();
	assert_false(is_special(p));
	av_special_note((uintptr_t)q + BYTES / 2, BYTES / 2);
	assert_false(av_special((uintptr_t)q, (uintptr_t)q + BYTES / 2));
	assert_true(av_special((uintptr_t)q + BYTES / 2, (uintptr_t)q + BYTES));
	av_special_note((uintptr_t)q, BYTES);
	assert_true(is_special(q));
	assert_false(is_special(p));
	av_special_note((uintptr_t)p, 1);
	assert_true(is_special(p));
	madvise(q, BYTES, MADV_DOFORK);
	assert_false(is_special(q));
	munmap(p, BYTES);
	munmap(q, BYTES);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_is_special),
		cmocka_unit_test(advice_is_seen_without_hooks),
		cmocka_unit_test(lock_is_seen_without_hooks),
		cmocka_unit_test(a_policy_is_seen_and_moved),
		cmocka_unit_test(a_key_of_protection_is_seen),
		cmocka_unit_test(whatever_descriptors_there_are),
		cmocka_unit_test(hooks_spare_the_question),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
