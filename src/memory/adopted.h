/* SPDX-License-Identifier: MIT */
/*
 * Which pages are adopted, and where they are: for peers in a descriptor in the segment, for
 * whoever discards memory of this process in a table without a lock. memory/adopt.h changes both.
 */
#ifndef AV_MEMORY_ADOPTED_H
#define AV_MEMORY_ADOPTED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "segment/segment.h"
#include "segment/shared_heap.h"

struct av_vma;

/* --- for peers ------------------------------------------------------------------- */

/* The descriptor. */
struct av_adopted {
	uint64_t addr;	     /* of the first byte, in the owner's process; constant */
	uint64_t bytes;	     /* of whole pages; constant */
	_Atomic uint64_t at; /* offset in the segment, or AV_SEG_BYTES + offset in the shared heap;
				0: the pages are in the owner's process again. Changes only while
				pages move (memory/page_move.h) */
};

#define AV_ADOPTED_ALIGN 4096u /* alignment of both addresses: whole pages */
#define AV_ADOPTED_SHIFT 6 /* heap objects have this alignment, so offsets fit a key's 32 bits */

/* The same of pages of the shared heap. */
void *av_adopted_in_heap(struct av_seg *seg, uint64_t at, uint64_t bytes, uint64_t offset);

/* Do the context's pages move (memory/page_move.h)? A dead mover's do not. Context: a pin is held.
 */
static inline bool av_page_moving(struct av_seg *seg)
{
	return av_unlikely(atomic_load(&seg->head->moving)) && av_seg_alive(seg);
}

/* --- for this process ------------------------------------------------------------ */

#define AV_ADOPTIONS 1024

/* Adopted pages, where the program has them mapped. */
struct av_adopted_piece {
	uint64_t begin, end;   /* addresses */
	struct av_own_fd file; /* the segment's, borrowed */
	uint64_t at;	       /* offset there */
};

/* Fill entry @i of the table, or clear it. One thread at a time; no heap. */
void av_adopted_show(uint32_t i, const struct av_adopted_piece *piece);
void av_adopted_hide(uint32_t i);

/* One entry more, for good: all of the shared heap (segment/shared_heap.h). */
void av_adopted_show_heap(const struct av_shared_heap *heap);

/* Is anything adopted, or the range in the shared heap? */
bool av_adopted_any(uint64_t addr, uint64_t len);

/* Has anything ever been adopted? */
bool av_adopted_ever(void);

/*
 * Is that a mapping of a segment that has had adopted pages? Those that moved out beside threads
 * are of its file still, also when it is closed. Of many segments, the oldest are forgotten. No
 * lock, no heap.
 */
bool av_adopted_is_file(const struct av_vma *vma);

/* Have pages been adopted at these addresses? No lock, no heap. */
bool av_adopted_overlaps(uint64_t addr, uint64_t len);

/*
 * The first adopted part of [addr, end), wherever the program has moved it. @maps: descriptor of
 * /proc/self/maps. Until the entry is hidden, pages count that have just become a private mapping
 * of the segment.
 * Context: any thread, and the listener of odp_notify.c: no lock, no heap.
 * Return: false if there is none
 */
AV_MUST_USE bool av_adopted_next(int maps, uint64_t addr, uint64_t end,
				 struct av_adopted_piece *piece);

/* Discard the segment's pages under a range: they become zeros. Context: as above. */
void av_adopted_discard(uint64_t addr, uint64_t len);

#endif
