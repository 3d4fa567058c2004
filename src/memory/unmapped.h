/* SPDX-License-Identifier: MIT */
/*
 * What became of memory under a region that is not paged on demand: has any page of it been
 * unmapped since the region was registered?
 *
 * An adapter pins pages, and goes on using them when the program unmaps them. We move bytes through
 * virtual addresses, where something else may be mapped by then. So the kernel tells us of
 * unmappings (odp_notify.h), each is recorded here with its moment, and an access to a page that
 * was unmapped after its region was registered is refused. What is not noticed: docs/DEVIATIONS.md,
 * "memory unmapped under a region".
 *
 * Moments are values of the context's odp_seq, which is odd while unmappings are being recorded. A
 * key remembers up to which moment its whole range is known to have stayed (@intact), so that
 * nearly every access is one comparison. The record is a sparse tree over the pages of a 47-bit
 * address space; see unmapped.c.
 *
 * Thread-safety: lock-free; any thread of any process may ask, only the owner's listener records.
 */
#ifndef AV_MEMORY_UNMAPPED_H
#define AV_MEMORY_UNMAPPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"
#include "memory/key.h"

/* No unmapping is after this. */
#define AV_UNMAPPED_NEVER UINT64_MAX

/* A moment before which everything that has been unmapped is recorded, and nothing that is unmapped
 * from now on. */
static inline uint64_t av_unmapped_now(const struct av_seg *seg)
{
	return atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) & ~(uint64_t)1;
}

/* Record that a range has just been unmapped. A full file system: nothing is recorded. */
void av_unmapped_record(struct av_seg *seg, uint64_t addr, uint64_t len);

/* Was a page of the range unmapped after @moment? */
bool av_unmapped_since(const struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t moment);

/* The slow part of av_still_mapped(). */
bool av_still_mapped_check(const struct av_seg *seg, struct av_key *k, uint64_t addr, uint64_t len);

/**
 * av_still_mapped() - is the memory at [addr, addr + len) what it was when the region was
 * registered?
 * @k: the region's key, or a window's onto it, kept alive by a pin; the range lies inside
 *
 * Context: any thread; may wait for the owner's listener (bounded).
 */
static inline bool av_still_mapped(const struct av_seg *seg, struct av_key *k, uint64_t addr,
				   uint64_t len)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire);

	if (av_likely(seq == atomic_load_explicit(&k->intact, memory_order_relaxed)))
		return true;
	return av_still_mapped_check(seg, k, addr, len);
}

#endif
