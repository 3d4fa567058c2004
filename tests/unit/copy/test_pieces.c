/* SPDX-License-Identifier: MIT */
/* Every way a copy can lie in its first and last lines: the pieces cover it in order, cut at line
 * boundaries.
 */
#include "copy/copy.h"
#include "lib/unit.h"

#define LINE	  AV_PIECES_LINE
#define MAX_BYTES (3 * LINE + 9)

static char memory[MAX_BYTES];

static void check(uint64_t dst, size_t bytes)
{
	struct av_pieces p;
	size_t at = 0;

	av_pieces_cut(&p, dst, memory, bytes);
	assert_true(p.count <= AV_PIECES_MAX);
	for (size_t i = 0; i < p.count; i++) {
		assert_true(p.at[i].iov_len > 0);
		assert_ptr_equal(p.at[i].iov_base, memory + at);
		assert_true(at == 0 ||
			    (dst + at) % (at < AV_PIECES_WORD ? AV_PIECES_WORD : LINE) == 0);
		at += p.at[i].iov_len;
	}
	assert_int_equal(at, bytes);
	if (p.count > 0) /* the last line is a piece of its own */
		assert_true((dst + bytes - p.at[p.count - 1].iov_len) / LINE ==
			    (dst + bytes - 1) / LINE);
}

TEST(pieces_cover_the_copy)
{
	for (uint64_t offset = 0; offset < LINE; offset++)
		for (size_t bytes = 0; bytes <= MAX_BYTES; bytes++)
			check(0x10000 + offset, bytes);
}

TEST(copies_end_where_the_address_space_does)
{
	struct av_pieces p;

	av_pieces_cut(&p, 1, memory, SIZE_MAX - 1);
	assert_int_equal(p.count, 4);
	assert_int_equal(p.at[0].iov_len, 7);
	av_pieces_cut(&p, UINT64_MAX - 6, memory, 7);
	assert_int_equal(p.count, 1);
	assert_int_equal(p.at[0].iov_len, 7);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
