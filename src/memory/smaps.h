/* SPDX-License-Identifier: MIT */
/* What the kernel says of mappings of this process in "smaps", see proc_pid_smaps(5). */
#ifndef AV_MEMORY_SMAPS_H
#define AV_MEMORY_SMAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* A line "Name: ..." of the mapping [begin, end). Return: false: no later line matters */
typedef bool av_smaps_visit(void *arg, uint64_t begin, uint64_t end, const char *line);

/*
 * Visit each line of the mappings that overlap [@begin, @end). The kernel walks the page tables of
 * these and of all below them: microseconds for each, milliseconds for gigabytes. Uses the heap.
 * Return: false: the kernel does not tell
 */
AV_MUST_USE bool av_smaps_read(uint64_t begin, uint64_t end, av_smaps_visit *visit, void *arg);

#endif
