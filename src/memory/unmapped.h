/* SPDX-License-Identifier: MIT */
/*
 * Has any page under a region that is not ODP been unmapped since the region was registered?
 *
 * An adapter pins pages and keeps using them when the program unmaps them. We move bytes through
 * virtual addresses, where something else may be mapped by then. So the kernel reports unmappings
 * to us (odp_notify.h), each is recorded here with its moment, and an access to a page that was
 * unmapped after its region's registration is refused. docs/DEVIATIONS.md, "memory unmapped under a
 * region", lists what goes unnoticed.
 *
 * A moment is a value of the context's odp_seq, which is odd while unmappings are being recorded. A
 * key remembers the moment up to which its whole range is known to be intact (@intact), so nearly
 * every access is one comparison. The record is a sparse tree over the pages of a 47-bit address
 * space; see unmapped.c.
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

/* Later than every unmapping. */
#define AV_UNMAPPED_NEVER UINT64_MAX

/*
 * The current moment: every earlier unmapping is recorded, every later one gets a greater moment.
 */
static inline uint64_t av_unmapped_now(const struct av_seg *seg)
{
	return atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) & ~(uint64_t)1;
}

/* Record that a range has just been unmapped. If the file system is full, nothing is recorded. */
void av_unmapped_record(struct av_seg *seg, uint64_t addr, uint64_t len);

/* Was any page of the range unmapped after @moment? */
bool av_unmapped_since(const struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t moment);

/* The slow part of av_still_mapped(). */
bool av_still_mapped_check(const struct av_seg *seg, struct av_key *k, uint64_t addr, uint64_t len);

/**
 * av_still_mapped() - is [addr, addr + len) still the memory that the region was registered with?
 * @k: the region's key, or that of a window onto it, kept alive by a pin; the range lies within it
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
