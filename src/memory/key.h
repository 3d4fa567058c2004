/* SPDX-License-Identifier: MIT */
/*
 * The key table of a context: what each lkey or rkey stands for. Shared, so that a peer can check
 * an rkey without its owner.
 *
 * A key is index << 8 | tag. The tag changes each time an index is reused, and freed indices rest
 * as long as possible, so that a stale key is refused. 0, 0xffffffff and 0xdeadbeef are never keys.
 */
#ifndef AV_MEMORY_KEY_H
#define AV_MEMORY_KEY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "segment/segment.h"

/* An RDMA WRITE's payload is atomic commands (transport/op_atomic.h); unknown to plain verbs. */
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
	AV_KEY_UMR,    /* pieces of other keys: memory/klm_list.h; @addr: offset of the list in the
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
		uint8_t share;	     /* pages: memory/allocated.h; plain memory: AV_KEY_PRIVATE,
					AV_KEY_HUGETLB, AV_KEY_EARLY */
	};
	union {
		uint32_t qpn;  /* of a bound type-2 window: the only queue pair that may use it */
		uint32_t heap; /* of plain memory: its part of the shared heap, memory/heap_part.h,
				  or its run of files, segment/file_view.h; 0: neither */
	};
	union {
		uint32_t region;  /* bound window: its region's key */
		uint32_t windows; /* region: memory/window_count.h; under @lock */
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
#define AV_KEY_EARLY	  (1u << 7) /* allocated before the shared heap began: memory/early.h */
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
typedef bool av_key_linger(struct av_seg *seg, uint32_t key);

/*
 * End a region's key and its uses, for memory/region_end.h.
 * @linger: asked if a peer is stopped in such a use; NULL: no
 * Return: 0; EBUSY: windows are counted, and nothing has changed; ETIMEDOUT: a peer has been
 * stopped in a use, and nothing has changed, but other uses were refused meanwhile.
 */
AV_MUST_USE int av_key_destroy(struct av_seg *seg, uint32_t key, av_key_linger *linger);

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
