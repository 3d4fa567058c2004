/* SPDX-License-Identifier: MIT */
/* What tests of the shared heap ask of descriptors, and how they keep pages where they are. */
#ifndef AV_TESTS_HEAP_PARTS_H
#define AV_TESTS_HEAP_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/key.h"
#include "segment/pages.h"

static inline const struct av_heap_part *described(struct av_seg *of, uint32_t id)
{
	return av_seg_at(of, (uint64_t)id << AV_HEAP_PART_SHIFT, sizeof(struct av_heap_part));
}

/* Is the descriptor's memory free? Then the next one has it. */
static inline bool is_free(struct av_seg *of, uint32_t id)
{
	uint64_t offset = av_seg_alloc(of, sizeof(struct av_heap_part));

	av_seg_free(of, offset, sizeof(struct av_heap_part));
	return offset == (uint64_t)id << AV_HEAP_PART_SHIFT;
}

/*
 * A locked page, which keeps all pages of the process where they are, until it is unmapped. By
 * number, since sanitizers ignore mlock(3). NULL: this process may lock none
 */
static inline void *locked_page(void)
{
	void *p = mmap(NULL, AV_HEAP_PART_ALIGN, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p != MAP_FAILED && syscall(SYS_mlock, p, AV_HEAP_PART_ALIGN) == 0 ? p : NULL;
}

#endif
