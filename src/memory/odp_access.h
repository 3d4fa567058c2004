/* SPDX-License-Identifier: MIT */
/*
 * Wraps an access of the device to ODP memory: decides whether it is a page fault event, and
 * settles it.
 *
 *     av_odp_begin(seg, addr, len, write, &access);
 *     ok = copy the bytes, by whatever way;
 *     av_odp_end(&access, ok);
 *
 * A hit costs a few loads, and end() one comparison. Nothing is held in between. An access that is
 * given up for another reason (the other end's memory failed, the peer is gone) is simply not
 * ended, and then counts as none.
 */
#ifndef AV_MEMORY_ODP_ACCESS_H
#define AV_MEMORY_ODP_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

struct av_odp_access {
	struct av_seg *seg; /* the owner of the memory; borrowed */
	uint64_t addr, len;
	uint64_t missing; /* pages that are invalid for this access; 0: a hit */
	uint64_t stamp;	  /* stamp of the range, see odp_table.h */
	bool write;
	bool markable; /* the table has room for the range */
	bool steady;   /* the whole range was mapped when looked at */
};

/**
 * av_odp_begin() - look up the pages of an access
 * @addr, @len: in the address space of @seg's owner, whichever process moves the bytes
 *
 * Context: any thread; hold no lock that others spin on (execution rights are fine). A miss makes
 * system calls.
 */
void av_odp_begin(struct av_seg *seg, uint64_t addr, uint64_t len, bool write,
		  struct av_odp_access *access);

/* The slow part of av_odp_end(). */
void av_odp_end_fault(const struct av_odp_access *access, bool ok);

/**
 * av_odp_end() - the access has been made
 * @ok: all bytes were moved; false: this memory failed (unmapped, protected)
 *
 * A miss was a page fault event: its pages become valid unless they were invalidated meanwhile. A
 * hit that failed is a page fault event that could not be resolved, because the kernel does not
 * report every invalidation (docs/ODP.md).
 */
static inline void av_odp_end(const struct av_odp_access *access, bool ok)
{
	if (av_unlikely(access->missing || !ok))
		av_odp_end_fault(access, ok);
}

#endif
