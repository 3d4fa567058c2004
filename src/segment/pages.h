/* SPDX-License-Identifier: MIT */
/*
 * Whole pages of a segment, of 4 KiB or 2 MiB (huge), each physically contiguous: for regions that
 * the library allocates and for large rings.
 *
 * They lie at the end of the heap, which grows towards them. MADV_COLLAPSE makes the huge ones,
 * without privilege or setting, except that THP must not be denied for shared memory. Pages are
 * backed before they are handed out, except for memory of the program that moves in piece by piece.
 *
 * A block that other processes have mapped as a shared region lingers when its owner frees it: its
 * range is reused when the last of them is gone.
 */
#ifndef AV_SEGMENT_PAGES_H
#define AV_SEGMENT_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/own_fd.h"
#include "segment/heap.h"

#define AV_HUGE_LOG2	   21u
#define AV_HUGE_PAGE_BYTES (1u << AV_HUGE_LOG2)

enum av_pages_wish {
	AV_PAGES_SMALL, /* pages of 4 KiB */
	AV_PAGES_TRY,	/* huge pages where they fit, as many as there are */
	AV_PAGES_HUGE,	/* only huge pages, or fail */
};

/* A block of pages that was handed out. */
struct av_page_block {
	uint64_t at;	/* offset in the segment; 0: none */
	uint64_t bytes; /* a multiple of the page size */
	uint64_t huge;	/* number of huge pages in it */
};

struct av_pages;

/*
 * @ref: the context. File and mapping are borrowed; @heap gives its end. NULL if memory is short.
 */
struct av_pages *av_pages_create(uint32_t ref, const struct av_own_fd *file, void *base,
				 struct av_heap *heap);
void av_pages_destroy(struct av_pages *pages);

/* 1 to AV_SEG_BYTES, zeroed; for segment/alloc.h. Return: 0 or ENOMEM. */
AV_MUST_USE int av_pages_take(struct av_pages *pages, uint64_t bytes, enum av_pages_wish wish,
			      struct av_page_block *block);

void av_pages_free(struct av_pages *pages, uint64_t at);

/* Free the block as soon as no other process holds it. */
void av_pages_linger(struct av_pages *pages, uint64_t at);

/* Does that offset belong to pages, not to the heap? */
bool av_pages_owns(const struct av_pages *pages, uint64_t at);

#endif
