/* SPDX-License-Identifier: MIT */
/* Keys: what is behind one, who may change it, and who is using it. */
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
 * Key pins: "a process is using this key right now". A key in use is not taken away.
 *
 * Whoever is about to touch memory behind a key first claims one of the target segment's pin words
 * with that key, then looks the key up. Whoever ends or changes the key first withdraws it, then
 * waits until no pin names it. Both sides have a full barrier in between: either the user sees the
 * withdrawn key, or the other side sees the pin.
 *
 * A pin costs one locked instruction, on a cache line that nobody else writes. A user's death needs
 * no repair: the word names its process, and whoever waits for a dead process's word clears it.
 */

/* The word that this thread tries first, in every segment: its own in most programs. 0: not chosen
 * yet. */
extern _Thread_local uint32_t av_pin_place AV_TLS_FAST;

/* The slow part of av_pin_begin(): that word is taken, or not chosen yet. */
struct av_pin *av_pin_search(struct av_seg *seg, uint64_t word);

/**
 * av_pin_begin() - announce the use of @key of @seg
 *
 * A full barrier: what is read afterwards was not read before.
 * Context: any thread; does not wait.
 * Return:  the word, to be given to av_pin_end(); NULL if all AV_PINS words are taken: the caller,
 * who may hold others, puts those and tries again later
 */
AV_MUST_USE static inline struct av_pin *av_pin_begin(struct av_seg *seg, uint32_t key)
{
	uint32_t place = av_pin_place;
	struct av_pin *pin = &seg->head->pin[place % AV_PINS];
	uint64_t free = 0, word = (uint64_t)av_lock_self << 32 | key;

	if (av_unlikely(place == 0 || atomic_load_explicit(&pin->word, memory_order_relaxed) ||
			!atomic_compare_exchange_strong(&pin->word, &free, word)))
		return av_pin_search(seg, word);
	av_barrier_behind_rmw(); /* before the key is looked at */
	return pin;
}

/* End the use. @pin: NULL: nothing */
static inline void av_pin_end(struct av_pin *pin)
{
	if (pin)
		atomic_store_explicit(&pin->word, 0, memory_order_release);
}

/**
 * av_pin_drain() - wait until nobody uses @key of @seg any more
 *
 * Other processes may be stopped, and a peer's words may name processes that use nothing: for them
 * it waits AV_PATIENCE_NS at most. The key is withdrawn already, or all users have been told to
 * stay away: no new use begins.
 * Context: may wait as long as a copy takes; no lock is held, and no pin of the caller's.
 * Return:  false: somebody still uses it
 */
bool av_pin_drain(struct av_seg *seg, uint32_t key);

/* Does a living process use @key of the own context @seg? Does not wait. */
bool av_pin_is_held(struct av_seg *seg, uint32_t key);

/**
 * av_pin_try_drain() - the same for an own context and all keys that @chosen chooses
 * @until: 0 before the first call, then kept between calls that share their patience
 *
 * A peer that uses one may be stopped: for peers it waits AV_STOPPED_NS at most, whatever is left.
 * Return: true: nobody uses them
 */
typedef bool av_pin_chosen(struct av_seg *seg, uint32_t key, const void *arg);
AV_MUST_USE bool av_pin_try_drain(struct av_seg *seg, av_pin_chosen *chosen, const void *arg,
				  uint64_t *until);

/*
 * The key table of a context: what each lkey or rkey stands for. Shared, so that a peer can check
 * an rkey without its owner.
 *
 * A key is index << 8 | tag. The tag changes each time an index is reused, and freed indices rest
 * as long as possible, so that a stale key is refused. 0, 0xffffffff and 0xdeadbeef are never keys.
 */

/* An RDMA WRITE's payload is atomic commands (transport/execution.h); unknown to plain verbs. */
#define AV_ACCESS_TUNNELED (1u << 31)

