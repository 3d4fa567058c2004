/* SPDX-License-Identifier: MIT */
/*
 * What each key of a context stands for, and who uses it; memory windows; what was unmapped under a
 * region; the memory behind a region that peers map; what a region counts.
 */
#ifndef AV_MEMORY_KEY_H
#define AV_MEMORY_KEY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
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
 * A key pin says: "a process is using this key right now". A pinned key keeps its entry, and what
 * the entry leads to. A user claims one of the target segment's pin words for the key, then looks
 * the key up. Whoever ends or changes a key withdraws it first, then waits until no pin names it,
 * with a full barrier on both sides. The word of a dead user is cleared by whoever waits for it.
 */

/*
 * The word that this thread tries first, in every segment. In most programs no other thread uses
 * it. 0: not chosen yet.
 */
extern _Thread_local uint32_t av_pin_place AV_TLS_FAST;

/* The slow path of av_pin_begin(): the word is taken, or not chosen yet. */
struct av_pin *av_pin_search(struct av_seg *seg, uint64_t word);

/**
 * av_pin_begin() - pin @key of @seg
 *
 * A full barrier: no later read is performed before it.
 * Context: any thread; does not wait.
 * Return:  the word, for av_pin_end(); NULL: all AV_PINS words are taken. Then the caller ends its
 * own pins and retries later: another thread may wait for those pins.
 */
AV_MUST_USE struct av_pin *av_pin_begin(struct av_seg *seg, uint32_t key);

/* End the use. NULL is ignored. */
void av_pin_end(struct av_pin *pin);

/*
 * Wait until nobody uses @key of @seg. No new use begins meanwhile: the caller has withdrawn the
 * key, or has made all users back off. The wait for this process's own copies, in an own segment,
 * has no limit. That for others ends after AV_PEER_TIMEOUT_NS: a peer may be stopped, and a corrupt
 * word may name a process that uses nothing.
 * Context: may wait as long as a copy takes; the caller holds no lock and no pin.
 * Return:  false: a process still uses the key
 */
bool av_pin_drain(struct av_seg *seg, uint32_t key);

/* Does a living process use @key of the own context @seg? Does not wait. Clears dead ones' pins. */
bool av_pin_is_held(struct av_seg *seg, uint32_t key);

/*
 * av_pin_drain() for each key of an own context for which @chosen is true; the wait for peers ends
 * after AV_STOPPED_NS. @until: 0 before the first call; calls with the same variable share one
 * deadline. Return: true: nobody uses any of these keys
 */
typedef bool av_pin_chosen(struct av_seg *seg, uint32_t key, const void *arg);
AV_MUST_USE bool av_pin_try_drain(struct av_seg *seg, av_pin_chosen *chosen, const void *arg,
				  uint64_t *until);

/*
 * The key table of a context: what each lkey and rkey stands for. It is in the segment, so that a
 * peer checks an rkey without its owner.
 *
 * A key is index << 8 | tag. Each reuse of an index changes its tag, and freed indices are reused
 * as late as possible, so that a stale key is refused. 0, 0xffffffff and 0xdeadbeef are never keys.
 */

/*
 * The payload of an RDMA WRITE is atomic commands (transport/execution.h). Plain verbs refuse this
 * bit.
 */
#define AV_ACCESS_TUNNELED (1u << 31)

