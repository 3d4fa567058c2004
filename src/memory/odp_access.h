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
 * given up for another reason is not ended, and counts as none.
 */
#ifndef AV_MEMORY_ODP_ACCESS_H
#define AV_MEMORY_ODP_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

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

#endif
