/* SPDX-License-Identifier: MIT */
/*
 * Adoption: whole pages of the program's private memory move into its context's segment, and are
 * mapped back at the same address. Every process that maps the segment then reaches them by plain
 * loads and stores.
 *
 * What the program sees stays as it was; see docs/ADOPTION.md for what that takes, and for the
 * kinds of memory that are left alone. The pages move back when the last region on them ends, and
 * before a fork().
 */
#ifndef AV_MEMORY_ADOPT_H
#define AV_MEMORY_ADOPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "segment/segment.h"
#include "memory/key.h"

/* In the segment, so that peers find the pages. */
struct av_adopted {
	uint64_t addr;	     /* of the first byte, in the owner; constant, */
	uint64_t bytes;	     /* of whole pages, likewise */
	_Atomic uint64_t at; /* offset in the segment; 0: the pages are the owner's own again.
				Changes while moving (memory/page_move.h) */
};

#define AV_ADOPTED_ALIGN 4096u /* of both addresses: whole pages */
/* Objects of the heap are aligned so: their offsets fit a key's 32 bits. */
#define AV_ADOPTED_SHIFT 6

/**
 * av_adopt() - have the whole pages of a range that is being registered adopted
 *
 * Once more for memory that is adopted already holds that. The range has not been brought in for
 * this registration yet, and is watched afterwards. Context: any thread of the owner; no lock or
 * pin held; blocks Return:  what goes into the key (struct av_key, @adopted), to be ended by
 * av_adopt_end(); 0: left alone
 */
uint32_t av_adopt(struct av_seg *seg, uint64_t addr, uint64_t length);

/* A region on them has ended, or no longer is on them: nobody uses its key. 0 is ignored. */
void av_adopt_end(struct av_seg *seg, uint32_t adopted);

/* The context is being closed: what it has adopted goes back. No access to it is under way any
 * more. */
void av_adopt_close(struct av_seg *seg);

/* Some memory of the process is adopted. */
bool av_adopt_any(void);

/* Pages that are adopted, where the program has them mapped now. */
struct av_adopt_piece {
	uint64_t begin, end; /* addresses */
	int fd;		     /* of the segment, borrowed */
	uint64_t at;	     /* offset there */
};

/**
 * av_adopt_next() - the first of [addr, end) that is adopted
 * @maps: descriptor of /proc/self/maps
 * Context: any thread, and the listener of odp_notify.c: no lock, no heap. Return: false if there
 * is none
 */
AV_MUST_USE bool av_adopt_next(int maps, uint64_t addr, uint64_t end, struct av_adopt_piece *piece);

/* madvise(MADV_DONTNEED) of a range: what of it is adopted reads as zeros from now on. Context: as
 * above. */
void av_adopt_discard(uint64_t addr, uint64_t len);

/*
 * Where this process finds bytes of a key's memory, or NULL: not in the segment. The key is kept
 * alive by a pin. A peer's segment may say anything, and something else the next moment: each word
 * is read once, and what is aligned there is aligned here.
 */
static inline void *av_adopted_at(const struct av_seg *seg, uint32_t adopted, uint64_t addr,
				  uint64_t len)
{
	const struct av_adopted *a =
		av_seg_at(seg, (uint64_t)adopted << AV_ADOPTED_SHIFT, sizeof(*a));
	uint64_t at = a ? atomic_load_explicit(&a->at, memory_order_relaxed) : 0, first, bytes;

	if (!at)
		return NULL;
	first = __atomic_load_n(&a->addr, __ATOMIC_RELAXED);
	bytes = __atomic_load_n(&a->bytes, __ATOMIC_RELAXED);
	if ((at ^ first) & (AV_ADOPTED_ALIGN - 1) || !av_range_within(addr, len, first, bytes) ||
	    !av_range_within(at, bytes, sizeof(struct av_seg_head),
			     AV_SEG_BYTES - sizeof(struct av_seg_head)))
		return NULL;
	return (uint8_t *)seg->head + at + (addr - first);
}

#endif
