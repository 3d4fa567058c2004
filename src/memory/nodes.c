/* SPDX-License-Identifier: MIT */
#include "memory/nodes.h"

#include "copy/copy.h"

void *av_node_at(const struct av_seg *seg, uint64_t offset, uint64_t bytes)
{
	if (av_unlikely((offset & (AV_CACHE_LINE - 1)) ||
			!av_range_within(offset, bytes, AV_ODP_OFFSET, AV_ODP_BYTES)))
		return NULL;
	return (uint8_t *)seg->head + offset;
}

/* Make the file system allocate real pages for a node. Return: false if it is full. */
static bool back(const struct av_seg *seg, uint64_t offset, uint64_t bytes)
{
	const uint8_t *p = (const uint8_t *)seg->head + offset;

	for (uint64_t at = 0; at < bytes; at += 4096)
		if (av_copy_probe(p + at, 1) != AV_COPY_OK)
			return false;
	return true;
}

/*
 * Backs the bytes before taking them: a full file system must not use up the area. Another process
 * may take them meanwhile; probing does not change them.
 */
uint64_t av_node_take(struct av_seg *seg, uint64_t bytes)
{
	_Atomic uint64_t *brk = &seg->head->odp_brk;
	uint64_t align = bytes < 4096 ? bytes : 4096; /* small nodes do not straddle pages */
	uint64_t old = atomic_load(brk), begin;

	do {
		if (old > AV_ODP_BYTES)
			return 0;
		begin = av_round_up(old, align);
		if (!av_range_within(begin, bytes, 0, AV_ODP_BYTES) ||
		    !back(seg, AV_ODP_OFFSET + begin, bytes))
			return 0;
	} while (!atomic_compare_exchange_weak(brk, &old, begin + bytes));
	return AV_ODP_OFFSET + begin;
}

void av_node_publish(struct av_seg *seg, _Atomic uint64_t *where, uint64_t bytes)
{
	uint64_t none = 0, offset = av_node_take(seg, bytes);

	if (offset)
		atomic_compare_exchange_strong(where, &none, offset);
}
