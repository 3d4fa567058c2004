/* SPDX-License-Identifier: MIT */
/* What the kernel refuses of private memory, and would not of a file. */
#ifndef AV_SHARED_HEAP_LIMITS_H
#define AV_SHARED_HEAP_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/*
 * Is a block of that size the kernel's to give, or to refuse? Yes where it counts private memory
 * (RLIMIT_DATA), and for more than there is at all.
 */
AV_MUST_USE bool av_limits_apply(uint64_t bytes);

#endif
