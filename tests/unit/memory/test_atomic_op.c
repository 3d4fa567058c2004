/* SPDX-License-Identifier: MIT */
/*
 * What atomic operations do to an operand, against a model that works bit by bit: every operation,
 * size, byte order and boundary, with operands at the edges and with random ones.
 */
#include <stdio.h>
#include <string.h>

#include "lib/atomic_model.h"
#include "lib/unit.h"
#include "memory/xfer.c" /* with what is static in it */

#define GARBAGE 0xa5
#define ROUNDS	3000

/* Both on the same operands. */

static void check(const struct av_atomic *a, const struct av_operand *old)
{
	struct av_operand want = *old, new;
	bool stored;

	memset(&new, GARBAGE, sizeof(new));
	stored = apply_atomic(a, old, &new);
	assert_int_equal(stored, model_atomic(a, &want));
	if (memcmp(&new, &want, a->bytes))
		fail_msg("operation %d on %u bytes%s", (int)a->op, a->bytes,
			 a->how ? ", swapped" : "");
}

static const uint32_t size[] = {1, 2, 4, 8, 16, 32};

TEST(every_operation_like_the_model)
{
	struct av_atomic a;
	struct av_operand old;

	for (a.op = 0; a.op < AV_ATOMIC_OP_N; a.op++)
		for (unsigned int s = 0; s < AV_ARRAY_SIZE(size); s++)
			for (unsigned int i = 0; i < ROUNDS; i++) {
				a.bytes = size[s];
				a.how = i & 1;
				model_random(&a, &old);
				check(&a, &old);
			}
}

/* Numbers at the ends of their ranges, in all pairs. */
TEST(edges)
{
	for (unsigned int s = 0; s < AV_ARRAY_SIZE(size); s++) {
		struct av_operand edge[5];
		struct av_atomic a = {.bytes = size[s]};
		unsigned int top = 8 * size[s] - 1;

		memset(edge, 0, sizeof(edge));
		edge[1].word[0] = 1;
		memset(&edge[2], 0xff, sizeof(edge[2]));   /* -1 */
		edge[3].word[top / 64] = 1ull << top % 64; /* the least signed one */
		memset(&edge[4], 0xff, sizeof(edge[4]));
		edge[4].word[top / 64] ^= 1ull << top % 64; /* the greatest */
		for (a.op = 0; a.op < AV_ATOMIC_OP_N; a.op++)
			for (int i = 0; i < 5; i++)
				for (int j = 0; j < 5; j++) {
					a.value = edge[i];
					a.compare = edge[i];
					check(&a, &edge[j]);
				}
	}
}

/* Each single boundary, and each pair of them, with everything carried that can be. */
TEST(every_boundary)
{
	for (unsigned int s = 0; s < AV_ARRAY_SIZE(size); s++) {
		struct av_atomic a = {.op = AV_ATOMIC_ADD, .bytes = size[s]};
		unsigned int n = 8 * size[s];
		struct av_operand old;

		memset(&old, 0xff, sizeof(old));
		for (unsigned int i = 0; i < n; i++)
			for (unsigned int j = i; j < n; j++) {
				memset(&a.mask, 0, sizeof(a.mask));
				a.mask.word[i / 64] |= 1ull << i % 64;
				a.mask.word[j / 64] |= 1ull << j % 64;
				memset(&a.value, 0, sizeof(a.value));
				a.value.word[0] = 1;
				check(&a, &old);
				memset(&a.value, 0xff, sizeof(a.value));
				check(&a, &old);
			}
	}
}

/* Every boundary of a byte with every old value. */
TEST(all_bytes)
{
	for (unsigned int top = 0; top < 256; top++)
		for (unsigned int x = 0; x < 256; x++)
			for (unsigned int y = 0; y < 256; y += 3) {
				struct av_atomic a = {.op = AV_ATOMIC_ADD,
						      .bytes = 1,
						      .value = {{y}},
						      .mask = {{top}}};
				struct av_operand old = {{x | 0xabc00}};

				check(&a, &old);
			}
}

/* Examples of the documentation, with their numbers written out. */
TEST(known_answers)
{
	struct av_atomic fields = {.op = AV_ATOMIC_ADD,
				   .bytes = 8,
				   .value = {{0x0000000100000001}},
				   .mask = {{0x8000000080000000}}};
	struct av_atomic cas = {.op = AV_ATOMIC_CMP_SWAP,
				.bytes = 8,
				.value = {{0x1111111111111111}},
				.compare = {{0x00000000000000ff}},
				.mask = {{0xffff000000000000}},
				.compare_mask = {{0x00000000000000ff}}};
	struct av_operand old = {{0x00000000ffffffff}}, new;

	assert_true(apply_atomic(&fields, &old, &new));
	assert_int_equal(new.word[0], 0x0000000100000000);
	fields.mask.word[0] = 0;
	assert_true(apply_atomic(&fields, &old, &new));
	assert_int_equal(new.word[0], 0x0000000200000000);
	assert_true(apply_atomic(&cas, &old, &new));
	assert_int_equal(new.word[0], 0x11110000ffffffff);
	cas.compare.word[0] = 0xfe;
	assert_false(apply_atomic(&cas, &old, &new));
	assert_int_equal(new.word[0], old.word[0]);
}

TEST(sizes)
{
	for (uint64_t i = 0; i < 200; i++)
		assert_int_equal(av_atomic_size_valid(i),
				 i == 1 || i == 2 || i == 4 || i == 8 || i == 16 || i == 32);
	assert_false(av_atomic_size_valid(1ull << 32));
}

int main(void)
{
	return run_cases(NULL, NULL);
}
