/* SPDX-License-Identifier: MIT */
/*
 * The device page table of a context: for which pages of the owner's address space does the device
 * hold a valid translation, for reading and for writing? Data always moves through virtual
 * addresses: a wrong bit falsifies a count (was this access a page fault event?), never a byte.
 *
 * A sparse radix tree in the context's segment (AV_ODP_OFFSET), over 4 KiB pages (whatever the
 * system's page size) of a 47-bit address space: 13 bits root, 11 bits middle, 11 bits leaf, 2 bits
 * per page. Pages beyond are never valid.
 *
 * Each entry that leads to a leaf also counts the invalidations of the leaf's 8 MiB. The sum over a
 * range is its *stamp*: while it is unchanged, nothing of the range has been invalidated, whatever
 * happens elsewhere.
 *
 * Lock-free, from any thread of any process, and from the listener of odp_notify.c. Only
 * av_odp_prepare() takes memory, from the segment; nothing uses the program's heap.
 */
#ifndef AV_MEMORY_ODP_TABLE_H
#define AV_MEMORY_ODP_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "device/switches.h"
#include "memory/region_count.h"
#include "segment/segment.h"

#define AV_ODP_LEAF_SHIFT 11
#define AV_ODP_L2_SHIFT	  11
#define AV_ODP_L1_SHIFT	  13
#define AV_ODP_LEAF_SPAN \
	(1ull << (AV_ODP_LEAF_SHIFT + AV_NODE_PAGE_SHIFT)) /* bytes of address space per leaf */

/* The root node: what peers need to know, and the first level of the tree. */
struct av_odp_root {
	_Atomic uint32_t uffd;	 /* the owner's userfaultfd + 1; 0: pages are not watched */
	_Atomic uint64_t unmaps; /* events after which a mapping may be registered no more */
	/* Offsets of second-level nodes; 0: none. */
	_Atomic uint64_t l1[1 << AV_ODP_L1_SHIFT] AV_ALIGNED(AV_CACHE_LINE);
};

/* With its CAPI switch on, the device uses the host's page tables: no faults, no invalidations. */
static inline bool av_odp_has_table(const struct av_seg *seg)
{
	return !av_switch_on(seg, AV_SWITCH_CAPI);
}

struct av_odp_root *av_odp_root(const struct av_seg *seg);

/* The root node; made: created if needed. NULL: there is none, or no room. */
struct av_odp_root *av_odp_root_make(struct av_seg *seg);

/* Number of (4 KiB) pages that a range touches, cut at the end of the address space. */
uint64_t av_odp_pages(uint64_t addr, uint64_t len);

/* Number of pages in the range that are valid for reading. */
uint64_t av_odp_valid(const struct av_seg *seg, uint64_t addr, uint64_t len);

/* Number of pages in the range that are not valid for this access; 0: a hit. */
uint64_t av_odp_missing(const struct av_seg *seg, uint64_t addr, uint64_t len, bool write);

/*
 * Mark pages, where nodes exist, valid for reading (@write: and writing). Return: newly valid ones.
 */
uint64_t av_odp_set(struct av_seg *seg, uint64_t addr, uint64_t len, bool write);

/* The stamp changes, then no page is valid. Visits existing nodes only. Return: pages that were. */
uint64_t av_odp_clear(struct av_seg *seg, uint64_t addr, uint64_t len);

/*
 * Create nodes and take the stamp. Return: false: part cannot be recorded (no room, beyond 47
 * bits).
 */
AV_MUST_USE bool av_odp_prepare(struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t *stamp);

/* Is the range free of invalidations since its stamp was taken? */
bool av_odp_unchanged(const struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t stamp);

/*
 * av_odp_set(), unless something was invalidated since the stamp: then false, and none is marked.
 * @fresh: out, pages that became valid.
 */
AV_MUST_USE bool av_odp_mark(struct av_seg *seg, uint64_t addr, uint64_t len, bool write,
			     uint64_t stamp, uint64_t *fresh);

/* Implicit regions: how much of the whole address space does the device use by them? */

/*
 * The pages in use of a context's implicit regions: those that are valid in the device's table and
 * in no other on-demand region, which counts its own pages, valid or not. 0 without an implicit
 * region. The table is read, and nothing else counted: it cannot differ from what is valid.
 * Context: any thread of any process; @seg may be a view. Uses the heap; without memory the answer
 * is 0.
 */
uint64_t av_odp_implicit_pages(const struct av_seg *seg);

#endif
