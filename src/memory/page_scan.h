/* SPDX-License-Identifier: MIT */
/* Which pages of this process are in memory, as far as the kernel tells. */
#ifndef AV_MEMORY_PAGE_SCAN_H
#define AV_MEMORY_PAGE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define AV_PAGE_RUNS 64

/* Addresses of whole pages. */
struct av_page_scan_run {
	uint64_t begin, end;
};

/*
 * Runs (@runs, room for AV_PAGE_RUNS) of pages of [*@begin, @end) that are in memory. *@begin moves
 * to where to go on; @end: all has been seen.
 *
 * One request to the kernel since 6.7; before, "pagemap" is read (proc(5)). Any thread; changes
 * errno; the answer may be outdated.
 * Return: number of runs, -1: the kernel does not tell
 */
AV_MUST_USE int av_page_scan_in_memory(uint64_t *begin, uint64_t end,
				       struct av_page_scan_run *runs);

/* Is the page there, and of a file or of shared memory? Context: as above. */
AV_MUST_USE bool av_page_is_of_file(uint64_t addr);

/* The way of older kernels, for tests. */
AV_MUST_USE int av_page_scan_in_memory_text(uint64_t *begin, uint64_t end,
					    struct av_page_scan_run *runs);

#endif