enum av_key_kind {
	AV_KEY_NONE,
	AV_KEY_REGION,	 /* memory of the owner's address space; @addr: virtual address */
	AV_KEY_ODP,	 /* as AV_KEY_REGION, but ODP */
	AV_KEY_DEVICE,	 /* device memory; @addr: offset in a segment */
	AV_KEY_NULL,	 /* no memory: reads return zeros, writes are discarded; local use only */
	AV_KEY_DM_BLOCK, /* a block of device memory, for import by its handle; not usable as a key;
			    @addr as above */
	AV_KEY_PAGES,	 /* pages that the library allocated; @addr: offset in the segment of the
			    context in @intact */
	AV_KEY_MAPPED,	 /* as AV_KEY_PAGES, but only for the program's own loads and stores; not
			    usable as a key */
	AV_KEY_UMR,    /* parts of other keys: memory/translate.h; @addr: offset of the list in the
			  segment */
	AV_KEY_WINDOW, /* a window onto a region, for remote use; @addr, @under: the region's */
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
	 * Where the bytes are, as seen from this process. For a window, the row of its region. In:
	 * @seg, @length, and @addr as an offset from @addr of the key. Context: as av_mem_get().
	 */
	enum av_check (*locate)(struct av_seg *seg, struct av_key *k,
				const struct av_mem_request *req, struct av_span *span);
	/*
	 * Can a copy by the key of a stopped peer be kept from the program's memory? @leads_to: an
	 * offset in the memory of the segment that the key leads to; 0: nothing. NULL: no
	 */
	bool (*defer)(struct av_seg *seg, const struct av_key *k, uint64_t *leads_to);
	/* An access named a key of this kind that has ended. NULL: nothing to do */
	void (*not_found)(struct av_seg *seg);
};

/* The row of any number: a peer may have written it. */
const struct av_kind *av_kind_of(uint8_t kind);

/*
 * Fields change only while @key is 0 and its pins are drained; @key, @lock, @windows, @imported,
 * @intact and @held are exempt. A user that has pinned a key and then finds it here may read the
 * fields until it ends the pin.
 */
