/* SPDX-License-Identifier: MIT */
/*
 * What each key of a context stands for, and who uses it; memory windows; what was unmapped under a
 * region; the memory behind a region that peers map; what a region counts.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/newer_verbs.h"
#include "observe/check.h"
#include "observe/counters.h"
#include "segment/pages.h"
#include "segment/segment.h"

/* === key ========================================================================= */

/*
 * A key pin says: "a process is using this key". A pinned key keeps its entry, and what that leads
 * to. A user claims one of the target segment's pin words, then looks the key up. Whoever ends or
 * changes a key withdraws it, then waits until no pin names it, with a full barrier on both sides.
 * Whoever waits clears the words of dead users.
 */

/* The word this thread tries first, in every segment; mostly no other uses it. 0: none chosen. */
extern _Thread_local uint32_t av_pin_place AV_TLS_FAST;

/* The slow path of av_pin_begin(): the word is taken, or not chosen yet. */
struct av_pin *av_pin_search(struct av_seg *seg, uint64_t word);

/*
 * Pin @key of @seg: a full barrier, no later read is performed before it. Any thread; never waits.
 * Return: the word, for av_pin_end(); NULL: all AV_PINS words are taken. Then the caller ends its
 * own pins and retries later: another thread may wait for those pins.
 */
AV_MUST_USE struct av_pin *av_pin_begin(struct av_seg *seg, uint32_t key);

/* End the use. NULL is ignored. */
void av_pin_end(struct av_pin *pin);

/*
 * Wait until nobody uses @key of @seg, which the caller has withdrawn, or has made all users back
 * off from. The wait for this process's own copies, in an own segment, has no limit. That for
 * others ends after AV_PEER_TIMEOUT_NS: a peer may be stopped, a word may be corrupt.
 * Context: may wait as long as a copy takes; no lock and no pin held.
 * Return: false: a process still uses the key
 */
bool av_pin_drain(struct av_seg *seg, uint32_t key);

/* Does a living process use @key of the own context @seg? Does not wait. Clears dead ones' pins. */
bool av_pin_is_held(struct av_seg *seg, uint32_t key);

/* The same, but the wait for others ends after AV_STOPPED_NS. */
AV_MUST_USE bool av_pin_try_drain(struct av_seg *seg, uint32_t key);

/*
 * av_pin_drain() for each key of an own context that is @chosen. The wait ends after AV_STOPPED_NS
 * if a process that uses one is seen to be stopped. Calls with the same @until share one deadline;
 * 0 before the first.
 */
typedef bool av_pin_chosen(struct av_seg *seg, uint32_t key, const void *arg);
AV_MUST_USE bool av_pin_drain_chosen(struct av_seg *seg, av_pin_chosen *chosen, const void *arg,
				     uint64_t *until);

/* Is the thread, or the process's first one, stopped by a signal or a debugger? Opens a file. */
bool av_thread_is_stopped(pid_t tid);

/*
 * The key table of a context, in its segment: what each lkey and rkey stands for. So a peer checks
 * an rkey without its owner. A key is index << 8 | tag. Each reuse of an index changes its tag, and
 * freed indices are reused late: stale keys are refused. 0, 0xffffffff and 0xdeadbeef are no keys.
 */

/* An RDMA WRITE's payload is atomic commands: transport/execution.h. Plain verbs refuse this. */
#define AV_ACCESS_TUNNELED (1u << 31)

enum av_key_kind {
	AV_KEY_NONE,
	AV_KEY_REGION,	 /* memory of the owner's address space; @addr: virtual address */
	AV_KEY_ODP,	 /* as AV_KEY_REGION, but ODP */
	AV_KEY_DEVICE,	 /* device memory; @addr: offset in a segment */
	AV_KEY_NULL,	 /* no memory: reads return zeros, writes are discarded; local use only */
	AV_KEY_DM_BLOCK, /* device memory, for import by handle; no usable key; @addr as above */
	AV_KEY_PAGES,	 /* pages that the library allocated; @addr: offset in @intact's segment */
	AV_KEY_MAPPED,	 /* the same for the program's own loads and stores only; no usable key */
	AV_KEY_UMR,	 /* parts of other keys: memory/translate.h; @addr: offset of the list */
	AV_KEY_WINDOW,	 /* a window onto a region, for remote use; @addr, @under: the region's */
};

