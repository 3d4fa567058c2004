/* SPDX-License-Identifier: MIT */
/*
 * Memory that is more than private, readable and writable, by the program's wish: code, of a
 * protection key, on chosen NUMA nodes, locked; not for children, dumps or twins (madvise(2):
 * MADV_DONTFORK, MADV_WIPEONFORK, MADV_DONTDUMP, MADV_MERGEABLE). Pages of a segment cannot be all
 * of that, so such memory is not adopted.
 *
 * The kernel tells advice and keys only in "smaps", which costs too much to be read for each
 * registration. So the hooks of src/preload note what the program asks for, and smaps is read for
 * memory near that; or always, in a program whose calls do not reach the hooks.
 */
#ifndef AV_MEMORY_SPECIAL_H
#define AV_MEMORY_SPECIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* From now on, the program's advice and keys are noted. */
void av_special_begin(void);

/* The program is about to make this memory special. Lock-free. */
void av_special_note(uint64_t addr, uint64_t bytes);

/* Is any memory of the range special? What the kernel does not tell counts. Uses the heap. */
AV_MUST_USE bool av_special(uint64_t begin, uint64_t end);

/* Give the pages of one mapping's place to others: with its NUMA policy, which the old ones lose.
 */
void av_special_move_policy(uint64_t from, uint64_t bytes, void *to);

#endif