struct av_key {
	_Atomic uint32_t key;  /* 0: no key, a withdrawn key, or an unbound window */
	_Atomic uint32_t held; /* the key while its region exists, also while the region changes */
	struct av_lock lock;   /* held to bind, fill, invalidate, re-register and deregister */
	uint32_t pd;	       /* handle of the protection domain */
	uint32_t access;       /* enum ibv_access_flags and AV_ACCESS_TUNNELED */
	_Atomic uint8_t kind;  /* enum av_key_kind; also read while the key is withdrawn */
	uint8_t under;	       /* window: the kind of its region */
	uint8_t tag;	       /* last tag used; the owner's */
	union {
		uint8_t window_type; /* enum ibv_mw_type */
		uint8_t in_origin;   /* device memory: the bytes are in the segment of the context
					that exported it */
		uint8_t imported;    /* block of device memory: a process has imported it at least
					once; under @lock */
		uint8_t share; /* pages: AV_SHARED and the rights, memory/region.h; plain memory:
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

/*
 * Copy out what the caller's own key was created or changed with. Users may change @intact and
 * @lock meanwhile.
 */
void av_key_describe(const struct av_key *k, struct av_key *what);

/*
 * Publish a key with all fields of @what but key and tag. A window gets its entry, but no access
 * until it is bound. @limit: most entries in use at a time.
 * Context: any thread of the owner.
 * Return:  the key; or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_key_create(struct av_seg *seg, const struct av_key *what, uint32_t limit);

/*
 * End a region's key and its uses. For a peer that uses it longer than AV_STOPPED_NS, frees are
 * deferred (av_deferred_key()): after 0, no peer reaches the program's memory by this key, once
 * av_heap_region_end() has returned. Else waits as av_pin_drain().
 * Context: the owner; no lock or pin held; waits for copies.
 * Return:  0; EBUSY: windows are bound to the region, and nothing has changed; ETIMEDOUT: a peer
 * did not end its use, and nothing has changed, but accesses were refused meanwhile
 */
AV_MUST_USE int av_key_destroy(struct av_seg *seg, uint32_t key);

/*
 * Replace all fields but those of windows. Accesses meanwhile get AV_CHECK_BUSY and retry.
 * Context, return: as av_key_destroy()
 */
AV_MUST_USE int av_key_change(struct av_seg *seg, uint32_t key, const struct av_key *what);

/*
 * Make a key of another context unusable, for an imported region. Its owner still destroys it.
 * Waits as av_pin_drain().
 */
void av_key_kill(struct av_seg *seg, uint32_t key);

/**
 * av_key_lock_region() - lock a region's entry, to read its fields or to count a window
 *
 * Waits while the region is being re-registered.
 * Context: any thread; holds no pin; waits AV_PEER_TIMEOUT_NS at most for the change, and as
 * av_peer_lock() does for the lock.
 * Return:  the entry, locked with AV_RANK_KEY: the caller releases its @lock; NULL: there is no
 * such key, its owner is dead, or the wait ended in vain
 */
AV_MUST_USE struct av_key *av_key_lock_region(struct av_seg *seg, uint32_t key);

/* Is this the key of an ODP region now? Takes no lock. */
bool av_key_is_on_demand(struct av_seg *seg, uint32_t key);

/*
 * Was this key ever given out? Exact for the first 255 uses of an index. Then its tags wrap, and
 * the answer may be wrong. For a window always true, since programs choose its tags. For diagnosis
 * only.
 */
bool av_key_was_given(const struct av_seg *seg, uint32_t key);

/* === deferred free =============================================================== */

/*
 * Deferred frees: what outlives its region because a peer is stopped in a copy. Deregistration does
 * not wait for it. The owner revokes its system calls, gives the program other pages than those
 * that the peer has mapped, or none, and keeps the key's entry and what it leads to until the
 * peer's pin has ended: av_deferred_sweep().
 *
 * Owner's process only; any thread. The mutex is innermost: no lock is taken inside it.
 */

/*
 * A peer uses the withdrawn @key: revoke its system calls, and defer the frees.
 * Context: as av_key_destroy(). Return: false: impossible for this kind of key, or a call is not
 * revoked, and nothing has changed
 */
AV_MUST_USE bool av_deferred_key(struct av_seg *seg, uint32_t key);

/*
 * Free memory of the segment to which keys have led: as av_seg_free(), or when the last deferred
 * key that leads into it is freed.
 */
void av_deferred_free(struct av_seg *seg, uint64_t offset, uint64_t bytes);

/* Is the key deferred? Then accesses through it reach nothing of the program's. */
bool av_deferred_has_key(struct av_seg *seg, uint32_t key);

/* Does a deferred key lead to this offset? */
bool av_deferred_leads_to(struct av_seg *seg, uint64_t offset);

/*
 * Wait until nobody uses a deferred key that leads to @offset. Ends when AV_PEER_TIMEOUT_NS pass
 * for one of the keys.
 */
void av_deferred_wait(struct av_seg *seg, uint64_t offset);

/* The region has ended: from now on av_deferred_sweep() may free what was deferred for its key. */
void av_deferred_settle(struct av_seg *seg, uint32_t key);

/* Free everything deferred that no pin holds. */
void av_deferred_sweep(struct av_seg *seg);

/* The context is being closed: forget its deferred frees, which end with the segment. */
void av_deferred_forget(struct av_seg *seg);

/* === window ====================================================================== */

/*
 * The number of windows bound to a region.
 *
 * A binder counts a window before it binds it, and discounts it after it has unbound it. If it dies
 * in between, the count is too high, never too low. So a count of 0 is exact; if the count is not
 * 0, the owner recounts the windows.
 */

/* Set while the owner recounts; whoever changes the count clears it. */
#define AV_WINDOWS_COUNTING (1u << 31)

static inline uint32_t av_window_count(const struct av_key *region)
{
	return region->windows & ~AV_WINDOWS_COUNTING;
}

/*
 * Memory windows: keys for remote access. A work request binds one to a part of a region, and
 * unbinds it. A type 1 window may be bound again at any time, and serves every queue pair of its
 * protection domain. A type 2B window must be invalidated before it is bound again, and serves only
 * the queue pair that bound it.
 * Source: IBTA volume 1, 10.6.7.2; ibv_bind_mw(3), ibv_alloc_mw(3).
 */

/*
 * What a window may permit. IBV_ACCESS_LOCAL_WRITE has no meaning for a window, but programs set
 * it.
 */
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
};

/*
 * Create an unbound window. @limit: as av_key_create(). Return: a key with its index, which permits
 * no access; or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_window_create(struct av_seg *seg, enum ibv_mw_type type, uint32_t pd,
				      uint32_t limit);

/*
 * Unbind and free a window. No effect if @key names no window.
 * Context: the owner; no lock or pin held; waits for a bind under way, and for accesses as
 * av_pin_drain().
 * Return:  0; EBUSY: an access does not end, and nothing has changed
 */
AV_MUST_USE int av_window_destroy(struct av_seg *seg, uint32_t key);

/*
 * Execute a bind.
 * Context: any process, with the requester's right @exec; no pin held. Waits for a change of the
 * region, for the locks of both keys and for accesses through the old binding: for a peer's,
 * AV_PEER_TIMEOUT_NS at most each.
 * Return:  AV_CHECK_NONE; or the check that forbids the bind, and nothing has changed.
 * AV_CHECK_OBJECT_BUSY: the window's lock was not released, or an access did not end.
 * AV_CHECK_BIND_REGION: also if the region's change did not end
 */
AV_MUST_USE enum av_check av_window_bind(struct av_seg *seg, const struct av_window_bind *bind);

/*
 * Unbind the type 2 window that is bound as @rkey on @qpn. Context: as av_window_bind().
 * Return:  AV_CHECK_NONE; or nothing has changed: AV_CHECK_INVALIDATE_WINDOW: there is no such
 * window; AV_CHECK_INVALIDATE_UNBOUND: it is not bound as @rkey on @qpn, its lock was not released
 * in time, or an access through it does not end
 */
AV_MUST_USE enum av_check av_window_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn);

