/* SPDX-License-Identifier: MIT */
/* Registers ordinary memory: the checks of ibv_reg_mr(3) of memory and access flags. */
#ifndef AV_MEMORY_REGION_H
#define AV_MEMORY_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

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
