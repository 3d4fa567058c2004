/* SPDX-License-Identifier: MIT */
/*
 * Atomic operations as pure functions: old value in, new value out. memory/xfer.h reads and stores
 * the operand atomically.
 *
 * Source: CMP_SWAP and ADD with masks and field boundaries are the extended masked atomics of
 * MLNX_OFED. The rest are the atomic memory operations of POWER ISA 3.0 that return nothing and
 * change one operand.
 */
#ifndef AV_MEMORY_ATOMIC_OP_H
#define AV_MEMORY_ATOMIC_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define AV_ATOMIC_MAX_BYTES 32u /* largest operand */
#define AV_ATOMIC_WORDS	    (AV_ATOMIC_MAX_BYTES / sizeof(uint64_t))

enum av_atomic_op {
	AV_ATOMIC_ADD, /* in separate fields if @mask marks field boundaries */
	AV_ATOMIC_XOR,
	AV_ATOMIC_OR,
	AV_ATOMIC_AND,
	AV_ATOMIC_MAX_UNSIGNED,
	AV_ATOMIC_MAX_SIGNED,
	AV_ATOMIC_MIN_UNSIGNED,
	AV_ATOMIC_MIN_SIGNED,
	AV_ATOMIC_SWAP,
	AV_ATOMIC_CMP_SWAP,    /* compares and swaps under masks */
	AV_ATOMIC_CMP_SWAP_NE, /* swaps if the operands differ */
	AV_ATOMIC_OP_N
};

/* A number, least significant word first. Bytes beyond the operand's size are ignored. */
struct av_operand {
	uint64_t word[AV_ATOMIC_WORDS];
};
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the bytes of an operand in memory are those of its words");

struct av_atomic {
	enum av_atomic_op op;
	uint32_t bytes;		   /* operand size: 1, 2, 4, 8, 16 or 32 */
	uint32_t swapped;	   /* not 0: the operand in memory has the opposite byte order */
	struct av_operand value;   /* to add, to combine with, or to swap in */
	struct av_operand compare; /* CMP_SWAP, CMP_SWAP_NE */
	struct av_operand mask;	   /* CMP_SWAP: bits to swap in; ADD: top bits of fields */
	struct av_operand compare_mask; /* CMP_SWAP: bits to compare */
};

/* Is this a valid operand size? */
static inline bool av_atomic_size_valid(uint64_t bytes)
{
	return bytes && bytes <= AV_ATOMIC_MAX_BYTES && !(bytes & (bytes - 1));
}

/**
 * av_atomic_apply() - compute the new value of an operand
 * @atomic: .op < AV_ATOMIC_OP_N and a valid size
 * @old: as it lies in memory
 * @new: out, as it shall lie in memory; undefined beyond the operand's size
 *
 * Words beyond the operand's size are not read, so those of @atomic may be uninitialized.
 * Return: false if a comparison failed and the operand stays as it is; then @new equals @old
 */
AV_MUST_USE bool av_atomic_apply(const struct av_atomic *atomic, const struct av_operand *old,
				 struct av_operand *new);

#endif
