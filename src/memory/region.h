/* SPDX-License-Identifier: MIT */
/*
 * Regions: their registration, their report, and memory that was allocated too early to be
 * shared.
 */
#ifndef AV_MEMORY_REGION_H
#define AV_MEMORY_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "observe/counters.h"
#include "segment/segment.h"

/*
 * Memory that was allocated before the shared heap began, with the process's first device: of
 * registered memory, "anyverbs stat mr" and "doctor" say so, since it could be shared otherwise.
 */

/* Remember the large private mappings that there are now. One thread at a time. */
void av_early_note(void);

/* Lists the regions that all processes have registered with a device. */

enum av_region_memory {
	AV_REGION_PLAIN,     /* the program's memory */
	AV_REGION_SHARED,    /* the program's memory, on the shared heap: peers map it */
	AV_REGION_EARLY,     /* the program's memory, allocated before it opened a device */
	AV_REGION_ON_DEMAND, /* the program's memory, ODP */
	AV_REGION_DEVICE,    /* device memory */
	AV_REGION_NULL,	     /* no memory */
	AV_REGION_PAGES,     /* pages allocated by the library */
	AV_REGION_PRIVATE,   /* private memory allocated by the library */
	AV_REGION_MAPPED,    /* pages allocated by the library, for mapping only */
	AV_REGION_MEMORY_N
};

struct av_region_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
	uint32_t pd;	  /* number of the protection domain in its context */
	uint32_t key;
	uint64_t addr; /* in work requests */
	uint64_t length;
	enum av_region_memory memory;
	unsigned int type;     /* enum av_alloc_type, if the library allocated it */
	uint64_t huge, small;  /* number of 2 MiB and of 4 KiB pages, if the library allocated it */
	bool shared, writable; /* a shared region; others may write to it */
	bool second;	       /* a region on another region's pages */
	uint64_t counted[AV_MR_N];
};

/*
 * Visit each region of @device. One that is changing may be missing, or half changed. Any thread.
 */
void av_region_report(const char *device,
		      void (*visit)(const struct av_region_info *info, void *arg), void *arg);

/* The same for one context, given as a view (segment/segment_map.h). */
void av_region_report_of(const struct av_seg *seg,
			 void (*visit)(const struct av_region_info *info, void *arg), void *arg);

const char *av_region_memory_name(enum av_region_memory memory);

/* Registers ordinary memory: the checks of ibv_reg_mr(3) of memory and access flags. */

struct av_key;

struct av_region_request {
	uint64_t addr;	 /* first byte in this process */
	uint64_t length; /* bytes; 0 is allowed: such a region permits only zero-length accesses */
	uint64_t iova;	 /* address of the first byte in work requests */
	uint32_t access; /* as of struct av_key */
	bool private;	 /* the library has allocated it: peers do not map it */
};

/*
 * Prepare memory of this process for registration by the own context @seg. @what: out, all fields
 * of its key but pd. Populates the pages as pinning would (writable if the flags let anybody
 * write), but does not lock them. From here on their unmapping is noticed (memory/unmapped.h). If
 * it is on the shared heap (memory/heap_region.h), the caller ends that with the region.
 * Context: any thread; waits for pages; no lock held.
 * Return: 0, or EINVAL (flags, wrap-around, address and iova at different offsets in a page),
 * EFAULT (unmapped, or not writable), ENOMEM
 */
AV_MUST_USE int av_region_prepare(struct av_seg *seg, const struct av_region_request *req,
				  struct av_key *what);

/* Do both sets of flags need the same rights on the pages? */
bool av_region_same_rights(uint32_t from, uint32_t to);

/* Check the flags alone: 0, EINVAL or EOPNOTSUPP. Bits of the optional range are never refused. */
AV_MUST_USE int av_region_check_access(uint32_t access);

/* The same in an own context: accepts AV_ACCESS_TUNNELED if the device's switch is on. */
AV_MUST_USE int av_region_check_rights(const struct av_seg *seg, uint32_t access);

#endif
