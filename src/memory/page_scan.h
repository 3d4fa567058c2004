/* SPDX-License-Identifier: MIT */
/*
 * Which pages of this process's memory are present, and which are huge, as far as the kernel tells.
 */
#ifndef AV_MEMORY_PAGE_SCAN_H
#define AV_MEMORY_PAGE_SCAN_H

#include <stdint.h>

#include "base/compiler.h"

#define AV_PAGE_RUNS 64

/* Addresses of whole pages. */
struct av_page_scan_run {
	uint64_t begin, end;
};

/*
 * av_page_scan_present() - runs of pages in [*@begin, @end) that are in memory or swapped out
 * av_page_scan_huge()    - runs of huge pages. Older kernels tell mappings only: a mapping with any
 * huge page counts as a whole, within the range
 *
 * @begin: in and out: where to go on; @end when all has been seen
 * @runs: out, room for AV_PAGE_RUNS
 *
 * One request to the kernel since 6.7; before, "pagemap" or "smaps" is read (proc(5)). Allocates no
 * memory; changes errno.
 * Context: any thread, no lock needed; the answer may be outdated.
 * Return:  number of runs, -1: the kernel does not tell
 */
AV_MUST_USE int av_page_scan_present(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs);
AV_MUST_USE int av_page_scan_huge(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs);

/* The ways of older kernels, for tests. */
AV_MUST_USE int av_page_scan_present_text(uint64_t *begin, uint64_t end,
					  struct av_page_scan_run *runs);
AV_MUST_USE int av_page_scan_huge_text(uint64_t *begin, uint64_t end,
				       struct av_page_scan_run *runs);

#endif
