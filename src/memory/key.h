/* SPDX-License-Identifier: MIT */
/*
 * The key table of a context: what an lkey or rkey stands for. Shared, so that a peer checks an
 * rkey without the help of its owner.
 *
 * A key is index << 8 | tag. The tag changes with each use of an index, and freed indices rest as
 * long as possible, so that a stale key is refused for as long as the key space allows. 0,
 * 0xffffffff and 0xdeadbeef are never keys.
 */
#ifndef AV_MEMORY_KEY_H
#define AV_MEMORY_KEY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "segment/segment.h"

#define AV_KEY_INDEX(key) ((key) >> 8)

/*
 * A right beside those of enum ibv_access_flags, of which it uses no bit: the payload of an RDMA
 * WRITE is atomic commands (transport/tunnel.h). Plain verbs do not know it.
 */
#define AV_ACCESS_TUNNELED (1u << 31)

/* What kind of thing is behind a key. */
enum av_key_kind {
	AV_KEY_NONE,
	AV_KEY_REGION,	 /* memory of the owner's address space; @addr: virtual address */
	AV_KEY_ODP,	 /* the same, paged in on demand */
	AV_KEY_DEVICE,	 /* device memory; @addr: offset in the segment */
	AV_KEY_NULL,	 /* no memory: reads give zeros, writes vanish; local use only */
	AV_KEY_DM_BLOCK, /* no key at all: a block of device memory, for importing it by handle;
			    @addr as above */
	AV_KEY_PAGES,  /* pages that the library allocated; @addr: offset in the segment of context
			  @intact */
	AV_KEY_MAPPED, /* the same for the program's own loads and stores: no key at all */
	AV_KEY_UMR,    /* pieces of other keys: memory/klm_list.h; @addr: offset of the list in the
			* segment
			*/
	AV_KEY_WINDOW, /* window onto a region: @addr and @under are the region's; remote use only
			*/
};

/*
 * The fields but @key, @lock, @windows, @intact and @held change only while @key is 0 and drained:
 * a reader that finds its own key there after the pin is set may use them until it ends the pin.
 */
struct av_key {
	_Atomic uint32_t key; /* 0: dead, or a window that is not bound */
	_Atomic uint32_t
		held; /* a region's key for as long as it exists, also while it is being changed */
	struct av_lock lock;  /* binding, filling, invalidating, re-registering and deregistering */
	uint32_t pd;	      /* handle of the protection domain */
	uint32_t access;      /* enum ibv_access_flags, and AV_ACCESS_TUNNELED */
	_Atomic uint8_t kind; /* enum av_key_kind; also looked at while the key is withdrawn */
	uint8_t under;	      /* of a window: the kind of its region */
	uint8_t tag;	      /* the last one used; owner only */
	union {
		uint8_t window_type; /* enum ibv_mw_type */
		uint8_t in_origin;   /* of device memory: it is in the context that is imported from
				      */
		uint8_t share; /* of pages: memory/allocated.h; of plain memory: AV_KEY_PRIVATE and
				* its like
				*/
	};
	union {
		uint32_t qpn; /* of a bound type-2 window: the only queue pair that may use it */
		uint32_t adopted; /* of plain memory: where its pages are, 0: in the owner;
				     memory/adopted.h */
	};
	union {
		uint32_t region;  /* of a bound window: its region's key */
		uint32_t windows; /* of a region: windows bound to it; under @lock */
	};
	/*
	 * Of plain memory: moment up to which it stayed mapped; memory/unmapped.h. Of pages: the
	 * context in whose segment they are, and what they are, from bit 32: enum av_alloc_type,
	 * number of huge ones.
	 */
	_Atomic uint64_t intact;
	uint64_t base;	 /* address of the first byte in the key's own address space */
	uint64_t length; /* bytes */
	uint64_t addr;	 /* where the first byte is; see the kinds */
};
static_assert(sizeof(struct av_key) == AV_KEY_BYTES, "key table entry");

#define AV_KEY_PRIVATE (1u << 6) /* memory that the library allocated, but not pages of a segment \
				  */
#define AV_KEY_HUGETLB	  (1u << 4) /* the same, from the system's pool of huge pages */
#define AV_KEY_HUGE_SHIFT 4	    /* in the upper half of @intact */
#define AV_KEY_HUGE_MAX	  (UINT32_MAX >> AV_KEY_HUGE_SHIFT)

/**
 * av_key_create() - publish a key with the fields of @what (all but key and tag)
 * @limit: number of keys the device may have in this context
 * Return: the key, or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_key_create(struct av_seg *seg, const struct av_key *what, uint32_t limit);

/**
 * av_key_destroy() - kill the key of a region and wait until nobody uses it
 *
 * After the return no access through it is under way and none will succeed. May wait as long as a
 * copy takes. Return: 0, or EBUSY while windows are bound to it (nothing has changed then)
 */
AV_MUST_USE int av_key_destroy(struct av_seg *seg, uint32_t key);

/**
 * av_key_change() - replace what a region's key stands for: all fields but those of windows
 *
 * Accesses that began before finish first; those that come meanwhile wait. Same return as
 * av_key_destroy().
 */
AV_MUST_USE int av_key_change(struct av_seg *seg, uint32_t key, const struct av_key *what);

/* Kill a key of another context, which its owner still has to destroy: a destroy of what was
 * imported. */
void av_key_kill(struct av_seg *seg, uint32_t key);

/*
 * Is that the key of a region on demand, now? For who has no part in what the segment's owner does
 * with it: looks with the key's lock, so that nothing of it changes meanwhile. The segment stays
 * (the caller's business).
 */
bool av_key_is_on_demand(struct av_seg *seg, uint32_t key);

/*
 * Was that key ever given out? By its tag: exact for the first 255 occupants of an index;
 * afterwards, and for the windows' keys, whose tags programs choose, "yes". For explanations.
 */
bool av_key_was_given(const struct av_seg *seg, uint32_t key);

/* The table's entry for a key's index, whatever key is there now; NULL if there is no such index.
 */
static inline struct av_key *av_key_entry(const struct av_seg *seg, uint32_t key)
{
	return av_slab_at(seg, AV_SLAB_KEY, AV_KEY_INDEX(key), AV_KEY_BYTES, AV_KEY_CHUNK);
}

#endif
