/* SPDX-License-Identifier: MIT */
/*
 * Tunneled atomics: the payload of an RDMA WRITE to a region registered with
 * IBV_EXP_ACCESS_TUNNELED_ATOMIC. The payload is not written to memory; it describes operations
 * that are executed on the memory. The device's switch IBM_TUNNELED_ATOMIC_EN must be on. See
 * anyverbs-exp(7).
 *
 * The payload is a sequence of at most ANYVERBS_TUNNELED_MAX commands without gaps. They are
 * executed in order. Each is atomic by itself, with respect to all atomic operations of the device.
 * Integers in a command are little-endian. Fields that an operation does not use must be 0.
 *
 * A payload that is malformed or not permitted by the key fails without any effect:
 * - not a command, or not aligned: IBV_WC_REM_INV_REQ_ERR
 * - not within the region or its rights: IBV_WC_REM_ACCESS_ERR
 *
 * If memory turns out to be unmapped, the WRITE also fails with IBV_WC_REM_ACCESS_ERR, but the
 * commands before the failing one have been executed.
 */
#ifndef ANYVERBS_TUNNELED_ATOMIC_H
#define ANYVERBS_TUNNELED_ATOMIC_H

#include <stdint.h>

#define ANYVERBS_TUNNELED_MAGIC	  0x4d4f5441u /* "ATOM" */
#define ANYVERBS_TUNNELED_VERSION 1
#define ANYVERBS_TUNNELED_MAX	  64 /* commands in one payload */

/* M is the operand in memory; the other names are fields of the command. */
enum anyverbs_tunneled_operation {
	ANYVERBS_TUNNELED_ADD = 0, /* M += value; carries out of bits set in mask are dropped */
	ANYVERBS_TUNNELED_XOR = 1, /* M ^= value */
	ANYVERBS_TUNNELED_OR = 2,  /* M |= value */
	ANYVERBS_TUNNELED_AND = 3, /* M &= value */
	ANYVERBS_TUNNELED_MAX_UNSIGNED = 4, /* M = max(M, value) */
	ANYVERBS_TUNNELED_MAX_SIGNED = 5,
	ANYVERBS_TUNNELED_MIN_UNSIGNED = 6, /* M = min(M, value) */
	ANYVERBS_TUNNELED_MIN_SIGNED = 7,
	ANYVERBS_TUNNELED_SWAP = 8,	/* M = value */
	ANYVERBS_TUNNELED_CMP_SWAP = 9, /* if M and compare agree in the bits of compare_mask, set
					   the bits of mask in M to those of value */
	ANYVERBS_TUNNELED_CMP_SWAP_NE = 10, /* if M differs from compare: M = value */
	ANYVERBS_TUNNELED_OPERATIONS = 11
};

enum anyverbs_tunneled_order {
	ANYVERBS_TUNNELED_LITTLE_ENDIAN = 0, /* byte order of M in memory */
	ANYVERBS_TUNNELED_BIG_ENDIAN = 1
};

struct anyverbs_tunneled_atomic {
	uint32_t magic;	   /* ANYVERBS_TUNNELED_MAGIC */
	uint8_t version;   /* ANYVERBS_TUNNELED_VERSION */
	uint8_t operation; /* enum anyverbs_tunneled_operation */
	uint8_t bytes;	   /* of M: 4 or 8 */
	uint8_t order;	   /* enum anyverbs_tunneled_order */
	uint64_t offset;   /* M is at the WRITE's remote_addr plus this, modulo 2^64; aligned to its
			      size */
	uint64_t value;	   /* of these, M of 4 bytes uses the low 4; the rest must be 0 */
	uint64_t compare;
	uint64_t mask;
	uint64_t compare_mask;
};

#endif
