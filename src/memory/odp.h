/* SPDX-License-Identifier: MIT */
/*
 * On-demand paging: the device page table and its statistics, advice that prefetches pages, the
 * tracking of mappings, and the listener that reads the kernel's reports of pages that went away.
 */
#pragma once

#include "device/device.h"
#include "device/switches.h"
#include "memory/key.h"

/* === odp table =================================================================== */

/*
 * The device page table of a context (docs/ODP.md). A wrong bit falsifies a count, never a byte.
 *
 * A sparse radix tree in the context's segment (AV_ODP_OFFSET), over 4 KiB pages (whatever the
 * system's page size) of a 47-bit address space: 13 bits root, 11 bits middle, 11 bits leaf, 2 bits
 * per page. Pages above are never valid.
 *
 * Lock-free, from any thread of any process, and from the listener. Only av_odp_prepare() and
 * av_odp_root_make() allocate, from the segment; nothing uses the program's heap.
 */

#define AV_ODP_LEAF_SHIFT 11
#define AV_ODP_L2_SHIFT	  11
#define AV_ODP_L1_SHIFT	  13
#define AV_ODP_LEAF_SPAN \
	(1ull << (AV_ODP_LEAF_SHIFT + AV_NODE_PAGE_SHIFT)) /* bytes of address space per leaf */

/* The root node: what peers read, and the first level of the tree. */
struct av_odp_root {
	_Atomic uint32_t uffd;	 /* the owner's userfaultfd + 1; 0: no mapping is tracked */
	_Atomic uint64_t unmaps; /* number of events that may have ended a registration */
	/* Offsets of second-level nodes; 0: none. */
	_Atomic uint64_t l1[1 << AV_ODP_L1_SHIFT] AV_ALIGNED(AV_CACHE_LINE);
};

/* False with the CAPI switch on: the host's page tables serve, so no faults, no invalidations. */
static inline bool av_odp_has_table(const struct av_seg *seg)
{
	return !av_switch_on(seg, AV_SWITCH_CAPI);
}

struct av_odp_root *av_odp_root(const struct av_seg *seg);

/* The root node, created if there is none. NULL: no room. */
struct av_odp_root *av_odp_root_make(struct av_seg *seg);

/* Number of (4 KiB) pages that a range touches, clipped at the end of the address space. */
uint64_t av_odp_pages(uint64_t addr, uint64_t len);

/* Number of pages in the range that are valid for reading (@write: and writing). */
uint64_t av_odp_valid(const struct av_seg *seg, uint64_t addr, uint64_t len, bool write);

/* Make pages valid for reading (@write: and writing), where nodes exist. Return: newly valid */
uint64_t av_odp_set(struct av_seg *seg, uint64_t addr, uint64_t len, bool write);

/* Change the stamp, then make the range's pages invalid. Existing nodes only. Return: were valid */
uint64_t av_odp_clear(struct av_seg *seg, uint64_t addr, uint64_t len);

/* Create a range's nodes, read its stamp. Return: false: a part has no room, or is above 47 bits */
AV_MUST_USE bool av_odp_prepare(struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t *stamp);

/* Is the range free of invalidations since @stamp was read? */
bool av_odp_unchanged(const struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t stamp);

/*
 * av_odp_set(), unless something of the range was invalidated since @stamp was read. @fresh: out,
 * pages that became valid. Return: false: it was invalidated, and no page has become valid
 */
AV_MUST_USE bool av_odp_mark(struct av_seg *seg, uint64_t addr, uint64_t len, bool write,
			     uint64_t stamp, uint64_t *fresh);

/*
 * ODP statistics, as mlx5 shows them below /sys/class/infiniband_verbs/uverbsN/ (standard) and
 * /sys/kernel/debug/mlx5/ID/odp_stats/ (debug): totals over all processes. The counters are in the
 * directory, one block per device (struct av_seg.odp); the gauges are per context
 * (av_seg.odp_gauge). A reader adds up living contexts, and the pages in use of implicit regions.
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
	AV_ODP_COUNT_MRS,      /* gauge, too */
	AV_ODP_COUNTER_N
};

