/* SPDX-License-Identifier: MIT */
/*
 * Whole pages of a segment, of 4 KiB or 2 MiB (huge), each physically contiguous: for regions that
 * the library allocates and for large rings.
 *
 * They lie at the end of the heap, which grows towards them. MADV_COLLAPSE makes the huge ones,
 * without privilege or setting, except that THP must not be denied for shared memory. Pages are
 * backed before they are handed out, except for memory of the program that moves in piece by piece.
 *
 * The free of a block that other processes have mapped as a shared region is deferred: its range is
 * reused when the last of them is gone.
 */
#ifndef AV_SEGMENT_PAGES_H
#define AV_SEGMENT_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/file.h"
#include "segment/heap.h"
#include "segment/segment.h"

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
void av_pages_defer(struct av_pages *pages, uint64_t at);

/* Does that offset belong to pages, not to the heap? */
bool av_pages_owns(const struct av_pages *pages, uint64_t at);

/*
 * Which pages an object's memory should have: MLX_*_ALLOC_TYPE, MLX_*_MAX_LOG2_CONTIG_BSIZE and
 * MLX_*_MIN_LOG2_CONTIG_BSIZE, and HUGE_CQ and the like.
 *
 * A "contiguous" buffer consists of blocks of 2^k bytes, minimum <= k <= maximum, each physically
 * contiguous. Here a block lies within one page, so k is 12, or up to 21 on huge pages.
 */

enum av_alloc_type {
	AV_ALLOC_ANON,		/* small pages as usual */
	AV_ALLOC_HUGE,		/* huge pages, or creation fails */
	AV_ALLOC_CONTIG,	/* contiguous pages, or creation fails */
	AV_ALLOC_PREFER_CONTIG, /* contiguous, else ANON */
	AV_ALLOC_PREFER_HUGE,	/* huge, else ANON */
	AV_ALLOC_ALL,		/* huge, else contiguous, else ANON */
	AV_ALLOC_N
};

struct av_page_policy {
	enum av_alloc_type type;
	uint8_t min_log2, max_log2; /* of the bytes of a block */
};

/* Name of a type as in the variables; "" if there is no such type. */
const char *av_alloc_type_name(unsigned int type);

/* Reads the value of a variable as text. Return: false if it is not set or does not fit. */
typedef bool av_page_variable(const void *where, const char *name, char *value, size_t size);

/* One kind of object. */
struct av_page_object {
	const char *name;	   /* in the variables: "MR", "QP", "CQ" */
	const char *huge_variable; /* "y" makes HUGE the default; NULL: none */
	enum av_alloc_type fallback;
};

/* An unknown type counts as not set; so does a size out of range, but @complain is told. */
struct av_page_policy av_page_policy_read(const struct av_page_object *object,
					  av_page_variable *get, const void *where,
					  void (*complain)(const char *name, const char *value));

struct av_page_plan {
	bool pages; /* take pages of the segment by @wish, else small memory */
	enum av_pages_wish wish;
	bool or_fail; /* creation fails without them */
	bool never;   /* such pages do not exist */
};

struct av_page_plan av_page_plan(const struct av_page_policy *policy);

/*
 * Regions of one context on pages of another: shared regions that were registered in a second
 * process. Peers get the memory of the first, the owner of the pages, from the second, which has it
 * also when the first process is gone.
 */

/* One more region is on pages of @pages_owner, which gets a use. Return: 0 or ENOMEM; blocks. */
AV_MUST_USE int av_pages_owner_hold(struct av_seg *seg, struct av_seg *pages_owner);

/* Count one region less. None of its keys may be in use any more. */
void av_pages_owner_drop(struct av_seg *seg, uint32_t ref);

/*
 * Where the owner of a segment's pages (AV_SEG_BYTES) is mapped, now if need be, or NULL. Any
 * thread; a pin keeps the region's key alive.
 */
uint8_t *av_pages_owner_base(struct av_seg *seg, uint32_t ref);

/* The segment is no longer in use: give up what is left of its entries. */
void av_pages_owner_forget(struct av_seg *seg);

/* In a forked child: others get the memory from the parent. */
void av_pages_owner_forked(struct av_seg *seg);

#endif