/* What av_window_invalidate() would return, without locks. Changes nothing. */
AV_MUST_USE enum av_check av_window_may_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn);

/*
 * Queue pair @qpn is being destroyed: unbind the window of this index if it is bound on @qpn.
 * Context: the owner; nobody executes for that queue pair any more; waits as av_window_destroy().
 */
void av_window_queue_pair_ends(struct av_seg *seg, uint32_t key, uint32_t qpn);

/* === unmapped ==================================================================== */

/*
 * Pages that were unmapped under a region that is not ODP: docs/ODP.md. A moment is a value of the
 * context's odp_seq, which is odd while the listener records. A key's @intact is the moment up to
 * which its whole range is known to be mapped. Lock-free; any thread of any process may read.
 */

/* Later than every unmapping. */
#define AV_UNMAPPED_NEVER UINT64_MAX

/* The present moment. Each unmapping that is recorded from now on gets a greater one. */
static inline uint64_t av_unmapped_now(const struct av_seg *seg)
{
	return atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) & ~(uint64_t)1;
}

/*
 * Record that a range has just been unmapped. Without room in the segment, a part goes unrecorded.
 * Context: the owner's listener.
 */
void av_unmapped_record(struct av_seg *seg, uint64_t addr, uint64_t len);

/*
 * Is [addr, addr + len) still the memory that the region was registered with? @k: the key of the
 * region or of a window onto it, which contains the range. Keeps its @intact up to date. Logs a
 * refusal.
 * Context: any thread; a pin names @k; may wait for the owner's listener, a bounded time.
 */
bool av_still_mapped(const struct av_seg *seg, struct av_key *k, uint64_t addr, uint64_t len);

/* === shared region =============================================================== */

/*
 * Memory behind regions that peers map: parts of the shared heap, and files that the program has
 * mapped itself (both: segment/pages.h). Peers find a region's pages by a descriptor in the
 * segment. This process finds the heap's pages under any range that it discards.
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

/*
 * Note the heap's window and file: when the heap starts, and when a forked child replaces the file.
 * One thread at a time.
 */
