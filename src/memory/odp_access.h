/* SPDX-License-Identifier: MIT */
/*
 * An access of the device to on-demand memory: is it a page fault event, and what becomes of it?
 *
 *	av_odp_begin(seg, addr, len, write, &access);
 *	ok = copy the bytes, by whatever way;
 *	av_odp_end(&access, ok);
 *
 * A hit costs a few loads and end() a comparison. Nothing is held in between: an access that is
 *given up for another reason (the other end's memory failed, the peer is gone) is simply not ended,
 *and was none.
 */
#ifndef AV_MEMORY_ODP_ACCESS_H
#define AV_MEMORY_ODP_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

struct av_odp_access {
	struct av_seg *seg; /* whose memory; borrowed */
	uint64_t addr, len;
	uint64_t missing; /* pages that were not valid for this access; 0: a hit */
	uint64_t stamp;	  /* see odp_table.h */
	bool write;
	bool markable; /* the table has room for it */
	bool steady;   /* all of it was mapped when it was looked at */
};

/**
 * av_odp_begin() - look the pages of an access up
 * @addr, @len: in the address space of @seg's owner, whichever process moves the bytes
 *
 * Context: any thread; no lock that others spin on is held (execution rights are fine). A miss
 * makes system calls.
 */
void av_odp_begin(struct av_seg *seg, uint64_t addr, uint64_t len, bool write,
		  struct av_odp_access *access);

/* The slow part of av_odp_end(). */
void av_odp_end_fault(const struct av_odp_access *access, bool ok);

/**
 * av_odp_end() - the access has been made
 * @ok: all bytes were moved; false: this memory refused (unmapped, protected)
 *
 * A miss was a page fault event: its pages become valid, unless they were invalidated meanwhile. A
 * hit that was refused is an event that could not be resolved, too: the kernel does not report
 * everything (docs/ODP.md).
 */
static inline void av_odp_end(const struct av_odp_access *access, bool ok)
{
	if (av_unlikely(access->missing || !ok))
		av_odp_end_fault(access, ok);
}

#endif
