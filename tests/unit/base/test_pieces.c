/* SPDX-License-Identifier: MIT */
/* Every way a copy can lie in its first and last 64 bytes: the pieces cover it, in order, naturally aligned.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/pieces.h"

#define STEP	  AV_PIECES_STEP
#define MAX_BYTES (3 * STEP + 9)

static char memory[MAX_BYTES];

/* The one piece that may be longer than a word: whole steps, and something behind it. */
static void check_body(uint64_t dst, size_t bytes, size_t left)
{
	assert_int_equal(dst % STEP, 0);
	assert_int_equal(bytes % STEP, 0);
	assert_true(left > 0);
}

static void check_small(uint64_t dst, size_t bytes)
{
	assert_true(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
	assert_int_equal(dst % bytes, 0);
}

/* No aligned word that lies wholly in the copy is cut. */
static void check_word(uint64_t dst, size_t bytes, uint64_t start, uint64_t end)
{
	uint64_t word = dst & ~UINT64_C(7);

	if (word >= start && word + 8 <= end)
		assert_true(bytes >= 8);
}

static void check(uint64_t dst, size_t bytes)
{
	struct av_pieces p;
	size_t at = 0;

	av_pieces_cut(&p, dst, memory, bytes);
	assert_true(p.count <= AV_PIECES_MAX);
	for (size_t i = 0; i < p.count; i++) {
		const size_t n = p.at[i].iov_len;

		assert_ptr_equal(p.at[i].iov_base, memory + at);
		if (n > 8)
			check_body(dst + at, n, bytes - at - n);
		else
			check_small(dst + at, n);
		check_word(dst + at, n, dst, dst + bytes);
		at += n;
	}
	assert_int_equal(at, bytes);
}

static void pieces_cover_the_copy(void **state)
{
	for (uint64_t offset = 0; offset < STEP; offset++)
		for (size_t bytes = 0; bytes <= MAX_BYTES; bytes++)
			check(0x10000 + offset, bytes);
}

/* Of steps there may be any number, up to the end of the address space. */
static void long_copies_have_no_more_pieces(void **state)
{
	struct av_pieces p;

	av_pieces_cut(&p, 1, memory, SIZE_MAX - 1);
	assert_true(p.count <= AV_PIECES_MAX);
	av_pieces_cut(&p, UINT64_MAX - 6, memory, 7);
	assert_int_equal(p.count, 3);
	assert_int_equal(p.at[0].iov_len, 1);
	assert_int_equal(p.at[2].iov_len, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_cover_the_copy),
		cmocka_unit_test(long_copies_have_no_more_pieces),
	};

	return cmocka_run_group_tests_name("pieces of a copy", tests, NULL, NULL);
}
