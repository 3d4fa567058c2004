/* SPDX-License-Identifier: MIT */
/*
 * What atomic operations do to an operand: old value in, new value out. Touches no memory but its
 * arguments; how the old value is read and the new one stored atomically is memory/xfer.h.
 *
 * Source: for CMP_SWAP and ADD with masks and field boundaries, the extended masked atomics of
 * MLNX_OFED; the rest is the set of atomic memory operations of POWER ISA 3.0 that give nothing
 * back and change one operand.
 */
#ifndef AV_MEMORY_ATOMIC_OP_H
#define AV_MEMORY_ATOMIC_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define AV_ATOMIC_MAX_BYTES 32u /* of an operand */
#define AV_ATOMIC_WORDS	    (AV_ATOMIC_MAX_BYTES / sizeof(uint64_t))

enum av_atomic_op {
	AV_ATOMIC_ADD, /* in fields, if a boundary is given */
	AV_ATOMIC_XOR,
	AV_ATOMIC_OR,
	AV_ATOMIC_AND,
	AV_ATOMIC_MAX_UNSIGNED,
	AV_ATOMIC_MAX_SIGNED,
	AV_ATOMIC_MIN_UNSIGNED,
	AV_ATOMIC_MIN_SIGNED,
	AV_ATOMIC_SWAP,
	AV_ATOMIC_CMP_SWAP,    /* under masks */
	AV_ATOMIC_CMP_SWAP_NE, /* swap if they differ */
	AV_ATOMIC_OP_N
};

/* A number, least significant word first. What lies beyond the operand's size does not count. */
struct av_operand {
	uint64_t word[AV_ATOMIC_WORDS];
};
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the bytes of an operand in memory are those of its words");

struct av_atomic {
	enum av_atomic_op op;
	uint32_t bytes;		   /* of the operand: 1, 2, 4, 8, 16 or 32 */
	uint32_t swapped;	   /* not 0: the operand in memory has the other byte order */
	struct av_operand value;   /* to add, to combine with, or to swap in */
	struct av_operand compare; /* CMP_SWAP, CMP_SWAP_NE */
	struct av_operand
		mask; /* CMP_SWAP: bits that are swapped in; ADD: a 1 is the top bit of a field */
	struct av_operand compare_mask; /* CMP_SWAP: bits that are compared */
};

/* Is that a size of operands? */
static inline bool av_atomic_size_valid(uint64_t bytes)
{
	return bytes && bytes <= AV_ATOMIC_MAX_BYTES && !(bytes & (bytes - 1));
}

/**
 * av_atomic_apply() - what becomes of an operand
 * @atomic: .op < AV_ATOMIC_OP_N and a valid size
 * @old:    as it lies in memory; beyond its size anything
 * @new:    out, as it shall lie in memory; beyond its size undefined
 *
 * Words beyond the operand's size are neither read nor used, so those of @atomic may be
 * uninitialized. Return:  false if it stays as it is because a comparison failed; @new is then @old
 */
AV_MUST_USE bool av_atomic_apply(const struct av_atomic *atomic, const struct av_operand *old,
				 struct av_operand *new);

#endif
