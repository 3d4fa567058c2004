/* SPDX-License-Identifier: MIT */
/*
 * Nodes of the sparse trees over the owner's address space (device page table, record of
 * unmappings), over 4 KiB pages whatever the system's page size. They are in an area of a context's
 * segment (AV_ODP_OFFSET). Any process may create one; they live as long as the context.
 * Lock-free, from any thread of any process and the listener of odp_notify.c; no heap.
 */
#ifndef AV_MEMORY_NODES_H
#define AV_MEMORY_NODES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "segment/segment.h"

#define AV_NODE_PAGE_SHIFT 12

/* A run of pages; both ends are included. */
struct av_page_run {
	uint64_t first, last;
};

/* The pages that a range touches, cut at the end of the address space. Return: false: none. */
static inline bool av_page_run_of(uint64_t addr, uint64_t len, struct av_page_run *r)
{
	if (len == 0)
		return false;
	r->first = addr >> AV_NODE_PAGE_SHIFT;
	r->last = (av_range_wraps(addr, len) ? UINT64_MAX : addr + (len - 1)) >> AV_NODE_PAGE_SHIFT;
	return true;
}

/* NULL if @offset is 0 or impossible: other processes may have written anything there. */
void *av_node_at(const struct av_seg *seg, uint64_t offset, uint64_t bytes);

/*
 * Take zeroed, backed bytes: below a page a power of two, so that none straddle pages. Return:
 * offset, or 0 if the area or the file system is full.
 */
AV_MUST_USE uint64_t av_node_take(struct av_seg *seg, uint64_t bytes);

/* Create a node and publish its offset at @where if that is still 0; else ours stays unused. */
void av_node_publish(struct av_seg *seg, _Atomic uint64_t *where, uint64_t bytes);

#endif