enum av_key_kind {
	AV_KEY_NONE,
	AV_KEY_REGION,	 /* memory of the owner's address space; @addr: virtual address */
	AV_KEY_ODP,	 /* as AV_KEY_REGION, but ODP */
	AV_KEY_DEVICE,	 /* device memory; @addr: offset in the segment */
	AV_KEY_NULL,	 /* no memory: reads return zeros, writes vanish; local use only */
	AV_KEY_DM_BLOCK, /* not usable as a key: a block of device memory, imported by its handle;
			    @addr as above */
	AV_KEY_PAGES,	 /* pages allocated by the library; @addr: offset in the segment of context
			    @intact */
	AV_KEY_MAPPED,	 /* as AV_KEY_PAGES, for the program's own loads and stores; not usable as a
			    key */
	AV_KEY_UMR,    /* pieces of other keys: memory/translate.h; @addr: offset of the list in the
			  segment */
	AV_KEY_WINDOW, /* a window onto a region; @addr and @under are those of the region; remote
			  use only */
};

/*
 * Except @key, @lock, @windows, @intact and @held, fields change only while @key is 0 and its pins
 * are drained. Who sets a pin and then finds its key here may use them until it ends the pin.
 */
struct av_key {
	_Atomic uint32_t key;  /* 0: dead, or an unbound window */
	_Atomic uint32_t held; /* a region's key while it exists, even while it is being changed */
	struct av_lock lock;   /* taken to bind, fill, invalidate, re-register and deregister */
	uint32_t pd;	       /* handle of the protection domain */
	uint32_t access;       /* enum ibv_access_flags and AV_ACCESS_TUNNELED */
	_Atomic uint8_t kind;  /* enum av_key_kind; also read while the key is withdrawn */
	uint8_t under;	       /* window: the kind of its region */
	uint8_t tag;	       /* the last tag used; owner only */
	union {
		uint8_t window_type; /* enum ibv_mw_type */
		uint8_t in_origin;   /* device memory: in the context it was imported from */
		uint8_t imported;    /* block of device memory: by anybody, ever; under @lock */
		uint8_t share;	     /* pages: memory/region.h; plain memory: AV_KEY_PRIVATE,
					AV_KEY_HUGETLB, AV_KEY_EARLY */
	};
	union {
		uint32_t qpn;  /* of a bound type-2 window: the only queue pair that may use it */
		uint32_t heap; /* of plain memory: its part of the heap, memory/key.h, or
				  its run of files, segment/pages.h; 0: neither */
	};
	union {
		uint32_t region;  /* bound window: its region's key */
		uint32_t windows; /* region: memory/key.h; under @lock */
	};
	/*
	 * Plain memory: the moment up to which it stayed mapped (memory/key.h). Pages: the
	 * context whose segment holds them; from bit 32 on, enum av_alloc_type and the number of
	 * huge pages.
	 */
	_Atomic uint64_t intact;
	uint64_t base;	 /* address of the first byte in the key's address space */
	uint64_t length; /* bytes */
	uint64_t addr;	 /* where the first byte is; see enum av_key_kind */
};
static_assert(sizeof(struct av_key) == AV_KEY_BYTES, "key table entry");

#define AV_KEY_PRIVATE	  (1u << 6) /* library-allocated memory, but not pages of a segment */
#define AV_KEY_HUGETLB	  (1u << 4) /* AV_KEY_PRIVATE memory from the system's pool of huge pages */
#define AV_KEY_EARLY	  (1u << 7) /* allocated before the shared heap began: memory/region.h */
#define AV_KEY_HUGE_SHIFT 4	    /* in the upper half of @intact */
#define AV_KEY_HUGE_MAX	  (UINT32_MAX >> AV_KEY_HUGE_SHIFT)

/*
 * What the caller's key was made or changed with. Others may use it meanwhile, which changes
 * @intact and @lock.
 */
void av_key_describe(const struct av_key *k, struct av_key *what);

/*
 * Publish a key with all fields of @what but key and tag. Return: the key, or 0 and errno ENOMEM.
 */
AV_MUST_USE uint32_t av_key_create(struct av_seg *seg, const struct av_key *what, uint32_t limit);

