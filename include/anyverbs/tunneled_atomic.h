/* SPDX-License-Identifier: MIT */
/*
 * Tunneled atomics: the payload of an RDMA WRITE to a region that was registered with
 * IBV_EXP_ACCESS_TUNNELED_ATOMIC. The payload is not written to memory; the operations that it
 * describes are carried out there. The device's switch IBM_TUNNELED_ATOMIC_EN must be on. See
 * anyverbs-exp(7).
 *
 * The payload is one command after the other, at most ANYVERBS_TUNNELED_MAX, with nothing between
 * or behind them. Commands are executed in order. Each is atomic by itself, among all atomic
 * operations of the device. Integers of a command are little-endian. What an operation does not use
 * is 0.
 *
 * All commands are checked first. If one fails its check, the payload does nothing at all:
 *
 *   it is not a command, or is misaligned         IBV_WC_REM_INV_REQ_ERR
 *   it is not within the region and its rights    IBV_WC_REM_ACCESS_ERR
 *
 * Memory that is then found not to be mapped ends the request with IBV_WC_REM_ACCESS_ERR, after the
 * commands before it.
 */
#ifndef ANYVERBS_TUNNELED_ATOMIC_H
#define ANYVERBS_TUNNELED_ATOMIC_H

#include <stdint.h>

#define ANYVERBS_TUNNELED_MAGIC	  0x4d4f5441u /* "ATOM" */
#define ANYVERBS_TUNNELED_VERSION 1
#define ANYVERBS_TUNNELED_MAX	  64 /* commands in one payload */

/* M is the operand in memory; the other names are fields of the command. */
enum anyverbs_tunneled_operation {
	ANYVERBS_TUNNELED_ADD = 0,	    /* M += value; a carry is dropped where mask has a 1 */
	ANYVERBS_TUNNELED_XOR = 1,	    /* M ^= value */
	ANYVERBS_TUNNELED_OR = 2,	    /* M |= value */
	ANYVERBS_TUNNELED_AND = 3,	    /* M &= value */
	ANYVERBS_TUNNELED_MAX_UNSIGNED = 4, /* M = the greater of M and value */
	ANYVERBS_TUNNELED_MAX_SIGNED = 5,
	ANYVERBS_TUNNELED_MIN_UNSIGNED = 6, /* M = the lesser of M and value */
	ANYVERBS_TUNNELED_MIN_SIGNED = 7,
	ANYVERBS_TUNNELED_SWAP = 8,	/* M = value */
	ANYVERBS_TUNNELED_CMP_SWAP = 9, /* if M and compare agree in the bits of compare_mask: the
					   bits of M that are in mask become those of value */
	ANYVERBS_TUNNELED_CMP_SWAP_NE = 10, /* if M is not compare: M = value */
	ANYVERBS_TUNNELED_OPERATIONS = 11
};

enum anyverbs_tunneled_order {
	ANYVERBS_TUNNELED_LITTLE_ENDIAN = 0, /* of M, in memory */
	ANYVERBS_TUNNELED_BIG_ENDIAN = 1
};

struct anyverbs_tunneled_atomic {
	uint32_t magic;	   /* ANYVERBS_TUNNELED_MAGIC */
	uint8_t version;   /* ANYVERBS_TUNNELED_VERSION */
	uint8_t operation; /* enum anyverbs_tunneled_operation */
	uint8_t bytes;	   /* of M: 4 or 8 */
	uint8_t order;	   /* enum anyverbs_tunneled_order */
	uint64_t offset; /* M is at remote_addr of the WRITE plus this, modulo 2^64, aligned to its
			    size */
	uint64_t value;	 /* of these, the low 4 bytes count if M has 4; the others are 0 */
	uint64_t compare;
	uint64_t mask;
	uint64_t compare_mask;
};

#endif
