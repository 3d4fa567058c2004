/* SPDX-License-Identifier: MIT */
/* Memory on demand: its pages, advice on them, and who tells that they went away. */
#ifndef AV_MEMORY_ODP_H
#define AV_MEMORY_ODP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "device/device.h"
#include "memory/key.h"
#include "segment/segment.h"

/* === odp table =================================================================== */

/* Which pages the device may access without a fault, and what an access to others does. */

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

/* === missing ===================================================================== */

/* Which page of a range is not as it should be, and what is there instead? For records only. */

/*
 * Note in the pending record why EFAULT is about to be the answer: the first page of own memory
 * that is not mapped, lacks the right, or cannot be had, and what /proc/self/maps says of it. Reads
 * the list of mappings, and may populate pages. No heap; changes errno. Context: no lock is held.
 * Return: false: no such page is found, and nothing is noted
 */
AV_COLD bool av_missing_note(uint64_t addr, uint64_t bytes, bool writable);

/* === odp prefetch ================================================================ */

/* ibv_advise_mr(3): makes pages valid for the device before they are accessed, now or later. */

struct av_odp_range {
	uint64_t addr;	 /* in this process */
	uint64_t length; /* bytes; 0: nothing to do; AV_ODP_NOWHERE: fails like unmapped memory */
};
#define AV_ODP_NOWHERE UINT64_MAX

/*
 * Carry out one advice for @count ranges (copied) of an own context. @advice: PREFETCH populates
 * pages and makes them valid for reading, PREFETCH_WRITE also for writing; PREFETCH_NO_FAULT makes
 * present pages valid for reading, and populates none. @flush: finish before returning; otherwise a
 * thread does it, nobody sees its failures, and they keep no other range from being prefetched.
 * Does nothing without a page table of the device's own (av_odp_has_table()).
 *
 * The caller has checked keys, protection domain, access, bounds and @advice.
 * Context: any thread; no lock held. With @flush, or if the queue is full, waits for pages.
 * Return: 0; EFAULT (with @flush: part of a range is unmapped or lacks these rights; earlier ranges
 * stay prefetched, later ones are not looked at); ENOMEM (for the pages, or the queued job)
 * Source: ibv_advise_mr(3). num_prefetchs_handled counts calls whose ranges all succeeded.
 */
AV_MUST_USE int av_odp_advise(struct av_seg *seg, const struct av_odp_range *range, uint32_t count,
			      enum ib_uverbs_advise_mr_advice advice, bool flush);

/*
 * Wait until all advice has been followed that an own context has queued up to now: before an ODP
 * region ends or moves (its advice would make pages valid that no region covers), and before
 * av_odp_unwatch(). Others may go on giving advice.
 * Context: waits for pages; no lock held. In a forked child, inherited contexts have none.
 */
void av_odp_quiesce(struct av_seg *seg);

/* === odp track =================================================================== */

/*
 * Pages that may go away under the device: who tracks them, and what the listener shares with
 * those who wait for it.
 */

/* What the listener (odp_notify.h) shares with those who wait for it: no lock and no heap. */

/* The userfaultfd of this process, or -1. Valid while a watched context is open. */
int av_odp_uffd(void);

void av_odp_settle_wait(const struct av_seg *seg, uint64_t seq);

/*
 * Wait until the table of @seg reflects every invalidation that a thread could have noticed.
 * Bounded: a stopped owner must not stop its peers. Nearly always a single load.
 */
static inline void av_odp_settle(const struct av_seg *seg)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire);

	if (av_unlikely(seq & 1))
		av_odp_settle_wait(seg, seq);
}

/*
 * The same for who reads statistics: waits longer for an owner that has no core. Any segment, also
 * a view. Context: no lock held; AV_PATIENCE_NS at most.
 */
void av_odp_settle_to_read(const struct av_seg *seg);

/*
 * Wait until every unmapping that has taken effect is recorded: the kernel frees addresses before
 * it reports that. A report that comes after the return concerns what is mapped now.
 * Context: any thread of the owner, not the listener; a system call and bounded waiting.
 */
void av_odp_barrier(void);

/*
 * madvise() is about to discard this range of the program's memory. The kernel reports each mapping
 * by itself; the listener takes the first report for the whole range, so that one call is one
 * invalidation. Also in a signal handler; no lock. Return: to be given to av_odp_discard_end()
 */
uint32_t av_odp_discard_begin(uint64_t addr, uint64_t len);
void av_odp_discard_end(uint32_t call);

/*
 * The mover (memory/region.h) is about to replace the memory at exactly this range by other
 * memory with the same bytes. If somebody has registered the range again meanwhile, the kernel
 * reports an unmapping, which the listener ignores until av_odp_expect_end(), which waits for it.
 */
void av_odp_expect(uint64_t addr, uint64_t len);
void av_odp_expect_end(void);

/* Make threads forget which mappings they saw watched, in all own contexts. */
void av_odp_forget_seen(void);

/* --- for odp_notify.c ------------------------------------------------------------ */

void av_odp_uffd_set(int fd);

void av_odp_uffd_forked(void);

