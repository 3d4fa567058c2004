/* SPDX-License-Identifier: MIT */
/*
 * Nodes of the sparse trees over the owner's address space, in an area of a context's segment
 * (AV_ODP_OFFSET): the device page table and the record of unmappings. They are made by whoever needs one, in
 * any process, and live as long as the context.
 *
 * Thread-safety: lock-free, any thread of any process, and the listener of odp_notify.c; takes memory of the
 * segment only.
 */
#ifndef AV_MEMORY_NODES_H
#define AV_MEMORY_NODES_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"
#include "hca/segment.h"

/* The node at an offset of the segment, or NULL if there is none (0), or none can be there: what other
 * processes wrote is not believed. */
void *av_node_at(const struct av_seg *seg, uint64_t offset, uint64_t bytes);

/* Zeroed, backed bytes for a node. Return: offset in the segment, or 0 (the area or the file system is full)
 */
AV_MUST_USE uint64_t av_node_take(struct av_seg *seg, uint64_t bytes);

/* Make a node and publish its offset at @where, which was 0. If somebody else was faster, ours stays unused.
 */
void av_node_publish(struct av_seg *seg, _Atomic uint64_t *where, uint64_t bytes);

#endif