struct av_odp_counters {
	_Atomic uint64_t value[AV_ODP_COUNTER_N]; /* 0 for gauges */
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
 * Add @n to a counter (not a gauge) of the segment's device and context. Any thread of any process;
 * never blocks. A release: who sees an event also sees the pages counted before it.
 */
static inline void av_odp_count(const struct av_seg *seg, enum av_odp_counter which, uint64_t n)
{
	if (!seg->odp || !n)
		return;
	atomic_fetch_add_explicit(&seg->odp->value[which], n, memory_order_release);
	atomic_fetch_add_explicit(&seg->head->counter[which], n, memory_order_release);
}

/* An ODP region, which counts no pages if it is implicit, was registered (1) or ended (-1). */
void av_odp_region_gauge(struct av_seg *seg, uint64_t addr, uint64_t len, int n);

/*
 * Read all statistics of @device, with every invalidation whose system call has returned. Opens
 * files, but does not join the directory.
 * Context: any thread; no lock held; waits AV_PEER_TIMEOUT_NS at most for each context's listener.
 */
void av_odp_report(const char *device, uint64_t value[AV_ODP_COUNTER_N]);

/*
 * Every access of the device to ODP memory goes between av_odp_begin() and av_odp_end(), which find
 * out whether it is a page fault event, and settle it. A hit costs a few loads. Nothing is held in
 * between. If the copy's other end fails, do not call av_odp_end(): the access does not count.
 */

/*
 * A message of several packets. Each packet's bytes are an access, but all accesses to one run of
 * memory are one page fault event. All zero at the beginning of a message.
 */
struct av_odp_message {
	uint64_t next; /* address behind the last access: an access there continues its run */
	bool counted;  /* the run has had its event */
};

struct av_odp_access {
	struct av_seg *seg; /* the owner of the memory; borrowed */
	uint64_t addr, len;
	uint64_t missing; /* pages that are invalid for this access; 0: a hit */
	uint64_t stamp;	  /* stamp of the range */
	bool write;
	bool markable;			/* the range has its place in the table */
	bool steady;			/* the whole range was mapped at the lookup */
	struct av_odp_message *message; /* NULL: the access is the whole transfer */
};

/*
 * Look up the pages of an access to the address space of @seg's owner, whichever process moves the
 * bytes. @message: that these bytes are a part of, or NULL.
 * Context: any thread; holds no lock that others spin on, but may hold queue pair locks. Waits a
 * bounded time for the owner's listener. A miss makes system calls.
 */
void av_odp_begin(struct av_seg *seg, uint64_t addr, uint64_t len, bool write,
		  struct av_odp_message *message, struct av_odp_access *access);

/*
 * The access is over. @ok: all bytes were moved; else this memory failed. A miss is a page fault
 * event: with @ok the pages become valid, unless they were invalidated meanwhile. A failed hit is
 * one that could not be resolved: some invalidations go unreported (docs/ODP.md).
 */
void av_odp_end(const struct av_odp_access *access, bool ok);

/* === missing ===================================================================== */

/*
 * Note in the pending record why EFAULT will be returned: the first page of own memory that is not
 * mapped, lacks the right, or is not accessible, and what /proc/self/maps says of it. For records
 * only. Return: false: no such page is found, and nothing is noted
 * Context: no lock held; reads the mappings, may populate pages. No heap; changes errno.
 */
AV_COLD bool av_missing_note(uint64_t addr, uint64_t bytes, bool writable);

/* === odp prefetch ================================================================ */

/* ibv_advise_mr(3): makes pages valid for the device before an access, now or later. */

struct av_odp_range {
	uint64_t addr;	 /* in this process */
	uint64_t length; /* bytes; 0: no effect; AV_ODP_NOWHERE: fails like unmapped memory */
};
#define AV_ODP_NOWHERE UINT64_MAX

/*
 * Carry out one advice for @count ranges (copied) of an own context. The caller has checked keys,
 * protection domain, access, bounds and @advice: PREFETCH populates pages and makes them valid for
 * reading; PREFETCH_WRITE, for reading and writing; PREFETCH_NO_FAULT makes present pages valid for
 * reading, and populates none. @flush: finish before returning. Otherwise a thread does it: its
 * failures are not reported, and a range that fails does not end the others. If there is no thread,
 * or its queue is full, the caller does it. No effect without av_odp_has_table().
 * Context: any thread; no lock held. With @flush, or if the queue is full, waits for pages. No
 * cancellation point; keeps errno.
 * Return: 0; EFAULT (with @flush: a part of a range is unmapped or lacks these rights; earlier
 * ranges stay prefetched, later ones are not tried); ENOMEM (for the pages, or for the queued job)
 * Source: ibv_advise_mr(3). num_prefetchs_handled counts calls whose ranges all succeeded.
 */
AV_MUST_USE int av_odp_advise(struct av_seg *seg, const struct av_odp_range *range, uint32_t count,
			      enum ib_uverbs_advise_mr_advice advice, bool flush);

/*
 * Wait until all advice is done that an own context has queued so far. Call it before an ODP region
 * ends or moves, since its advice would make pages valid that no region covers; and before
 * av_odp_notify_end(). Others may queue advice meanwhile.
 * Context: waits for pages; no lock held. In a forked child, inherited contexts have none queued.
 */
void av_odp_quiesce(struct av_seg *seg);

/* === odp track =================================================================== */

/*
 * Wait until the table of @seg reflects every invalidation that a thread could have noticed: 1 s at
 * most for an own segment, 10 ms for a peer's, since a stopped owner must not stop its peers.
 */
void av_odp_settle(const struct av_seg *seg);

/*
 * The same for a reader of statistics, who waits AV_PEER_TIMEOUT_NS at most for an owner without a
 * core. Any segment, also a view. Context: no lock held.
 */
void av_odp_settle_to_read(const struct av_seg *seg);

/*
 * Wait until the listener has recorded every unmapping that has taken effect: the kernel frees
 * addresses before it reports them. Then a new report concerns what is mapped now.
 * Context: any thread of the owner but the listener; a system call, bounded waiting; keeps errno.
 */
void av_odp_barrier(void);

/*
 * madvise() is about to discard this range of the program's memory. The kernel reports each mapping
 * separately; the listener treats the first report as the whole range, so that one call is one
 * invalidation. @call: what av_odp_discard_begin() returned.
 * Context: any thread, also in a signal handler; no lock.
 */
uint32_t av_odp_discard_begin(uint64_t addr, uint64_t len);
void av_odp_discard_end(uint32_t call);

/* Invalidation: pages leave a context's device page table, and are counted. No byte is lost. */

/* Invalidate a range. Any thread of any process, and the listener; takes no lock. */
void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len);

