/* SPDX-License-Identifier: MIT */
/* Bytes that say where they belong: byte i of pattern @seed is a function of both. */
#ifndef TEST_PATTERN_H
#define TEST_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Write bytes @from .. @from + @bytes of the pattern. */
void pattern_fill(void *at, size_t bytes, uint64_t seed, uint64_t from);

/* Return: offset from @at of the first byte that is not the pattern's, or -1. */
int64_t pattern_check(const void *at, size_t bytes, uint64_t seed, uint64_t from);

#endif
