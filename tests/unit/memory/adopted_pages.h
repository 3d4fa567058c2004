/* SPDX-License-Identifier: MIT */
/* What tests of adoption ask of descriptors, and how they keep pages where they are. */
#ifndef AV_TESTS_ADOPTED_PAGES_H
#define AV_TESTS_ADOPTED_PAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/adopted.h"
#include "segment/alloc.h"

static inline const struct av_adopted *described(struct av_seg *of, uint32_t id)
{
	return av_seg_at(of, (uint64_t)id << AV_ADOPTED_SHIFT, sizeof(struct av_adopted));
}

/* Is the descriptor's memory free? Then the next one has it. */
static inline bool is_free(struct av_seg *of, uint32_t id)
{
	uint64_t offset = av_seg_alloc(of, sizeof(struct av_adopted));

	av_seg_free(of, offset, sizeof(struct av_adopted));
	return offset == (uint64_t)id << AV_ADOPTED_SHIFT;
}

/*
 * A locked page, which keeps all pages of the process where they are, until it is unmapped. By
 * number, since sanitizers ignore mlock(3). NULL: this process may lock none
 */
static inline void *locked_page(void)
{
	void *p = mmap(NULL, AV_ADOPTED_ALIGN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	return p != MAP_FAILED && syscall(SYS_mlock, p, AV_ADOPTED_ALIGN) == 0 ? p : NULL;
}

#endif