/* May the withdrawn key's entry stay, with what it leads to, since a peer uses it? */
typedef bool av_key_defer(struct av_seg *seg, uint32_t key);

/*
 * End a region's key and its uses, for memory/region.h.
 * @defer: asked if a peer is stopped in such a use; NULL: no
 * Return: 0; EBUSY: windows are counted, and nothing has changed; ETIMEDOUT: a peer has been
 * stopped in a use, and nothing has changed, but other uses were refused meanwhile.
 */
AV_MUST_USE int av_key_destroy(struct av_seg *seg, uint32_t key, av_key_defer *defer);

/* Replace all fields but those of windows. Uses meanwhile wait. Return: as above. */
AV_MUST_USE int av_key_change(struct av_seg *seg, uint32_t key, const struct av_key *what);

/* Make a key of another context unusable. Its owner still destroys it. For imported regions. */
void av_key_kill(struct av_seg *seg, uint32_t key);

/**
 * av_key_lock_region() - hold a region's key as it is, to read its fields or to count a window
 *
 * Waits while the region is being re-registered.
 * Context: any thread; may wait, AV_PATIENCE_NS at most for the change, and as av_peer_lock() does;
 * no pin is held. The caller releases @lock of the entry.
 * Return:  the entry, with AV_RANK_KEY; NULL: there is no such key, or its change does not end
 */
AV_MUST_USE struct av_key *av_key_lock_region(struct av_seg *seg, uint32_t key);

/* Is this the key of an ODP region now? For others than the owner: takes the key's lock. */
bool av_key_is_on_demand(struct av_seg *seg, uint32_t key);

/*
 * Was this key ever given out? Exact for the first 255 uses of an index; afterwards, and for
 * windows, whose tags programs choose, always true. For diagnosis only.
 */
bool av_key_was_given(const struct av_seg *seg, uint32_t key);

/*
 * Can whoever has pinned this key be accessing memory of its owner's process at [begin, end)? Only
 * for one who found the key; what others read here is never used.
 */
bool av_key_reaches(const struct av_seg *seg, uint32_t key, uint64_t begin, uint64_t end);

/* The table entry of a key's index, whatever key is there now; NULL: there is no such index. */
static inline struct av_key *av_key_entry(const struct av_seg *seg, uint32_t key)
{
	return av_slab_at(seg, AV_SLAB_KEY, AV_KEY_INDEX(key), AV_KEY_BYTES, AV_KEY_CHUNK);
}

/* === window ====================================================================== */

/* Memory windows: what one is bound to, and how many are bound to a region. */

/*
 * How many windows are bound to a region?
 *
 * Each is counted before it is bound, and discounted after it is unbound. So whoever dies in
 * between leaves the count too high, never too low: a region whose count is 0 has no windows, and
 * the owner of one whose count is not has the windows themselves counted.
 */

/* Set while the windows are being counted, cleared by whoever changes the count meanwhile. */
#define AV_WINDOWS_COUNTING (1u << 31)

static inline uint32_t av_window_count(const struct av_key *region)
{
	return region->windows & ~AV_WINDOWS_COUNTING;
}

/*
 * Count the windows of an own region. Context: one thread per region, no lock held; waits
 * AV_PATIENCE_NS at most for those who are binding windows.
 * Return: are there none? false also if they change all the time, or one is not had in time
 */
AV_MUST_USE bool av_window_none_bound(struct av_seg *seg, uint32_t region);

/*
 * Memory windows: keys for remote access that work requests bind to a part of a region and unbind
 * again. Type 1 may be rebound at will and used through any queue pair of its protection domain.
 * Type 2B must be invalidated before it is bound again, and belongs to the queue pair that bound
 * it.
 * Source: IBTA volume 1, 10.6.7.2; ibv_bind_mw(3), ibv_alloc_mw(3).
 */

