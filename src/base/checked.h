/* SPDX-License-Identifier: MIT */
/* Range arithmetic that cannot wrap. No other file writes "addr + len > end". */
#ifndef AV_BASE_CHECKED_H
#define AV_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* Does [addr, addr + len) lie within [base, base + size)? In bytes; forms no sum. */
static inline bool av_range_within(uint64_t addr, uint64_t len, uint64_t base, uint64_t size)
{
	return addr >= base && len <= size && addr - base <= size - len;
}

/* Does addr + len exceed 64 bits? A range up to the last byte, addr + len == 2^64, does not. */
static inline bool av_range_wraps(uint64_t addr, uint64_t len)
{
	return len != 0 && addr > UINT64_MAX - (len - 1);
}

/* Round @v up to a multiple of the power of two @align; @v is at most UINT64_MAX - align + 1. */
static inline uint64_t av_round_up(uint64_t v, uint64_t align)
{
	return (v + align - 1) & ~(align - 1);
}

#endif
