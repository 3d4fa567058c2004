/* SPDX-License-Identifier: MIT */
/* What is a tunneled atomic, and what is none: every field of a command. */
#include <string.h>

#include "lib/unit.h"
#include "transport/execution.h"

#define SIZE sizeof(struct anyverbs_tunneled_atomic)

/* What the encoding promises, operation by operation: written down again, not taken from the table.
 */
static const struct {
	uint8_t operation;
	enum av_atomic_op op;
	bool compare, mask, compare_mask;
} known[] = {
	{0, AV_ATOMIC_ADD, false, true, false},
	{1, AV_ATOMIC_XOR, false, false, false},
	{2, AV_ATOMIC_OR, false, false, false},
	{3, AV_ATOMIC_AND, false, false, false},
	{4, AV_ATOMIC_MAX_UNSIGNED, false, false, false},
	{5, AV_ATOMIC_MAX_SIGNED, false, false, false},
	{6, AV_ATOMIC_MIN_UNSIGNED, false, false, false},
	{7, AV_ATOMIC_MIN_SIGNED, false, false, false},
	{8, AV_ATOMIC_SWAP, false, false, false},
	{9, AV_ATOMIC_CMP_SWAP, true, true, true},
	{10, AV_ATOMIC_CMP_SWAP_NE, true, false, false},
};

static struct anyverbs_tunneled_atomic command(uint8_t operation, uint8_t bytes)
{
	return (struct anyverbs_tunneled_atomic){.magic = 0x4d4f5441,
						 .version = 1,
						 .operation = operation,
						 .bytes = bytes,
						 .value = 5};
}

static bool decodes(const struct anyverbs_tunneled_atomic *c)
{
	struct av_atomic atomic;

	return av_tunnel_decode(c, &atomic);
}

TEST(every_operation_and_size)
{
	for (unsigned int operation = 0; operation < 256; operation++)
		for (unsigned int bytes = 0; bytes < 256; bytes++) {
			struct anyverbs_tunneled_atomic c =
				command((uint8_t)operation, (uint8_t)bytes);
			struct av_atomic atomic;
			bool valid = operation < AV_ARRAY_SIZE(known) && (bytes == 4 || bytes == 8);

			assert_int_equal(av_tunnel_decode(&c, &atomic), valid);
			if (!valid)
				continue;
			assert_int_equal(atomic.op, known[operation].op);
			assert_int_equal(atomic.bytes, bytes);
			assert_int_equal(atomic.value.word[0], 5);
			assert_false(atomic.how);
		}
}

TEST(every_byte_of_the_header)
{
	for (unsigned int at = 0; at < 8; at++)
		for (unsigned int value = 0; value < 256; value++) {
			struct anyverbs_tunneled_atomic c = command(1, 8);
			uint8_t *byte = (uint8_t *)&c + at;
			bool valid = value == *byte || (at == 5 && value < AV_ARRAY_SIZE(known)) ||
				     (at == 6 && value == 4) || (at == 7 && value == 1);

			*byte = (uint8_t)value;
			assert_int_equal(decodes(&c), valid);
		}
}

/* The operands that an operation has, and that it has no others. */
TEST(operands)
{
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(known); i++)
		for (uint8_t bytes = 4; bytes <= 8; bytes += 4)
			for (unsigned int bit = 0; bit < 64; bit++) {
				bool fits = bit < 8u * bytes;
				struct anyverbs_tunneled_atomic c =
					command(known[i].operation, bytes);

				c.value = 1ull << bit;
				assert_int_equal(decodes(&c), fits);
				c = command(known[i].operation, bytes);
				c.compare = 1ull << bit;
				assert_int_equal(decodes(&c), known[i].compare && fits);
				c = command(known[i].operation, bytes);
				c.mask = 1ull << bit;
				assert_int_equal(decodes(&c), known[i].mask && fits);
				c = command(known[i].operation, bytes);
				c.compare_mask = 1ull << bit;
				assert_int_equal(decodes(&c), known[i].compare_mask && fits);
			}
}

TEST(fields_arrive)
{
	struct anyverbs_tunneled_atomic c = command(9, 8);
	struct av_atomic atomic;

	c.order = 1;
	c.offset = UINT64_MAX;
	c.value = 1;
	c.compare = 2;
	c.mask = 3;
	c.compare_mask = 4;
	assert_true(av_tunnel_decode(&c, &atomic));
	assert_true(atomic.how);
	assert_int_equal(atomic.value.word[0], 1);
	assert_int_equal(atomic.compare.word[0], 2);
	assert_int_equal(atomic.mask.word[0], 3);
	assert_int_equal(atomic.compare_mask.word[0], 4);
}

TEST(lengths)
{
	assert_int_equal(SIZE, 48);
	for (uint64_t bytes = 0; bytes < 100 * SIZE; bytes++)
		assert_int_equal(av_tunnel_count(bytes),
				 bytes % SIZE || bytes > 64 * SIZE ? 0 : bytes / SIZE);
	assert_int_equal(av_tunnel_count((1ull << 32) * SIZE), 0);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
