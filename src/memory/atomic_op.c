/* SPDX-License-Identifier: MIT */
/* The atomic operations, one row each. */
#include "memory/atomic_op.h"

/* --- numbers of several words ---------------------------------------------------- */

static unsigned int words(uint32_t bytes)
{
	return bytes <= sizeof(uint64_t) ? 1 : bytes / (unsigned int)sizeof(uint64_t);
}

/* The bits of a word that belong to an operand of this size. */
static uint64_t used(uint32_t bytes)
{
	return bytes < sizeof(uint64_t) ? (1ull << (8 * bytes)) - 1 : UINT64_MAX;
}

static struct av_operand reversed(const struct av_operand *value, uint32_t bytes)
{
	unsigned int n = words(bytes);
	struct av_operand out;

	for (unsigned int i = 0; i < n; i++)
		out.word[n - 1 - i] = __builtin_bswap64(value->word[i]);
	if (bytes < sizeof(uint64_t))
		out.word[0] >>= 64 - 8 * bytes;
	return out;
}

/*
 * a < b? With @with_sign, both sign bits are inverted first, which makes the comparison a signed
 * one.
 */
static bool less(const struct av_operand *a, const struct av_operand *b, uint32_t bytes,
		 bool with_sign)
{
	uint64_t sign = with_sign ? (used(bytes) >> 1) + 1 : 0;

	for (unsigned int i = words(bytes); i-- > 0; sign = 0) {
		uint64_t x = (a->word[i] & used(bytes)) ^ sign,
			 y = (b->word[i] & used(bytes)) ^ sign;

		if (x != y)
			return x < y;
	}
	return false;
}

/* Are the bits under the mask equal? */
static bool equal(const struct av_operand *a, const struct av_operand *b,
		  const struct av_operand *mask, uint32_t bytes)
{
	uint64_t differ = 0;

	for (unsigned int i = 0; i < words(bytes); i++)
		differ |= (a->word[i] ^ b->word[i]) & used(bytes) &
			  (mask ? mask->word[i] : UINT64_MAX);
	return differ == 0;
}

/* --- the operations: old value in, new value out --------------------------------- */

typedef bool operation(const struct av_atomic *a, const struct av_operand *old,
		       struct av_operand *new);

/*
 * Adds the fields without their top bits, so that nothing is carried out of a field. Then each top
 * bit is the carry-less sum of both addends' top bits and the carry into it.
 */
static bool add(const struct av_atomic *a, const struct av_operand *old, struct av_operand *new)
{
	uint64_t carry = 0;

	for (unsigned int i = 0; i < words(a->bytes); i++) {
		uint64_t x = old->word[i], y = a->value.word[i], top = a->mask.word[i], sum;
		uint64_t carried = __builtin_add_overflow(x & ~top, y & ~top, &sum);

		carried += __builtin_add_overflow(sum, carry, &sum);
		new->word[i] = sum ^ ((x ^ y) & top);
		carry = carried;
	}
	return true;
}

#define BITWISE(name, operator)                                                   \
	static bool name(const struct av_atomic *a, const struct av_operand *old, \
			 struct av_operand *new)                                  \
	{                                                                         \
		for (unsigned int i = 0; i < words(a->bytes); i++)                \
			new->word[i] = old->word[i] operator a->value.word[i];    \
		return true;                                                      \
	}
BITWISE(bit_xor, ^)
BITWISE(bit_or, |)
BITWISE(bit_and, &)

static bool swap(const struct av_atomic *a, const struct av_operand *old, struct av_operand *new)
{
	for (unsigned int i = 0; i < words(a->bytes); i++)
		new->word[i] = a->value.word[i];
	return true;
}

static bool max_unsigned(const struct av_atomic *a, const struct av_operand *old,
			 struct av_operand *new)
{
	*new = *(less(old, &a->value, a->bytes, false) ? &a->value : old);
	return true;
}

static bool max_signed(const struct av_atomic *a, const struct av_operand *old,
		       struct av_operand *new)
{
	*new = *(less(old, &a->value, a->bytes, true) ? &a->value : old);
	return true;
}

static bool min_unsigned(const struct av_atomic *a, const struct av_operand *old,
			 struct av_operand *new)
{
	*new = *(less(&a->value, old, a->bytes, false) ? &a->value : old);
	return true;
}

static bool min_signed(const struct av_atomic *a, const struct av_operand *old,
		       struct av_operand *new)
{
	*new = *(less(&a->value, old, a->bytes, true) ? &a->value : old);
	return true;
}

static bool cmp_swap(const struct av_atomic *a, const struct av_operand *old,
		     struct av_operand *new)
{
	if (!equal(old, &a->compare, &a->compare_mask, a->bytes))
		return false;
	for (unsigned int i = 0; i < words(a->bytes); i++)
		new->word[i] =
			(old->word[i] & ~a->mask.word[i]) | (a->value.word[i] & a->mask.word[i]);
	return true;
}

static bool cmp_swap_ne(const struct av_atomic *a, const struct av_operand *old,
			struct av_operand *new)
{
	return !equal(old, &a->compare, NULL, a->bytes) && swap(a, old, new);
}

static operation *const row[] = {
	[AV_ATOMIC_ADD] = add,
	[AV_ATOMIC_XOR] = bit_xor,
	[AV_ATOMIC_OR] = bit_or,
	[AV_ATOMIC_AND] = bit_and,
	[AV_ATOMIC_MAX_UNSIGNED] = max_unsigned,
	[AV_ATOMIC_MAX_SIGNED] = max_signed,
	[AV_ATOMIC_MIN_UNSIGNED] = min_unsigned,
	[AV_ATOMIC_MIN_SIGNED] = min_signed,
	[AV_ATOMIC_SWAP] = swap,
	[AV_ATOMIC_CMP_SWAP] = cmp_swap,
	[AV_ATOMIC_CMP_SWAP_NE] = cmp_swap_ne,
};
_Static_assert(AV_ARRAY_SIZE(row) == AV_ATOMIC_OP_N, "a row for each operation");

bool av_atomic_apply(const struct av_atomic *atomic, const struct av_operand *old,
		     struct av_operand *new)
{
	struct av_operand number = atomic->swapped ? reversed(old, atomic->bytes) : *old;

	if (!row[atomic->op](atomic, &number, new)) {
		*new = *old;
		return false;
	}
	if (atomic->swapped)
		*new = reversed(new, atomic->bytes);
	return true;
}