void av_heap_part_begin(const struct av_shared_heap *heap);

/* Does the range reach into the heap's window? No lock. */
bool av_heap_is_near(uint64_t addr, uint64_t len);

/*
 * Find the first run of the heap file's pages in [addr, end), including pages that a fork() has
 * made private. @maps: descriptor of /proc/self/maps.
 * Context: any thread and the listener; no lock, no malloc().
 * Return:  false: there is none
 */
AV_MUST_USE bool av_heap_next(int maps, uint64_t addr, uint64_t end, struct av_heap_extent *extent);

/* Free the file's pages under a range: it reads as zeros. Context: as av_heap_next(). */
void av_heap_discard(uint64_t addr, uint64_t len);

/*
 * Regions on files that the program has mapped shared: peers map the same files. All regions on one
 * run of mappings share one descriptor.
 */

/*
 * The process opens a device: from now on, hand the files of regions, and the shared heap's file,
 * to peers that request them. Context: any thread; no lock held.
 */
void av_file_region_begin(void);

/*
 * Register a range on files. Its pages are present.
 * Context: any thread of the owner; no lock or pin held; uses the heap, a mutex, a few system
 * calls; keeps errno.
 * Return:  the key's field @heap, to be ended by av_file_region_end(); 0: not all of the range is
 * shared file memory, or memory is short
 */
uint32_t av_file_region(struct av_seg *seg, uint64_t addr, uint64_t length);

/* Does @part, a key's field @heap, describe files? */
bool av_file_region_is(const struct av_seg *seg, uint32_t part);

/*
 * A region has ended, and so have all copies to it. With the last region of a run, its peers unmap
 * the files. Context: as av_file_region().
 */
void av_file_region_end(struct av_seg *seg, uint32_t part);

/* The context is being closed, and no access is under way: end all its runs. */
void av_file_region_close(struct av_seg *seg);

/* === region count ================================================================ */

/*
 * Nodes of the sparse trees over the owner's address space (device page table, record of
 * unmappings). The trees count 4 KiB pages, whatever the system's page size. Nodes are in an area
 * of the context's segment (AV_ODP_OFFSET). Any process may create one. They last as long as the
 * context. Lock-free, from any thread of any process and from the listener; no heap.
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
 * Allocate zeroed, backed bytes. @bytes: a power of two if below a page, so that no node straddles
 * pages. Return: offset; 0: the area or the file system is full
 */
AV_MUST_USE uint64_t av_node_take(struct av_seg *seg, uint64_t bytes);

/*
 * The node whose offset is at @where, created if that is 0. NULL: no room, or the offset is
 * impossible.
 */
void *av_node_make(struct av_seg *seg, _Atomic uint64_t *where, uint64_t bytes);

/*
 * Counters of memory regions, only for events off the data path (observe/counters.h).
 *
 * The counters of AV_KEY_CHUNK keys are one node of the segment, created when one of these keys
 * becomes an ODP region or has its first event. The node also has one bit per key that marks ODP
 * regions: the listener and faults find them by these bits.
 *
 * Any thread of any process; never blocks; takes no lock. Without room, nothing is counted.
 */

/*
 * Reset the counters of a new key, whose entry is filled but not published. Owner's process only.
 */
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

/*
 * Next ODP region. *@at: 0 at first. May miss or show old values of a region that is changing.
 * Return: false: there are no more
 */
AV_MUST_USE bool av_odp_region_next(const struct av_seg *seg, uint32_t *at,
				    struct av_odp_region *region);

/*
 * Add @n to a counter of the ODP region at @addr, if any. An implicit region counts only if no
 * other region contains @addr.
 */
void av_odp_region_count(struct av_seg *seg, uint64_t addr, enum av_mr_counter which, uint64_t n);

#endif
