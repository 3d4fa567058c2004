/* SPDX-License-Identifier: MIT */
/* Keys: what is behind one, who may change it, and who is using it. */
#ifndef AV_MEMORY_KEY_H
#define AV_MEMORY_KEY_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "segment/segment.h"

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

/* An RDMA WRITE's payload is atomic commands (transport/operations.h); unknown to plain verbs. */
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
	AV_KEY_UMR,	 /* pieces of other keys: memory/klm.h; @addr: offset of the list in the
			    segment */
	AV_KEY_WINDOW,	 /* a window onto a region; @addr and @under are those of the region; remote
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
		uint8_t share;	     /* pages: memory/allocated.h; plain memory: AV_KEY_PRIVATE,
					AV_KEY_HUGETLB, AV_KEY_EARLY */
	};
	union {
		uint32_t qpn;  /* of a bound type-2 window: the only queue pair that may use it */
		uint32_t heap; /* of plain memory: its part of the heap, memory/shared_region.h, or
				  its run of files, segment/file_view.h; 0: neither */
	};
	union {
		uint32_t region;  /* bound window: its region's key */
		uint32_t windows; /* region: memory/window.h; under @lock */
	};
	/*
	 * Plain memory: the moment up to which it stayed mapped (memory/unmapped.h). Pages: the
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
 * End a region's key and its uses, for memory/deferred_free.h.
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

#endif