struct av_key;
struct av_mem_request;
struct av_span;

enum av_kind_is {
	AV_KIND_LOCAL = 1,     /* usable as lkey */
	AV_KIND_REMOTE = 2,    /* usable as rkey */
	AV_KIND_BOUNDED = 4,   /* accesses stay in its range */
	AV_KIND_PROGRAM = 8,   /* memory of the owner's address space, at @addr of the key */
	AV_KIND_BINDABLE = 16, /* windows may be bound to it */
	AV_KIND_REPLACED = 32, /* accesses are refused while it changes; else they retry */
};

/* What makes a kind of key: memory/key_kind.c has a row for each. */
struct av_kind {
	uint8_t is;	/* enum av_kind_is */
	uint8_t memory; /* enum av_region_memory; AV_REGION_MEMORY_N: no region */
	/*
	 * Where the bytes are, seen from this process; for a window, the row of its region. In:
	 * @seg, @length, and @addr as an offset from the key's. Context: as av_mem_get().
	 */
	enum av_check (*locate)(struct av_seg *seg, struct av_key *k,
				const struct av_mem_request *req, struct av_span *span);
	/*
	 * Can a stopped peer's copy by the key be kept from the program's memory? @leads_to: offset
	 * of the segment's memory that the key leads to; 0: none. NULL: no
	 */
	bool (*defer)(struct av_seg *seg, const struct av_key *k, uint64_t *leads_to);
	/* An access named a key of this kind that has ended. NULL: nothing to do */
	void (*not_found)(struct av_seg *seg);
};

/* The row of any number: a peer may have written it. */
const struct av_kind *av_kind_of(uint8_t kind);

/*
 * Fields but @key, @lock, @windows, @imported, @intact and @held change only while @key is 0 and
 * its pins are drained. Whoever has pinned a key and finds it here may read them until it unpins.
 */
struct av_key {
	_Atomic uint32_t key;  /* 0: no key, a withdrawn key, or an unbound window */
	_Atomic uint32_t held; /* the key while its region exists, also while the region changes */
	struct av_lock lock;   /* held to bind, fill, invalidate, re-register and deregister */
	uint32_t pd;	       /* handle of the protection domain */
	uint32_t access;       /* enum ibv_access_flags and AV_ACCESS_TUNNELED */
	_Atomic uint8_t kind;  /* enum av_key_kind; also read while the key is withdrawn */
	union {
		uint8_t under;	    /* window: the kind of its region */
		uint8_t was_region; /* ended: av_key_create() may give its number to a region */
	};
	uint8_t tag; /* last tag used; the owner's */
	union {
		uint8_t window_type; /* enum ibv_mw_type, or AV_WINDOW_RKEY */
		uint8_t in_origin;   /* device memory: it is in the exporting context's segment */
		uint8_t imported; /* device memory block: was imported at least once; under @lock */
		uint8_t share;	  /* pages: AV_SHARED and the rights, memory/region.h; plain memory:
				     AV_KEY_PRIVATE, AV_KEY_HUGETLB, AV_KEY_EARLY */
	};
	union {
		uint32_t qpn;  /* bound type 2 window: its queue pair, the only user; else 0 */
		uint32_t heap; /* plain memory: its part of the shared heap (struct av_heap_part),
				  or its run of files (segment/pages.h); 0: neither */
	};
	union {
		uint32_t region;  /* bound window: its region's key */
		uint32_t windows; /* region: av_window_count(); under @lock */
	};
	/*
	 * Plain memory: the moment up to which it stayed mapped (av_still_mapped()). Pages: in the
	 * lower 32 bits, the context whose segment holds them; above, enum av_alloc_type and, from
	 * AV_KEY_HUGE_SHIFT on, the number of huge pages.
	 */
	_Atomic uint64_t intact;
	uint64_t base;	 /* address of the first byte in the key's address space */
	uint64_t length; /* bytes */
	uint64_t addr;	 /* where the first byte is: enum av_key_kind */
};
static_assert(sizeof(struct av_key) == AV_KEY_BYTES, "key table entry");