struct av_odp_eviction {
	uint32_t pages; /* pages per region, picked by @chance; UINT32_MAX: all */
	uint64_t (*chance)(void *arg, uint64_t below);
	void *arg;
	uint32_t key; /* only the region with this key; 0: every region */
};

/*
 * Evict pages of an own context's ODP regions, all of implicit ones, as the kernel does when it
 * needs memory. Context: any thread of the owner; takes no lock.
 */
void av_odp_evict(struct av_seg *seg, const struct av_odp_eviction *how);

/*
 * Track the mappings in a range of the owner's address space, whole ones: docs/ODP.md. A mapping
 * that cannot be tracked is skipped, and its invalidations go unnoticed.
 *
 * Call it between av_odp_prepare() and the access: a change before the access that is not tracked
 * needs no report, since the access itself meets the new mapping.
 * Context: any thread of any process, before an access that will make pages valid; holds no lock
 * that others spin on. System calls unless this thread has tracked the range lately. No
 * cancellation point; keeps errno.
 * Return: false: a part of the range was unmapped, or its mappings kept changing. If the access
 * succeeds nevertheless, a mapping is untracked: make no page valid. The next access tries again.
 */
AV_MUST_USE bool av_odp_track(struct av_seg *seg, uint64_t addr, uint64_t len);

/*
 * Stop tracking a range of own memory that is about to be replaced in one step by other memory with
 * the same bytes, which the listener is not to take for an unmapping. Threads may track it again
 * meanwhile. av_odp_retrack() tracks it again, and waits for the listener's round.
 * Context: one thread of the owner at a time.
 */
void av_odp_untrack(uint64_t addr, uint64_t len);
void av_odp_retrack(uint64_t addr, uint64_t len);

/* The program registers this range with its own userfaultfd: stop tracking. Any thread; no lock. */
void av_odp_release(uint64_t addr, uint64_t len);

/* Is the range, just tracked, in one private anonymous mapping? Then it is safe to touch. */
bool av_odp_is_plain(const struct av_seg *seg, uint64_t addr, uint64_t len);

/* === odp notify ================================================================== */

/*
 * The listener (docs/ODP.md): one userfaultfd and one thread per process read which pages the
 * kernel takes away, and invalidate these in the process's contexts.
 */

/*
 * Watch invalidations for an own context: before its first ODP region exists, or for unmappings
 * under its first other region. The process's first tracked context opens the descriptor and starts
 * the thread. If the kernel refuses, nothing is tracked (docs/ODP.md): invalidations are not
 * counted, and unmappings under a region go unnoticed.
 * Context: any thread; uses the heap; holds no lock of the data path; keeps errno.
 */
void av_odp_notify_begin(struct av_seg *seg);

/*
 * An own context is being closed, and no access to it is under way. The last one stops the thread
 * and closes the descriptor, which cancels every registration. Contexts not tracked, or inherited
 * by fork(), are ignored.
 * Context: any thread but the listener; waits while the listener handles one batch of events.
 */
void av_odp_notify_end(struct av_seg *seg);
