/* SPDX-License-Identifier: MIT */
/* Registering ordinary memory: the checks of ibv_reg_mr(3) that concern the memory and the access
 * flags. */
#ifndef AV_MEMORY_REGION_H
#define AV_MEMORY_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

struct av_key;

struct av_region_request {
	uint64_t addr;	 /* first byte in this process */
	uint64_t length; /* bytes; 0 is allowed: the region then permits zero-length access only */
	uint64_t iova;	 /* address of the first byte in work requests */
	uint32_t access; /* as of struct av_key */
	bool private;	 /* the pages are to stay where they are: memory/adopt.h */
};

/**
 * av_region_prepare() - make memory of this process ready to be registered
 * @seg: the own context it is for
 * @what: out, the fields of its key but pd
 *
 * The pages are brought in (writable if the flags say that anybody may write), as pinning would,
 * but not locked; from then on their unmapping is noticed (memory/unmapped.h). What of it is
 * adopted (memory/adopt.h) the caller ends with the region. Context: any thread; waits for pages;
 * no lock held. Return:  0, or EINVAL (flags, wrap-around, address and iova in different places of
 * a page), EFAULT (unmapped, or not writable), ENOMEM
 */
AV_MUST_USE int av_region_prepare(struct av_seg *seg, const struct av_region_request *req,
				  struct av_key *what);

/* Does a change from one set of flags to the other leave what the pages must permit as it is? */
bool av_region_same_rights(uint32_t from, uint32_t to);

/* The flags alone: 0, EINVAL or EOPNOTSUPP. Bits of the optional range are never refused. */
AV_MUST_USE int av_region_check_access(uint32_t access);

/* The same for a region of an own context's ordinary memory, which may have AV_ACCESS_TUNNELED if
 * the device's switch is on. */
AV_MUST_USE int av_region_check_rights(const struct av_seg *seg, uint32_t access);

#endif