#define AV_KEY_PRIVATE	  (1u << 6) /* memory that the library allocated, not in a segment */
#define AV_KEY_HUGETLB	  (1u << 4) /* AV_KEY_PRIVATE memory from the system's pool of huge pages */
#define AV_KEY_EARLY	  (1u << 7) /* allocated before the shared heap started */
#define AV_KEY_HUGE_SHIFT 4	    /* of the number of huge pages, in the upper half of @intact */
#define AV_KEY_HUGE_MAX	  (UINT32_MAX >> AV_KEY_HUGE_SHIFT)

/* What the caller's own key was created or changed with. Users may change @intact and @lock. */
void av_key_describe(const struct av_key *k, struct av_key *what);

/*
 * Publish a key with all of @what but key and tag. A window permits nothing until it is bound.
 * @limit: most entries in use at a time. Any thread of the owner.
 * Return: the key; or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_key_create(struct av_seg *seg, const struct av_key *what, uint32_t limit);

/*
 * End a region's key and its uses. For a peer that uses it longer than AV_STOPPED_NS, frees are
 * deferred (av_deferred_key()): after 0 and av_heap_region_end(), no peer reaches the program's
 * memory by this key. Else waits as av_pin_drain().
 * Context: the owner; no lock or pin held; waits for copies.
 * Return: 0; or nothing has changed: EBUSY: windows are bound to the region; ETIMEDOUT: a peer did
 * not end its use, and accesses were refused meanwhile
 */
AV_MUST_USE int av_key_destroy(struct av_seg *seg, uint32_t key);

/* Replace all fields but those of windows. Accesses get AV_CHECK_BUSY. Else: av_key_destroy() */
AV_MUST_USE int av_key_change(struct av_seg *seg, uint32_t key, const struct av_key *what);

/*
 * End the use of another context's key, for an imported region. Its owner still destroys it. Waits
 * as av_pin_drain().
 */
void av_key_kill(struct av_seg *seg, uint32_t key);

/*
 * A key is being changed (AV_CHECK_BUSY), or a peer's nonsense looks like it. Unpin all keys, let
 * others run by this, then look again. @until: 0 before the first call; after AV_PEER_TIMEOUT_NS
 * the caller gives up. NULL: the key is an own one, whose change always ends: no limit.
 * Return: look again?
 */
AV_COLD bool av_key_retry(uint64_t *until);

/*
 * Lock a region's entry, to read its fields or to count a window.
 * Context: any thread; no pin held; waits while the region is being re-registered, by a peer for
 * AV_PEER_TIMEOUT_NS at most, and for the lock as av_peer_lock() does.
 * Return: the entry, its @lock held with AV_RANK_KEY: the caller releases it; NULL: no such key,
 * its owner is dead, or a wait ended in vain
 */
AV_MUST_USE struct av_key *av_key_lock_region(struct av_seg *seg, uint32_t key);

/* Is this the key of an ODP region now? Takes no lock. */
bool av_key_is_on_demand(struct av_seg *seg, uint32_t key);

/*
 * Was this key ever given out? For diagnosis: exact for the first 255 uses of an index, then its
 * tags wrap. For a window always true, since programs choose its tags.
 */
bool av_key_was_given(const struct av_seg *seg, uint32_t key);

/* === deferred free =============================================================== */

/*
 * Deferred frees: what outlives its region because a peer is stopped in a copy. The owner revokes
 * the peer's system calls, gives the program other pages than the peer has mapped, or none, and
 * keeps the key's entry and what it leads to until the peer's pin has ended: av_deferred_sweep().
 * Owner's process only; any thread. The mutex is innermost: no lock is taken inside it.
 */

/*
 * A peer uses the withdrawn @key: revoke its system calls, and defer the frees. Context: as
 * av_key_destroy(). Return: false: impossible for this kind, or a call goes on: nothing has changed
 */
AV_MUST_USE bool av_deferred_key(struct av_seg *seg, uint32_t key);

