/* SPDX-License-Identifier: MIT */
/* Which page of a range is not as it should be, and what is there instead? For records only. */
#ifndef AV_MEMORY_MISSING_H
#define AV_MEMORY_MISSING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/*
 * Note in the pending record why EFAULT is about to be the answer: the first page of own memory
 * that is not mapped, lacks the right, or cannot be had, and what /proc/self/maps says of it. Reads
 * the list of mappings, and may populate pages. No heap; changes errno. Context: no lock is held.
 * Return: false: no such page is found, and nothing is noted
 */
AV_COLD bool av_missing_note(uint64_t addr, uint64_t bytes, bool writable);

#endif