/*
 * What a window may permit. Local rights mean nothing for it, but programs pass
 * IBV_ACCESS_LOCAL_WRITE out of habit.
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

/* Return: a key with its index that gives access to nothing, or 0 and errno ENOMEM. */
AV_MUST_USE uint32_t av_window_create(struct av_seg *seg, enum ibv_mw_type type, uint32_t pd,
				      uint32_t limit);

/*
 * Unbind and free a window. Waits until nobody uses it, AV_PATIENCE_NS at most. Return: 0, or
 * EBUSY: somebody does, and nothing has changed
 */
AV_MUST_USE int av_window_destroy(struct av_seg *seg, uint32_t key);

/*
 * Execute a bind. Context: any process, with the queue pair's @exec right; may wait as long as a
 * change of the region and an access through the old binding take, AV_PATIENCE_NS at most for each.
 * Return: AV_CHECK_NONE; or, and nothing has changed, the check that forbids it;
 * AV_CHECK_OBJECT_BUSY: one of these does not end
 */
AV_MUST_USE enum av_check av_window_bind(struct av_seg *seg, const struct av_window_bind *bind);

/*
 * Unbind the type 2 window bound as @rkey on @qpn. Return: AV_CHECK_NONE; or, and nothing has
 * changed, AV_CHECK_INVALIDATE_WINDOW: there is no such window; AV_CHECK_INVALIDATE_UNBOUND: it is
 * not bound so, or an access by it does not end
 */
AV_MUST_USE enum av_check av_window_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn);

/* What would av_window_invalidate() return? Changes nothing. */
AV_MUST_USE enum av_check av_window_may_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn);

/*
 * Unbind this index's window if it is bound on @qpn, which is being destroyed. Context: nobody
 * executes for that queue pair, nor will.
 */
void av_window_queue_pair_ends(struct av_seg *seg, uint32_t key, uint32_t qpn);

/* === unmapped ==================================================================== */

/* What was unmapped under a region, and how a key is taken back from a peer. */

/*
 * The owner of memory takes back a key while a peer is about to copy by a system call.
 *
 * A system call cannot be made to depend on a word of shared memory, but on its arguments: the
 * remote end of process_vm_readv() and process_vm_writev() is read from the pin (segment/segment.h)
 * when the call begins. The peer writes it there, then looks whether the key has been revoked. The
 * owner revokes the key, then empties what it finds there. Both have a full barrier in between. So
 * a peer that has not looked yet sees the revocation, and one that has looked copies nothing. That
 * leaves the peer whose call has begun: it is waited for, unless its thread is stopped. A stopped
 * thread is in no such call, since it stops before one or behind it.
 */

/* --- the peer --------------------------------------------------------------------- */

/**
 * av_revoke_begin() - this thread is about to copy by a system call, behind a pin
 * @remote, @bytes: the memory in the pin's owner
 *
 * Return: what the call takes as its remote end; NULL: the key has been revoked. In both cases
 * av_revoke_end() follows.
 */
AV_MUST_USE const struct iovec *av_revoke_begin(struct av_pin *pin, uint64_t remote,
						uint64_t bytes);

/* The call is over. Return: true: the key had been revoked; bytes may not have been copied */
bool av_revoke_end(struct av_pin *pin);

/*
 * The same for a call whose remote end is in no pin, since it has many, behind @count pins. It can
 * be revoked until here; afterwards the owner waits. Return: false: revoked
 */
AV_MUST_USE bool av_revoke_begin_many(struct av_pin *const *pins, size_t count);
bool av_revoke_end_many(struct av_pin *const *pins, size_t count);

/* --- the owner -------------------------------------------------------------------- */

/*
 * @key of the own context @seg is withdrawn, but used. Keep its users from the program's memory:
 * none of them is in a system call on return, and none will be. Waits for calls under way,
 * AV_PATIENCE_NS at most for each. Return: false: a thread may be stopped in one
 */
AV_MUST_USE bool av_revoke(struct av_seg *seg, uint32_t key);

/* No pin names the key any more, and it may be given out again. */
void av_revoke_forget(struct av_seg *seg, uint32_t key);

