/* SPDX-License-Identifier: MIT */
/*
 * The device page table of a context: for which pages of the owner's address space does the device
 * hold a valid translation, for reading and for writing?
 *
 * Data is always moved through virtual addresses, so nothing in here decides which bytes are read:
 * a wrong bit makes a count wrong, never a byte. What the table decides is whether an access is a
 * page fault event.
 *
 * A sparse radix tree in the context's segment (AV_ODP_OFFSET), keyed by pages of 4 KiB (whatever
 * the system's page size) of a 47-bit address space: 13 bits root, 11 bits middle, 11 bits leaf, 2
 * bits per page. Pages beyond are never valid. Nodes are made by whoever needs one, in any process,
 * and live as long as the context.
 *
 * Each entry that leads to a leaf also counts the invalidations of the leaf's 8 MiB. The sum over a
 * range is its *stamp*: as long as it stays, nothing of the range has been invalidated. So an
 * invalidation elsewhere does not disturb a fault, as one count for the whole context would.
 *
 * Thread-safety: everything is lock-free, from any thread of any process, and in the listener of
 * odp_notify.c: only av_odp_prepare() takes memory (of the segment); nothing uses the heap of the
 * program.
 */
#ifndef AV_MEMORY_ODP_TABLE_H
#define AV_MEMORY_ODP_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"
#include "device/switches.h"
#include "memory/nodes.h"

#define AV_ODP_LEAF_SHIFT 11
#define AV_ODP_L2_SHIFT	  11
#define AV_ODP_L1_SHIFT	  13
/* Bytes of address space that one leaf covers. */
#define AV_ODP_LEAF_SPAN (1ull << (AV_ODP_LEAF_SHIFT + AV_NODE_PAGE_SHIFT))

/* The root node: what peers need to know beside the table, and its first level. */
struct av_odp_root {
	_Atomic uint32_t
		uffd; /* the owner's userfaultfd, + 1; 0: pages are not watched. See odp_track.h */
	_Atomic uint64_t unmaps; /* events after which a mapping may have lost its registration */
	_Atomic uint64_t l1[1 << AV_ODP_L1_SHIFT] AV_ALIGNED(
		AV_CACHE_LINE); /* offsets of the second level, or 0 */
};

/*
 * Does the device have such a table for that context? With its switch for CAPI on it uses the
 * host's page tables instead: no access is a page fault event, nothing is invalidated, and
 * prefetching has nothing to fill.
 */
static inline bool av_odp_has_table(const struct av_seg *seg)
{
	return !av_switch_on(seg, AV_SWITCH_CAPI);
}

/* The root node, or NULL if there is none yet. */
struct av_odp_root *av_odp_root(const struct av_seg *seg);

/* The same, made if there is none; NULL if there is no room for it. */
struct av_odp_root *av_odp_root_make(struct av_seg *seg);

/* Number of (4 KiB) pages that [addr, addr + len) touches; a range beyond the end of addresses ends
 * there. */
uint64_t av_odp_pages(uint64_t addr, uint64_t len);

/* Number of pages of the range that are not valid for that access; 0: a hit. */
uint64_t av_odp_missing(const struct av_seg *seg, uint64_t addr, uint64_t len, bool write);

/**
 * av_odp_set() - mark the pages of a range valid for reading, and if asked for writing
 *
 * Only where av_odp_prepare() has made nodes; elsewhere nothing happens.
 * Return: number of pages that were not valid for that access before
 */
uint64_t av_odp_set(struct av_seg *seg, uint64_t addr, uint64_t len, bool write);

/**
 * av_odp_clear() - invalidate a range: its stamp changes, then no page of it is valid
 *
 * Visits populated nodes only: the whole address space costs microseconds when little of it is
 * valid. Return: number of pages that were valid
 */
uint64_t av_odp_clear(struct av_seg *seg, uint64_t addr, uint64_t len);

/**
 * av_odp_prepare() - make the nodes for a range and take its stamp
 * @stamp: out, to be given to av_odp_mark()
 *
 * Return: false if some part cannot be recorded (no room, or beyond 47 bits)
 */
AV_MUST_USE bool av_odp_prepare(struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t *stamp);

/* Was nothing of the range invalidated since its stamp was taken? */
bool av_odp_unchanged(const struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t stamp);

/**
 * av_odp_mark() - av_odp_set(), provided that nothing of the range was invalidated since its stamp
 * was taken
 * @fresh: out, number of pages that became valid
 *
 * Return: false if something was (then the range is not valid, and *fresh is 0)
 */
AV_MUST_USE bool av_odp_mark(struct av_seg *seg, uint64_t addr, uint64_t len, bool write,
			     uint64_t stamp, uint64_t *fresh);

#endif
