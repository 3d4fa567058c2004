/* SPDX-License-Identifier: MIT */
/*
 * Memory that the library allocates for a region: IBV_EXP_ACCESS_ALLOCATE_MR, and shared regions.
 *
 * It is pages of the context's segment (segment/pages.h), mapped once more for the program, so that
 * every process reaches it by plain copies and by the processor's atomics; or, if small anonymous
 * pages are asked for or there are no others, private memory of the process like any that a program
 * registers.
 *
 * A shared region's pages are held by each process with a region on them (registry/page_users.h):
 * they stay until the last of these has gone, whatever becomes of the first.
 */
#ifndef AV_MEMORY_ALLOCATED_H
#define AV_MEMORY_ALLOCATED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "registry/directory.h"
#include "segment/page_policy.h"
#include "segment/segment.h"
#include "memory/key.h"

/* Rights that a shared region gives to others; as in a file's mode, those of its user are what
 * counts for the same user, and nobody else gets here. */
#define AV_SHARE_READ  (1u << 0)
#define AV_SHARE_WRITE (1u << 1)
#define AV_SHARED      (1u << 7) /* it is one at all */
/* A region on such a one's pages: its own handle gives them to nobody. */
#define AV_SHARE_SECOND (1u << 5)

/* A region's memory as its process has it. */
struct av_allocated {
	void *map; /* NULL: none */
	uint64_t bytes;
	struct av_seg *seg;   /* context whose region it is */
	uint32_t pages_owner; /* context in whose segment the pages are; 0: private memory */
	bool shared, writable;
	uint64_t at; /* their offset there */
};

struct av_allocate_request {
	void *wanted;	 /* where to map it; NULL: anywhere */
	uint64_t length; /* bytes, > 0 */
	uint32_t access; /* enum ibv_access_flags of the region */
	bool no_rdma;	 /* to be mapped only: the region's keys are refused */
	uint8_t share;	 /* AV_SHARED and the rights, or 0 */
	struct av_page_policy policy;
};

/**
 * av_allocated_make() - memory for a new region of an own context
 * @what: out, the fields of its key but pd
 * Context: any thread; blocks. Return: 0, EINVAL (rights, address), EEXIST (something is mapped in
 * the wanted place), ENOMEM
 */
AV_MUST_USE int av_allocated_make(struct av_seg *seg, const struct av_allocate_request *req,
				  struct av_allocated *out, struct av_key *what);

struct av_attach_request {
	uint32_t handle; /* of the shared region: av_shared_handle() */
	void *wanted;	 /* as above */
	uint32_t access; /* likewise */
	bool write;	 /* the program is to write through its mapping */
	bool no_rdma;	 /* likewise */
};

/**
 * av_allocated_attach() - the memory of a shared region, for another region on it, of this process
 * or another Return: 0, EINVAL (no such region; rights; address), EACCES (it does not give these
 * rights), EEXIST, ENOMEM
 */
AV_MUST_USE int av_allocated_attach(struct av_seg *seg, const struct av_attach_request *req,
				    struct av_allocated *out, struct av_key *what);

/**
 * av_allocated_end() - unmap it, and give it back or leave it to others
 * @inherited: in a forked child, of a region of its parent: only the mapping ends
 *
 * The region's key has ended.
 */
void av_allocated_end(struct av_allocated *memory, bool inherited);

/* Rights of a region on it, if they were to change: 0, EINVAL or EACCES. */
AV_MUST_USE int av_allocated_check_access(const struct av_allocated *memory, uint32_t access);

/*
 * The handle of a shared region: among all processes of the device, the slot of its context above
 * the index of its key. Handles of other regions are the index alone.
 */
#define AV_HANDLE_INDEX_BITS 20
static inline uint32_t av_shared_handle(const struct av_seg *seg, uint32_t key)
{
	return AV_REF_SLOT(seg->ref) << AV_HANDLE_INDEX_BITS | AV_KEY_INDEX(key);
}

#endif
