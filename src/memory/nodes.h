/* SPDX-License-Identifier: MIT */
/*
 * What the sparse trees over the owner's address space share, the device page table and the record
 * of unmappings: ranges as pages of 4 KiB (whatever the system's page size), and nodes in an area
 * of a context's segment (AV_ODP_OFFSET). They are made by whoever needs one, in any process, and
 * live as long as the context.
 *
 * Thread-safety: lock-free, any thread of any process, and the listener of odp_notify.c; takes
 * memory of the segment only.
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

/* Pages, both included. */
struct av_page_run {
	uint64_t first, last;
};

/* The pages that [addr, addr + len) touches; a range beyond the end of addresses ends there.
 * Return: false if there are none */
static inline bool av_page_run_of(uint64_t addr, uint64_t len, struct av_page_run *r)
{
	if (len == 0)
		return false;
	r->first = addr >> AV_NODE_PAGE_SHIFT;
	r->last = (av_range_wraps(addr, len) ? UINT64_MAX : addr + (len - 1)) >> AV_NODE_PAGE_SHIFT;
	return true;
}

/* The node at an offset of the segment, or NULL if there is none (0), or none can be there: what
 * other processes wrote is not believed. */
void *av_node_at(const struct av_seg *seg, uint64_t offset, uint64_t bytes);

/* Zeroed, backed bytes for a node. Return: offset in the segment, or 0 (the area or the file system
 * is full)
 */
AV_MUST_USE uint64_t av_node_take(struct av_seg *seg, uint64_t bytes);

/* Make a node and publish its offset at @where, which was 0. If somebody else was faster, ours
 * stays unused.
 */
void av_node_publish(struct av_seg *seg, _Atomic uint64_t *where, uint64_t bytes);

#endif