/*
 * Has any page under a region that is not ODP been unmapped since the region was registered?
 *
 * An adapter pins pages and keeps using them. We move bytes through virtual addresses, where
 * something else may be mapped by then. So the kernel reports unmappings to us (odp_notify.h), each
 * is recorded with its moment, and an access to a page that was unmapped after its region's
 * registration is refused. docs/DEVIATIONS.md lists what goes unnoticed.
 *
 * A moment is a value of the context's odp_seq, which is odd while unmappings are being recorded. A
 * key remembers the moment up to which its whole range is known to be intact (@intact), so nearly
 * every access is one comparison.
 *
 * Lock-free; any thread of any process may ask, only the owner's listener records.
 */

/* Later than every unmapping. */
#define AV_UNMAPPED_NEVER UINT64_MAX

/* Every earlier unmapping is recorded, every later one gets a greater moment. */
static inline uint64_t av_unmapped_now(const struct av_seg *seg)
{
	return atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) & ~(uint64_t)1;
}

/* Record that a range has just been unmapped. If the file system is full, nothing is recorded. */
void av_unmapped_record(struct av_seg *seg, uint64_t addr, uint64_t len);

/* Was any page of the range unmapped after @moment? */
bool av_unmapped_since(const struct av_seg *seg, uint64_t addr, uint64_t len, uint64_t moment);

bool av_still_mapped_check(const struct av_seg *seg, struct av_key *k, uint64_t addr, uint64_t len);

/*
 * Is [addr, addr + len) still the memory that the region was registered with? @k: the region's key,
 * or that of a window onto it, kept alive by a pin; the range lies within it.
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

/* === shared region =============================================================== */

/*
 * Parts of the shared heap (segment/pages.h): those that are regions, for peers, in a
 * descriptor in the segment; and, for whoever discards memory of this process, where it is in the
 * heap's file. memory/region.h changes both.
 */

/* --- for peers ------------------------------------------------------------------- */

/* The descriptor of a region's whole pages. */
struct av_heap_part {
	uint64_t addr;	     /* of the first byte, in the owner's process; constant */
	uint64_t bytes;	     /* constant */
	_Atomic uint64_t at; /* AV_HEAP_PART_BASE + offset in the file; 0: the pages are private to
				the owner's process. Changes only while pages move
				(memory/region.h) */
};

#define AV_HEAP_PART_ALIGN 4096u /* of both addresses */
#define AV_HEAP_PART_BASE  AV_HEAP_PART_ALIGN
#define AV_HEAP_PART_SHIFT 6 /* descriptors have this alignment, so offsets fit a key's 32 bits */

/* --- for this process ------------------------------------------------------------ */

/* Pages of the heap's file, where the program has them mapped. */
struct av_heap_piece {
	uint64_t begin, end;   /* addresses */
	struct av_own_fd file; /* borrowed */
	uint64_t at;	       /* offset there */
};

/* The heap has begun; in a child of fork() once more, with another file. One thread at a time. */
void av_heap_part_begin(const struct av_shared_heap *heap);

/* Does the range reach into the heap's window? No lock. */
bool av_heap_is_near(uint64_t addr, uint64_t len);

/*
 * The first part of [addr, end) that is of the heap's file. @maps: descriptor of /proc/self/maps.
 * Pages count that a fork() has made private.
 * Context: any thread, and the listener of odp_notify.c: no lock, no malloc().
 * Return: false if there is none
 */
AV_MUST_USE bool av_heap_next(int maps, uint64_t addr, uint64_t end, struct av_heap_piece *piece);

/* Discard the file's pages under a range: they become zeros. Context: as above. */
void av_heap_discard(uint64_t addr, uint64_t len);

/*
 * Regions on memory that the program has shared itself, by mappings of files (segment/pages.h):
 * peers map the files, too. Regions of one run of mappings share its descriptor.
 */

/*
 * The process opens a device: peers may ask for files from now on, and for the shared heap's.
 * Context: any thread; no lock held.
 */
void av_file_region_begin(void);

