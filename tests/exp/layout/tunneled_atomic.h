/* SPDX-License-Identifier: MIT */
/* Rows of ../layout.c: the encoding in <anyverbs/tunneled_atomic.h>. */
#include <anyverbs/tunneled_atomic.h>

OFFSET(anyverbs_tunneled_atomic, magic, 0);
OFFSET(anyverbs_tunneled_atomic, version, 4);
OFFSET(anyverbs_tunneled_atomic, operation, 5);
OFFSET(anyverbs_tunneled_atomic, bytes, 6);
OFFSET(anyverbs_tunneled_atomic, order, 7);
OFFSET(anyverbs_tunneled_atomic, offset, 8);
OFFSET(anyverbs_tunneled_atomic, value, 16);
OFFSET(anyverbs_tunneled_atomic, compare, 24);
OFFSET(anyverbs_tunneled_atomic, mask, 32);
OFFSET(anyverbs_tunneled_atomic, compare_mask, 40);
SIZE(anyverbs_tunneled_atomic, 48);
VALUE(ANYVERBS_TUNNELED_MAGIC, 0x4d4f5441);
VALUE(ANYVERBS_TUNNELED_VERSION, 1);
VALUE(ANYVERBS_TUNNELED_MAX, 64);
VALUE(ANYVERBS_TUNNELED_ADD, 0);
VALUE(ANYVERBS_TUNNELED_XOR, 1);
VALUE(ANYVERBS_TUNNELED_OR, 2);
VALUE(ANYVERBS_TUNNELED_AND, 3);
VALUE(ANYVERBS_TUNNELED_MAX_UNSIGNED, 4);
VALUE(ANYVERBS_TUNNELED_MAX_SIGNED, 5);
VALUE(ANYVERBS_TUNNELED_MIN_UNSIGNED, 6);
VALUE(ANYVERBS_TUNNELED_MIN_SIGNED, 7);
VALUE(ANYVERBS_TUNNELED_SWAP, 8);
VALUE(ANYVERBS_TUNNELED_CMP_SWAP, 9);
VALUE(ANYVERBS_TUNNELED_CMP_SWAP_NE, 10);
VALUE(ANYVERBS_TUNNELED_LITTLE_ENDIAN, 0);
VALUE(ANYVERBS_TUNNELED_BIG_ENDIAN, 1);
