/* SPDX-License-Identifier: MIT */
/*
 * Memory that the library allocates for a region: IBV_EXP_ACCESS_ALLOCATE_MR, and shared regions.
 * Pages of the context's segment (segment/pages.h), mapped a second time for the program, so that
 * every process can access it by plain copies and by the processor's atomics. Private memory like
 * any that a program registers if small anonymous pages are requested, or no others are available.
 *
 * Every process with a region on a shared region's pages is a user of them (registry/page_users.h):
 * they stay until the last user leaves, whatever becomes of the first region.
 */
#ifndef AV_MEMORY_ALLOCATED_H
#define AV_MEMORY_ALLOCATED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "memory/key.h"
#include "registry/directory.h"
#include "segment/pages.h"
#include "segment/segment.h"

/* Rights that a shared region gives to the user's other processes, as in a file's mode. */
#define AV_SHARE_READ  (1u << 0)
#define AV_SHARE_WRITE (1u << 1)
#define AV_SHARED      (1u << 7) /* it is a shared region */
#define AV_SHARE_SECOND \
	(1u << 5) /* a region on a shared region's pages; its own handle gives access to nobody */

/* A region's memory in this process. */
struct av_allocated {
	void *map; /* NULL: none */
	uint64_t bytes;
	struct av_seg *seg;   /* the context of the region */
	uint32_t pages_owner; /* the context whose segment has the pages; 0: private memory */
	bool shared, writable;
	uint64_t at; /* offset of the pages in that segment */
};

struct av_allocate_request {
	void *wanted;	 /* where to map it; NULL: anywhere */
	uint64_t length; /* bytes, > 0 */
	uint32_t access; /* enum ibv_access_flags of the region */
	bool no_rdma;	 /* for mapping only: the region's keys are refused */
	uint8_t share;	 /* AV_SHARED and the rights, or 0 */
	struct av_page_policy policy;
};

/*
 * Allocate memory for a new region of an own context. @what: out, all fields of its key but pd.
 * Blocks.
 * Return: 0, EINVAL (rights, address), EEXIST (something is mapped at the wanted address), ENOMEM
 */
AV_MUST_USE int av_allocated_make(struct av_seg *seg, const struct av_allocate_request *req,
				  struct av_allocated *out, struct av_key *what);

struct av_attach_request {
	uint32_t handle; /* of the shared region: av_shared_handle() */
	void *wanted;	 /* as in struct av_allocate_request */
	uint32_t access; /* as in struct av_allocate_request */
	bool write;	 /* the program will write through its mapping */
	bool no_rdma;	 /* as in struct av_allocate_request */
};

/*
 * The memory of an existing shared region, in any process. Return: as above; EACCES: it does not
 * give these rights
 */
AV_MUST_USE int av_allocated_attach(struct av_seg *seg, const struct av_attach_request *req,
				    struct av_allocated *out, struct av_key *what);

/*
 * Unmap the memory of a region whose key has been destroyed, and free it or leave it to its other
 * users. @inherited: in a forked child, for a region of its parent: only unmap.
 */
void av_allocated_end(struct av_allocated *memory, bool inherited);

/* Could the region's access flags change to @access? 0, EINVAL or EACCES. */
AV_MUST_USE int av_allocated_check_access(const struct av_allocated *memory, uint32_t access);

/* Valid in all processes of the device: the slot of the context, above the index of the key. */
#define AV_HANDLE_INDEX_BITS 20
static inline uint32_t av_shared_handle(const struct av_seg *seg, uint32_t key)
{
	return AV_REF_SLOT(seg->ref) << AV_HANDLE_INDEX_BITS | AV_KEY_INDEX(key);
}

#endif
