/* SPDX-License-Identifier: MIT */
/*
 * The parts of a sparse file that have memory. Holes read as zeros; not to touch them keeps what is
 * large and hardly used small. System calls only.
 */
#ifndef AV_BASE_SPARSE_H
#define AV_BASE_SPARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/*
 * The first part of [*at, end) that is no hole: [*at, *part_end) from then on. What the kernel does
 * not tell counts as no hole. Return: false: all of it is
 */
AV_MUST_USE bool av_sparse_next(int fd, uint64_t *at, uint64_t end, uint64_t *part_end);

/* Read @bytes from @at on to @to, where zeros are already. Return: false: not all could be read */
AV_MUST_USE bool av_sparse_read(int fd, uint64_t at, uint64_t bytes, void *to);

#endif
