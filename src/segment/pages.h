/* SPDX-License-Identifier: MIT */
/*
 * Whole pages of a segment, for memory regions that the library allocates and for large rings: of 4
 * KiB, or huge ones of 2 MiB, each of which is physically contiguous.
 *
 * They lie at the end of the heap, which grows towards them. A huge page comes about by
 * MADV_COLLAPSE, which needs no privilege and no setting of the system's but THP not being denied
 * for shared memory. Pages are backed before they are handed out, so that touching them cannot
 * fail.
 *
 * Memory that other processes have mapped as a shared region lingers when its owner frees it: see
 * registry/page_users.h.
 */
#ifndef AV_SEGMENT_PAGES_H
#define AV_SEGMENT_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/heap.h"

#define AV_PAGE_BYTES	   4096u
#define AV_HUGE_LOG2	   21u
#define AV_HUGE_PAGE_BYTES (1u << AV_HUGE_LOG2)

enum av_pages_wish {
	AV_PAGES_SMALL, /* pages of 4 KiB */
	AV_PAGES_TRY,	/* huge pages for all that fills them, as far as there are any */
	AV_PAGES_HUGE,	/* huge pages throughout, or nothing */
};

/* What was handed out. */
struct av_page_block {
	uint64_t at;	/* offset in the segment; 0: nothing */
	uint64_t bytes; /* whole pages of the kind that was wished for */
	uint64_t huge;	/* number of huge pages in it */
};

struct av_pages;

/* @ref: the segment's context; @fd, @base: its file and where it is mapped (borrowed); @heap: gives
 * its end. NULL if memory is short. */
struct av_pages *av_pages_create(uint32_t ref, int fd, void *base, struct av_heap *heap);
void av_pages_destroy(struct av_pages *pages);

/**
 * av_pages_take() - zeroed pages, through segment/alloc.h
 * @bytes: more than 0, and no more than a segment has
 * @addr:  where they are going to be mapped, or 0
 * Return: 0 or ENOMEM
 */
AV_MUST_USE int av_pages_take(struct av_pages *pages, uint64_t bytes, enum av_pages_wish wish,
			      uint64_t addr, struct av_page_block *block);

/* Give back what was handed out at that offset. Nobody uses it any more. */
void av_pages_free(struct av_pages *pages, uint64_t at);

/* The same while others hold it: it is free once they do not. */
void av_pages_linger(struct av_pages *pages, uint64_t at);

/* Is that offset one of pages, not of the heap? */
bool av_pages_owns(const struct av_pages *pages, uint64_t at);

#endif
