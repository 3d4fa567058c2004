/* SPDX-License-Identifier: MIT */
/* Which pages the device may access without a fault, and what an access to others does. */
#ifndef AV_MEMORY_ODP_TABLE_H
#define AV_MEMORY_ODP_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "device/switches.h"
#include "memory/region_count.h"
#include "segment/segment.h"

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

/* What an access to pages on demand faults in, and what is counted. */

/*
 * ODP statistics, as mlx5 shows them below /sys/class/infiniband_verbs/uverbsN/ (standard) and
 * /sys/kernel/debug/mlx5/ID/odp_stats/ (debug): totals over all processes.
 *
 * The counters live in the directory, one block per device (struct av_seg.odp). The two gauges are
 * per context (struct av_seg.odp_gauge): readers add up the living contexts, and the pages that
 * implicit regions use (odp_table.h).
 */

enum av_odp_counter {
	AV_ODP_COUNT_CONTENTIONS,
	AV_ODP_COUNT_INVALIDATION_PAGES,
	AV_ODP_COUNT_INVALIDATIONS,
	AV_ODP_COUNT_FAULT_PAGES,
	AV_ODP_COUNT_FAULTS,
	AV_ODP_COUNT_PREFETCHES,
	AV_ODP_COUNT_PREFETCH_PAGES,
	AV_ODP_COUNT_FAILED_RESOLUTIONS,
	AV_ODP_COUNT_MRS_NOT_FOUND,
	AV_ODP_COUNT_MR_PAGES, /* gauge: not in struct av_odp_counters */
	AV_ODP_COUNT_MRS,      /* gauge: likewise */
	AV_ODP_COUNTER_N
};

struct av_odp_counters {
	_Atomic uint64_t value[AV_ODP_COUNTER_N]; /* those of gauges stay 0 */
};

struct av_odp_gauge {
	_Atomic uint64_t regions;
	_Atomic uint64_t pages;
};

struct av_odp_counter_info {
	const char *name; /* name of the file */
	const char *unit;
	const char *help;
	bool debug; /* one of the debug statistics */
	bool gauge;
};

/* By enum av_odp_counter, in the documented order. */
extern const struct av_odp_counter_info av_odp_counter_info[AV_ODP_COUNTER_N];

/*
 * Add @n to a counter (not a gauge) of the segment's device and context. Any process, any thread,
 * never blocks. Release: a reader that sees an event also sees the pages counted before it.
 */
static inline void av_odp_count(const struct av_seg *seg, enum av_odp_counter which, uint64_t n)
{
	if (!seg->odp || !n)
		return;
	atomic_fetch_add_explicit(&seg->odp->value[which], n, memory_order_release);
	atomic_fetch_add_explicit(&seg->head->counter[which], n, memory_order_release);
}

/* An ODP region of @pages pages (implicit: 0) was registered in the own context @seg, or ended. */
void av_odp_region_added(struct av_seg *seg, uint64_t pages);
void av_odp_region_removed(struct av_seg *seg, uint64_t pages);

/*
 * All statistics of @device now: every invalidation is in them whose call has returned. Opens files
 * but joins nothing. Waits for processes that are counting, AV_PATIENCE_NS at most for each. Any
 * thread, no lock held.
 */
void av_odp_report(const char *device, uint64_t value[AV_ODP_COUNTER_N]);

/*
 * Wraps an access of the device to ODP memory: decides whether it is a page fault event, and
 * settles it.
 *
 *     av_odp_begin(seg, addr, len, write, &access);
 *     ok = copy the bytes, by whatever way;
 *     av_odp_end(&access, ok);
 *
 * A hit costs a few loads, and end() one comparison. Nothing is held in between. An access that is
 * given up for another reason is not ended, and counts as none.
 */

/*
 * A message that comes, or goes, in several packets: each packet's bytes are an access of their
 * own, but those to one run of memory are one page fault event together. All zero at the
 * beginning of a message.
 */
struct av_odp_message {
	uint64_t next; /* the address behind the last access: one from there on continues it */
	bool counted;  /* its run of memory has had its event */
};

struct av_odp_access {
	struct av_seg *seg; /* the owner of the memory; borrowed */
	uint64_t addr, len;
	uint64_t missing; /* pages that are invalid for this access; 0: a hit */
	uint64_t stamp;	  /* stamp of the range, see odp_table.h */
	bool write;
	bool markable;			/* the table has room for the range */
	bool steady;			/* the whole range was mapped when looked at */
	struct av_odp_message *message; /* of a part of a message; NULL: it is all of a transfer */
};

/*
 * Look up the pages of an access to the address space of @seg's owner, whichever process moves the
 * bytes. @message: NULL, or that of which these bytes are a part
 * Context: any thread; hold no lock that others spin on (execution rights are fine). A miss makes
 * system calls.
 */
void av_odp_begin(struct av_seg *seg, uint64_t addr, uint64_t len, bool write,
		  struct av_odp_message *message, struct av_odp_access *access);

/* The slow part of av_odp_end(). */
void av_odp_end_fault(const struct av_odp_access *access, bool ok);

/*
 * The access has been made. @ok: all bytes were moved; false: this memory failed.
 * A miss was a page fault event: its pages become valid unless they were invalidated meanwhile. A
 * hit that failed is an event that could not be resolved: the kernel does not report every
 * invalidation (docs/ODP.md).
 */
static inline void av_odp_end(const struct av_odp_access *access, bool ok)
{
	if (av_unlikely(access->missing || !ok))
		av_odp_end_fault(access, ok);
	if (av_unlikely(access->message != NULL))
		access->message->next = access->addr + access->len;
}

#endif
