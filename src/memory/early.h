/* SPDX-License-Identifier: MIT */
/*
 * Memory that was allocated before the shared heap began, with the process's first device: of
 * registered memory, "anyverbs stat mr" and "doctor" say so, since it could be shared otherwise.
 */
#ifndef AV_MEMORY_EARLY_H
#define AV_MEMORY_EARLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* Remember the large private mappings that there are now. One thread at a time. */
void av_early_note(void);

/* Is the range in one of them? What has taken its place since counts, too. No lock. */
AV_MUST_USE bool av_early_has(uint64_t addr, uint64_t bytes);

#endif
