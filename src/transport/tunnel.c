/* SPDX-License-Identifier: MIT */
/* Decoding tunneled atomics. */
#include "transport/tunnel.h"

_Static_assert(sizeof(struct anyverbs_tunneled_atomic) == 48, "a command");

enum { USES_COMPARE = 1, USES_MASK = 2, USES_COMPARE_MASK = 4 }; /* all use the value */

/* One row per operation of the encoding. */
static const struct {
	enum av_atomic_op op;
	unsigned int uses;
} row[] = {
	[ANYVERBS_TUNNELED_ADD] = {AV_ATOMIC_ADD, USES_MASK},
	[ANYVERBS_TUNNELED_XOR] = {AV_ATOMIC_XOR, 0},
	[ANYVERBS_TUNNELED_OR] = {AV_ATOMIC_OR, 0},
	[ANYVERBS_TUNNELED_AND] = {AV_ATOMIC_AND, 0},
	[ANYVERBS_TUNNELED_MAX_UNSIGNED] = {AV_ATOMIC_MAX_UNSIGNED, 0},
	[ANYVERBS_TUNNELED_MAX_SIGNED] = {AV_ATOMIC_MAX_SIGNED, 0},
	[ANYVERBS_TUNNELED_MIN_UNSIGNED] = {AV_ATOMIC_MIN_UNSIGNED, 0},
	[ANYVERBS_TUNNELED_MIN_SIGNED] = {AV_ATOMIC_MIN_SIGNED, 0},
	[ANYVERBS_TUNNELED_SWAP] = {AV_ATOMIC_SWAP, 0},
	[ANYVERBS_TUNNELED_CMP_SWAP] = {AV_ATOMIC_CMP_SWAP,
					USES_COMPARE | USES_MASK | USES_COMPARE_MASK},
	[ANYVERBS_TUNNELED_CMP_SWAP_NE] = {AV_ATOMIC_CMP_SWAP_NE, USES_COMPARE},
};
_Static_assert(AV_ARRAY_SIZE(row) == ANYVERBS_TUNNELED_OPERATIONS, "a row for each operation");

unsigned int av_tunnel_count(uint64_t bytes)
{
	uint64_t n = bytes / sizeof(struct anyverbs_tunneled_atomic);

	if (bytes % sizeof(struct anyverbs_tunneled_atomic) || n > ANYVERBS_TUNNELED_MAX)
		return 0;
	return (unsigned int)n;
}

static bool header_valid(const struct anyverbs_tunneled_atomic *c)
{
	return c->magic == ANYVERBS_TUNNELED_MAGIC && c->version == ANYVERBS_TUNNELED_VERSION &&
	       c->operation < ANYVERBS_TUNNELED_OPERATIONS && (c->bytes == 4 || c->bytes == 8) &&
	       c->order <= ANYVERBS_TUNNELED_BIG_ENDIAN;
}

/* Operands no longer than they may be, and none that the operation does not have. */
static bool operands_valid(const struct anyverbs_tunneled_atomic *c)
{
	uint64_t beyond = c->bytes == 4 ? ~(uint64_t)UINT32_MAX : 0;
	unsigned int uses = row[c->operation].uses;

	return !(c->value & beyond) &&
	       !(c->compare & (uses & USES_COMPARE ? beyond : UINT64_MAX)) &&
	       !(c->mask & (uses & USES_MASK ? beyond : UINT64_MAX)) &&
	       !(c->compare_mask & (uses & USES_COMPARE_MASK ? beyond : UINT64_MAX));
}

bool av_tunnel_decode(const struct anyverbs_tunneled_atomic *c, struct av_atomic *atomic)
{
	if (!header_valid(c) || !operands_valid(c))
		return false;
	*atomic = (struct av_atomic){
		.op = row[c->operation].op,
		.bytes = c->bytes,
		.swapped = c->order == ANYVERBS_TUNNELED_BIG_ENDIAN,
		.value = {{c->value}},
		.compare = {{c->compare}},
		.mask = {{c->mask}},
		.compare_mask = {{c->compare_mask}},
	};
	return true;
}
