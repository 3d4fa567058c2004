/* SPDX-License-Identifier: MIT */
#include "lib/atomic_model.h"

#include <stdint.h>
#include <string.h>

#define BITS (8u * AV_ATOMIC_MAX_BYTES)

/* The bits of an operand, least significant first. */
struct bits {
	unsigned char bit[BITS];
};

/* The bits of bytes in memory, or of a number in host order. */
static struct bits bits_of(const void *bytes, unsigned int size, bool swapped)
{
	const unsigned char *p = bytes;
	struct bits out;

	memset(&out, 0, sizeof(out));
	for (unsigned int i = 0; i < 8 * size; i++)
		out.bit[i] = p[swapped ? size - 1 - i / 8 : i / 8] >> i % 8 & 1;
	return out;
}

static int compare(const struct bits *a, const struct bits *b, unsigned int n, bool with_sign)
{
	for (unsigned int i = n; i-- > 0;) {
		int x = a->bit[i], y = b->bit[i];

		if (x != y)
			return with_sign && i == n - 1 ? y - x : x - y;
	}
	return 0;
}

static struct bits sum(const struct bits *a, const struct bits *b, const struct bits *top,
		       unsigned int n)
{
	struct bits out = *a;
	int carry = 0;

	for (unsigned int i = 0; i < n; i++) {
		int s = a->bit[i] + b->bit[i] + carry;

		out.bit[i] = s & 1;
		carry = top->bit[i] ? 0 : s >> 1;
	}
	return out;
}

struct model {
	struct bits value, compare, mask, compare_mask;
};

/* Return: true if the result is stored. */
static bool model_apply(enum av_atomic_op op, const struct model *m, const struct bits *old,
			struct bits *new, unsigned int n)
{
	bool same = true;

	*new = *old;
	switch (op) {
	case AV_ATOMIC_ADD:
		*new = sum(old, &m->value, &m->mask, n);
		return true;
	case AV_ATOMIC_XOR:
	case AV_ATOMIC_OR:
	case AV_ATOMIC_AND:
		for (unsigned int i = 0; i < n; i++) {
			int both = old->bit[i] + m->value.bit[i];

			new->bit[i] = op == AV_ATOMIC_XOR  ? both == 1
				      : op == AV_ATOMIC_OR ? both > 0
							   : both > 1;
		}
		return true;
	case AV_ATOMIC_MAX_UNSIGNED:
	case AV_ATOMIC_MAX_SIGNED:
		if (compare(&m->value, old, n, op == AV_ATOMIC_MAX_SIGNED) > 0)
			*new = m->value;
		return true;
	case AV_ATOMIC_MIN_UNSIGNED:
	case AV_ATOMIC_MIN_SIGNED:
		if (compare(&m->value, old, n, op == AV_ATOMIC_MIN_SIGNED) < 0)
			*new = m->value;
		return true;
	case AV_ATOMIC_SWAP:
		*new = m->value;
		return true;
	case AV_ATOMIC_CMP_SWAP:
		for (unsigned int i = 0; i < n; i++)
			if (m->compare_mask.bit[i] && old->bit[i] != m->compare.bit[i])
				return false;
		for (unsigned int i = 0; i < n; i++)
			if (m->mask.bit[i])
				new->bit[i] = m->value.bit[i];
		return true;
	default:
		for (unsigned int i = 0; i < n; i++)
			same = same && old->bit[i] == m->compare.bit[i];
		if (!same)
			*new = m->value;
		return !same;
	}
}

static void put_bits(const struct bits *bits, void *bytes, unsigned int size, bool swapped)
{
	unsigned char *p = bytes;

	memset(p, 0, size);
	for (unsigned int i = 0; i < 8 * size; i++)
		p[swapped ? size - 1 - i / 8 : i / 8] |= (unsigned char)(bits->bit[i] << i % 8);
}

bool model_atomic(const struct av_atomic *a, void *operand)
{
	unsigned int n = 8 * a->bytes;
	struct model m = {
		bits_of(&a->value, a->bytes, false),
		bits_of(&a->compare, a->bytes, false),
		bits_of(&a->mask, a->bytes, false),
		bits_of(&a->compare_mask, a->bytes, false),
	};
	struct bits old = bits_of(operand, a->bytes, a->how), new;
	bool stored = model_apply(a->op, &m, &old, &new, n);

	put_bits(&new, operand, a->bytes, a->how);
	return stored;
}

/* --- operands -------------------------------------------------------------------- */

static uint64_t random64(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15ull;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void fill_random(struct av_operand *o)
{
	for (unsigned int i = 0; i < AV_ATOMIC_WORDS; i++)
		o->word[i] = random64();
}

/* Equal to the number in memory, or different in one bit. */
static void resemble(struct av_operand *o, const struct av_atomic *a, const struct av_operand *old)
{
	struct bits bits = bits_of(old, a->bytes, a->how);

	if (random64() & 1)
		bits.bit[random64() % (8 * a->bytes)] ^= 1;
	put_bits(&bits, o, a->bytes, false);
}

void model_random(struct av_atomic *a, struct av_operand *old)
{
	struct av_operand *masks[] = {&a->mask, &a->compare_mask};

	fill_random(&a->value);
	fill_random(&a->compare);
	fill_random(old);
	if (random64() & 1)
		resemble(&a->value, a, old);
	if (random64() % 4)
		resemble(&a->compare, a, old);
	for (int i = 0; i < 2; i++) {
		fill_random(masks[i]);
		if (random64() % 4 == 0)
			memset(masks[i], random64() & 1 ? 0xff : 0, sizeof(*masks[i]));
	}
}