/* av_seg_free() of memory to which keys have led, once no deferred key leads into it. */
void av_deferred_free(struct av_seg *seg, uint64_t offset, uint64_t bytes);

/* Is the key deferred? Then accesses through it reach nothing of the program's. */
bool av_deferred_has_key(struct av_seg *seg, uint32_t key);

/* Does a deferred key lead to this offset? */
bool av_deferred_leads_to(struct av_seg *seg, uint64_t offset);

/* Wait until nobody uses a deferred key that leads to @offset, or AV_PEER_TIMEOUT_NS for one. */
void av_deferred_wait(struct av_seg *seg, uint64_t offset);

/* The region has ended: from now on av_deferred_sweep() may free what was deferred for its key. */
void av_deferred_settle(struct av_seg *seg, uint32_t key);

/* Free everything deferred that no pin holds. */
void av_deferred_sweep(struct av_seg *seg);

/* The context is being closed: forget its deferred frees, which end with the segment. */
void av_deferred_forget(struct av_seg *seg);

/* === window ====================================================================== */

/*
 * The number of windows bound to a region. A binder counts a window before it binds it, and
 * discounts it after it has unbound it. If it dies in between, the count is too high, never too
 * low: 0 is exact; if it is not 0, the owner recounts.
 */

/* Set while the owner recounts; whoever changes the count clears it. */
#define AV_WINDOWS_COUNTING (1u << 31)

static inline uint32_t av_window_count(const struct av_key *region)
{
	return region->windows & ~AV_WINDOWS_COUNTING;
}

/*
 * Memory windows: keys for remote access that a work request binds to a part of a region. A type 1
 * window may be bound again at any time, and serves every queue pair of its protection domain. A
 * type 2B window must be invalidated before that, and serves only the queue pair that bound it.
 * Source: IBTA volume 1, 10.6.7.2; ibv_bind_mw(3), ibv_alloc_mw(3).
 */

/* What a window may permit. LOCAL_WRITE has no meaning for it, but programs set it. */
#define AV_WINDOW_ACCESS                                                                        \
	((uint32_t)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | AV_ACCESS_FLUSH_GLOBAL))

struct av_window_bind {
	uint32_t window; /* any key with the window's index */
	uint32_t rkey;	 /* the new key: same index, tag chosen by the program */
	uint32_t region; /* lkey; 0 with length 0: unbind (type 1) */
	uint32_t access; /* of the window */
	uint32_t pd;	 /* of the queue pair */
	uint32_t qpn;	 /* the binding queue pair */
	uint64_t addr;
	uint64_t length;
	bool is_rkey; /* of a region, whatever windows that allows: AV_WINDOW_RKEY */
};

#define AV_WINDOW_RKEY 0xff /* a type of window: an rkey of verbs/strict_key.c */

/*
 * Create a window, a key that permits no access yet. @type: enum ibv_mw_type, or AV_WINDOW_RKEY.
 * @limit, return: as av_key_create()
 */
AV_MUST_USE uint32_t av_window_create(struct av_seg *seg, uint8_t type, uint32_t pd,
				      uint32_t limit);

/* The rkey of that region, also of a peer's: the window of AV_WINDOW_RKEY onto it, or its lkey. */
uint32_t av_window_rkey_of(struct av_seg *seg, uint32_t region);

/*
 * Unbind and free a window, if @key names one.
 * Context: the owner; no lock or pin held; waits for a bind under way, and as av_pin_drain().
 * Return: 0; EBUSY: an access does not end, and nothing has changed
 */
AV_MUST_USE int av_window_destroy(struct av_seg *seg, uint32_t key);

/*
 * Execute a bind.
 * Context: any process, with the requester's @req_lock; no pin held. Waits for a change of the
 * region, both keys' locks and old accesses: for a peer's, AV_PEER_TIMEOUT_NS at most each.
 * Return: AV_CHECK_NONE; or nothing has changed: the check that forbids the bind; also
 * AV_CHECK_OBJECT_BUSY if the window's lock was not released or an access did not end,
 * AV_CHECK_BIND_REGION if the region's change did not end
 */
AV_MUST_USE enum av_check av_window_bind(struct av_seg *seg, const struct av_window_bind *bind);