/* The listener begins or ends a round, in which it may use contexts. */
void av_odp_round_begin(void);
void av_odp_round_end(void);

bool av_odp_is_expected(uint64_t begin, uint64_t end);

/* Widen the range of a report to that of the call that it is a part of. */
void av_odp_discarded_by(uint64_t *begin, uint64_t *end);

/* Iterate over the contexts. Entries may be NULL. */
uint32_t av_odp_context_slots(void);
struct av_seg *av_odp_context_at(uint32_t slot);

/* One such call at a time. false: no room. A removed context is no longer used by the listener. */
AV_MUST_USE bool av_odp_context_add(struct av_seg *seg);
void av_odp_context_remove(const struct av_seg *seg);
bool av_odp_context_has(const struct av_seg *seg);

/* Pages that go away from a device's page table, and those that may. */

/* Takes pages out of a context's device page table, and counts that. No byte is lost. */

/* Invalidate a range. Any process, any thread; takes no lock. */
void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len);

struct av_odp_eviction {
	uint32_t pages; /* pages per region, chosen by @chance; UINT32_MAX: all */
	uint64_t (*chance)(void *arg, uint64_t below);
	void *arg;
	uint32_t key; /* only the region with this key; 0: every region */
};

/*
 * Invalidate pages of an own context's ODP regions, as the kernel does when it needs memory;
 * implicit ones entirely. Any thread of the owner; takes locks of keys, one at a time.
 */
void av_odp_evict(struct av_seg *seg, const struct av_odp_eviction *how);

/*
 * Decides which memory is watched: every mapping of which the device holds a page, as a whole, from
 * just before its first page becomes valid. Watching a part would split the mapping: one mapping
 * per faulted page, of the 65530 that a process may have, and huge pages broken at the seams.
 *
 * A peer that resolves a fault does the same from outside. It borrows the owner's descriptor by
 * pidfd_getfd(2), which needs the same permission as the process_vm_writev(2) that moves the bytes.
 * So a page is watched before it becomes valid, whoever makes it valid, and nothing is asked of the
 * owner.
 */

/*
 * Have the mappings in a range of the owner's address space watched. What cannot be (no
 * userfaultfd, the program's own one on it, a mapping that the kernel refuses) is left alone; its
 * invalidations go unnoticed.
 *
 * Call it between av_odp_prepare() and the access. The listener changes @unmaps, which guards what
 * threads remember, before it changes the stamp: whoever has a stamp from after an invalidation
 * does not believe what was remembered before it. And an unwatched change before the access is seen
 * by the access itself.
 *
 * Context: any thread of any process, before an access that will make pages valid; hold no lock
 * that others spin on. System calls unless the range was handled lately. No cancellation point;
 * preserves errno.
 * Return: false if part of the range was unmapped. If the access succeeds nevertheless, an
 * unwatched mapping has appeared: do not make the pages valid; the next access tries again.
 */
AV_MUST_USE bool av_odp_track(struct av_seg *seg, uint64_t addr, uint64_t len);

/*
 * Stop watching a range of own memory that is about to be exchanged in one step: nobody is to hear
 * of that as an unmapping. Threads may watch it again meanwhile. av_odp_retrack() watches it again
 * and makes threads forget what they remembered of it. Its context may have been closed since:
 * others may watch the range, too.
 * Context: any thread of the owner; moving (memory/region.h).
 */
void av_odp_untrack(uint64_t addr, uint64_t len);
void av_odp_retrack(struct av_seg *seg, uint64_t addr, uint64_t len);

/* The program is to have a range of its memory watched by itself. Context: any thread; no lock. */
void av_odp_release(uint64_t addr, uint64_t len);

/* Is the range, just tracked, one mapping of private anonymous memory, safe to touch? */
bool av_odp_is_plain(const struct av_seg *seg, uint64_t addr, uint64_t len);

/* === odp notify ================================================================== */

/*
 * The kernel's reports that pages went away. One userfaultfd and one thread per process clear what
 * was invalidated from the device page tables of this process's contexts.
 *
 * Only events are asked for (unmap, remap, remove): ranges (odp_track.h) are registered for write
 * protection, which is never enabled, so no fault of the program is delayed.
 *
 * A thread that unmaps continues as soon as its event has been *read*, and must never see a page
 * table that does not yet know. So the listener makes odp_seq of every context odd before it reads
 * and even when the tables are up to date, and accesses wait for that (av_odp_settle(),
 * odp_track.h).
 */

/*
 * Watch invalidations for an own context, before its first ODP region exists. The first context of
 * a process opens the descriptor and starts the thread. If the kernel refuses, nothing is watched
 * (docs/ODP.md); only counters show the difference.
 * Context: any thread; uses the heap; hold no lock of the data path.
 */
void av_odp_watch(struct av_seg *seg);

/*
 * An own context is being closed; no access to it is under way. The last one ends the thread and
 * closes the descriptor, which cancels every registration. Contexts that are not watched, also
 * those inherited by fork(), are ignored.
 * Context: any thread, not the listener; waits while it handles one batch of events.
 */
void av_odp_unwatch(struct av_seg *seg);

#endif