/*
 * A range is being registered, and its pages are there.
 * Context: any thread of the owner; no lock or pin held; a few system calls.
 * Return: the key's field @heap, to be ended by av_file_region_end(); 0: it is not all shared
 */
uint32_t av_file_region(struct av_seg *seg, uint64_t addr, uint64_t length);

/* Is that a key's field @heap of a region on files? */
bool av_file_region_is(const struct av_seg *seg, uint32_t part);

/* A region has ended, with all copies. Peers unmap the files with the last one of a run. */
void av_file_region_end(struct av_seg *seg, uint32_t part);

/* The context is being closed, unused. */
void av_file_region_close(struct av_seg *seg);

/* === region count ================================================================ */

/* Counts of regions, and the nodes of the sparse trees over the owner's address space. */

/*
 * Nodes of the sparse trees over the owner's address space (device page table, record of
 * unmappings), over 4 KiB pages whatever the system's page size. They are in an area of a context's
 * segment (AV_ODP_OFFSET). Any process may create one; they live as long as the context.
 * Lock-free, from any thread of any process and the listener of odp_notify.c; no heap.
 */

#define AV_NODE_PAGE_SHIFT 12

/* A run of pages; both ends are included. */
struct av_page_run {
	uint64_t first, last;
};

/* The pages that a range touches, cut at the end of the address space. Return: false: none. */
static inline bool av_page_run_of(uint64_t addr, uint64_t len, struct av_page_run *r)
{
	if (len == 0)
		return false;
	r->first = addr >> AV_NODE_PAGE_SHIFT;
	r->last = (av_range_wraps(addr, len) ? UINT64_MAX : addr + (len - 1)) >> AV_NODE_PAGE_SHIFT;
	return true;
}

/* NULL if @offset is 0 or impossible: other processes may have written anything there. */
void *av_node_at(const struct av_seg *seg, uint64_t offset, uint64_t bytes);

/*
 * Take zeroed, backed bytes: below a page a power of two, so that none straddle pages. Return:
 * offset, or 0 if the area or the file system is full.
 */
AV_MUST_USE uint64_t av_node_take(struct av_seg *seg, uint64_t bytes);

/* Create a node and publish its offset at @where if that is still 0; else ours stays unused. */
void av_node_publish(struct av_seg *seg, _Atomic uint64_t *where, uint64_t bytes);

/*
 * Counters of memory regions: only events off the data path (observe/counters.h).
 *
 * Those of AV_KEY_CHUNK keys form a node in their context's segment,
 * created when one of these keys becomes an ODP region or has its first event. It also has one bit
 * per key that marks ODP regions, which are found by address through these bits.
 *
 * Any thread of any process; never blocks; takes no lock. Without room, nothing is counted.
 */

/* Reset the counters of a new key. Its entry is filled but not published. Owner's process only. */
void av_region_count_begin(struct av_seg *seg, uint32_t key, bool on_demand);

/* Add @n to a counter of a region. @seg: the key's segment, own or a peer's, but not a view. */
void av_region_count(struct av_seg *seg, uint32_t key, enum av_mr_counter which, uint64_t n);

/* Read the counters of a region. @seg may be a view. */
void av_region_counted(const struct av_seg *seg, uint32_t key, uint64_t value[AV_MR_GAUGES]);

/* --- ODP regions by address, for the listener of invalidations and for faults ---- */

/* How many a search looks at: faults must not get slower with every region. */
#define AV_ODP_REGION_LOOKS 64

struct av_odp_region {
	uint32_t key;
	uint64_t addr, length;
	bool whole; /* spans the whole address space */
};

/* Walk the ODP regions; *@at is 0 at first. Concurrent changes may be missed or appear old. */
AV_MUST_USE bool av_odp_region_next(const struct av_seg *seg, uint32_t *at,
				    struct av_odp_region *region);

/* Add @n to a counter of the ODP region at @addr, if any; the whole address space comes last. */
void av_odp_region_count(struct av_seg *seg, uint64_t addr, enum av_mr_counter which, uint64_t n);

#endif