/*
 * Unbind the type 2 window that is bound as @rkey on @qpn. Context: as av_window_bind().
 * Return: AV_CHECK_NONE; or nothing has changed: AV_CHECK_INVALIDATE_WINDOW: no such window;
 * AV_CHECK_INVALIDATE_UNBOUND: not bound so, or its lock or an access was not released in time
 */
AV_MUST_USE enum av_check av_window_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn);

/* What av_window_invalidate() would return, without locks. Changes nothing. */
AV_MUST_USE enum av_check av_window_may_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn);

/*
 * Queue pair @qpn is being destroyed, and nobody executes for it: unbind the window of this index
 * if it is bound on @qpn. Context: the owner; waits as av_window_destroy().
 */
void av_window_queue_pair_ends(struct av_seg *seg, uint32_t key, uint32_t qpn);

/* === unmapped ==================================================================== */

/*
 * Pages that were unmapped under a region that is not ODP: docs/ODP.md. A moment is a value of the
 * context's odp_seq, odd while the listener records. Lock-free; any thread of any process may read.
 */

/* Later than every unmapping. */
#define AV_UNMAPPED_NEVER UINT64_MAX

/* The present moment. Each unmapping that is recorded from now on gets a greater one. */
static inline uint64_t av_unmapped_now(const struct av_seg *seg)
{
	return atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) & ~(uint64_t)1;
}

/* Record an unmapping; without room in the segment, only a part. Context: the owner's listener. */
void av_unmapped_record(struct av_seg *seg, uint64_t addr, uint64_t len);

/*
 * Is [addr, addr + len) still the memory that the region was registered with? @k, of the region or
 * of a window onto it, contains the range. Keeps its @intact up to date. Logs a refusal.
 * Context: any thread; a pin names @k; may wait for the owner's listener, a bounded time.
 */
bool av_still_mapped(const struct av_seg *seg, struct av_key *k, uint64_t addr, uint64_t len);

/* === shared region =============================================================== */

/*
 * Memory behind regions that peers map: parts of the shared heap, and files that the program has
 * mapped itself (both: segment/pages.h). Peers find its pages by a descriptor in the segment.
 */

/* --- for peers ------------------------------------------------------------------- */

/* Descriptor of a region's whole pages. */
struct av_heap_part {
	uint64_t addr;	     /* first byte, in the owner's process; constant */
	uint64_t bytes;	     /* constant */
	_Atomic uint64_t at; /* AV_HEAP_PART_BASE + offset in the heap's file; 0: the pages are
				private to the owner's process. The owner clears it only while pages
				move (heap_region.c) or are unmapped */
};

#define AV_HEAP_PART_ALIGN 4096u /* of both addresses */
#define AV_HEAP_PART_BASE  AV_HEAP_PART_ALIGN
#define AV_HEAP_PART_SHIFT 6 /* log2 of a descriptor's alignment: offsets fit @heap's 32 bits */

/* --- for this process ------------------------------------------------------------ */

/* A run of the heap file's pages, where the program has them mapped. */
struct av_heap_extent {
	uint64_t begin, end;   /* addresses */
	struct av_own_fd file; /* borrowed */
	uint64_t at;	       /* offset in the file */
};

/* Note the heap's window and file, and a forked child's new file. One thread at a time. */
void av_heap_part_begin(const struct av_shared_heap *heap);

/* Does the range reach into the heap's window? No lock. */
bool av_heap_is_near(uint64_t addr, uint64_t len);

/*
 * Find the first run of the heap file's pages in [addr, end), also those made private by fork().
 * @maps: descriptor of /proc/self/maps. Return: false: none
 * Context: any thread and the listener; no lock, no malloc().
 */
AV_MUST_USE bool av_heap_next(int maps, uint64_t addr, uint64_t end, struct av_heap_extent *extent);

/* Free the file's pages under a range: it reads as zeros. Context: as av_heap_next(). */
void av_heap_discard(uint64_t addr, uint64_t len);

/* Regions on files that the program has mapped shared; one descriptor for a run of mappings. */

/*
 * The process opens a device: from now on, hand the files of regions and of the shared heap to
 * peers that request them. Context: any thread; no lock held.
 */
void av_file_region_begin(void);

/*
 * Register a range on files, whose pages are present. Return: the key's field @heap, to be ended by
 * av_file_region_end(); 0: not all of it is shared file memory, or memory is short.
 * Any thread of the owner; no lock or pin held; uses heap, mutex and system calls; keeps errno.
 */
uint32_t av_file_region(struct av_seg *seg, uint64_t addr, uint64_t length);

/* Does @part, a key's field @heap, describe files? */
bool av_file_region_is(const struct av_seg *seg, uint32_t part);

/* A region and its copies have ended. With a run's last, peers unmap it. As av_file_region(). */
void av_file_region_end(struct av_seg *seg, uint32_t part);

/* The context is being closed, and no access is under way: end all its runs. */
void av_file_region_close(struct av_seg *seg);

/* === region count ================================================================ */

/*
 * Nodes of the sparse trees over the owner's address space (device page table, record of
 * unmappings), which count 4 KiB pages whatever the system's page size. Nodes are in an area of the
 * context's segment (AV_ODP_OFFSET), created by any process, and last as long as the context.
 * Lock-free, from any thread of any process and from the listener; no heap.
 */

#define AV_NODE_PAGE_SHIFT 12

/* A run of page numbers; both ends are included. */
struct av_page_run {
	uint64_t first, last;
};

/* The pages that a range touches, clipped at the end of the address space. Return: false: none */
static inline bool av_page_run_of(uint64_t addr, uint64_t len, struct av_page_run *r)
{
	if (len == 0)
		return false;
	r->first = addr >> AV_NODE_PAGE_SHIFT;
	r->last = (av_range_wraps(addr, len) ? UINT64_MAX : addr + (len - 1)) >> AV_NODE_PAGE_SHIFT;
	return true;
}

/* NULL: @offset is 0 or impossible. A corrupt peer may have written any value. */
void *av_node_at(const struct av_seg *seg, uint64_t offset, uint64_t bytes);

/*
 * Allocate zeroed, backed bytes. @bytes: a power of two if below a page: nodes straddle no pages.
 * Return: offset; 0: no room
 */
AV_MUST_USE uint64_t av_node_take(struct av_seg *seg, uint64_t bytes);

/* The node whose offset is at @where, created if that is 0. NULL: no room, or a bad offset. */
void *av_node_make(struct av_seg *seg, _Atomic uint64_t *where, uint64_t bytes);

/*
 * Counters of memory regions, only for events off the data path (observe/counters.h). Those of
 * AV_KEY_CHUNK keys are one node, created when one of the keys becomes an ODP region or has its
 * first event. One bit per key in it marks ODP regions for the listener and faults. Any thread of
 * any process; never blocks; takes no lock. Without room, nothing is counted.
 */

/* Reset a new key's counters; its entry is filled but not published. Owner's process only. */
void av_region_count_begin(struct av_seg *seg, uint32_t key, bool on_demand);

/* Add @n to a counter of a region. @seg: the key's segment, own or a peer's, but not a view. */
void av_region_count(struct av_seg *seg, uint32_t key, enum av_mr_counter which, uint64_t n);

/* Read the counters of a region. @seg may be a view. */
void av_region_counted(const struct av_seg *seg, uint32_t key, uint64_t value[AV_MR_GAUGES]);

/* --- ODP regions by address, for the listener of invalidations and for faults ---- */

/* Most regions that one search visits: faults must not get slower with every region. */
#define AV_ODP_REGION_LOOKS 64

struct av_odp_region {
	uint32_t key;
	uint64_t addr, length;
	bool whole; /* implicit: the whole address space */
};

/* Next ODP region. *@at: 0 at first. May miss, or show old values of, one that changes. */
AV_MUST_USE bool av_odp_region_next(const struct av_seg *seg, uint32_t *at,
				    struct av_odp_region *region);

/* Count @n at the ODP region at @addr, if any: an implicit one only if no other contains @addr. */
void av_odp_region_count(struct av_seg *seg, uint64_t addr, enum av_mr_counter which, uint64_t n);
