/* SPDX-License-Identifier: MIT */
/* Evicts pages of ODP regions. */
#include "memory/odp_evict.h"

#include "base/lock.h"
#include "memory/key.h"
#include "memory/odp_invalidate.h"
#include "memory/odp_table.h"

#define IMPLICIT SIZE_MAX

static void evict(struct av_seg *seg, const struct av_odp_eviction *how, uint64_t addr,
		  uint64_t length)
{
	uint64_t first = addr >> AV_NODE_PAGE_SHIFT, pages = av_odp_pages(addr, length);

	if (how->pages == UINT32_MAX || length == IMPLICIT) {
		av_odp_invalidate(seg, addr, length);
		return;
	}
	for (uint32_t i = 0; i < how->pages && pages; i++)
		av_odp_invalidate(seg, (first + how->chance(how->arg, pages)) << AV_NODE_PAGE_SHIFT,
				  1ull << AV_NODE_PAGE_SHIFT);
}

static bool is_meant(const struct av_key *k, const struct av_odp_eviction *how)
{
	uint32_t key = atomic_load(&k->held);

	return key && atomic_load(&k->kind) == AV_KEY_ODP && (!how->key || how->key == key);
}

/*
 * The region may end once the lock is released; then the invalidated pages belong to nobody, which
 * is harmless.
 */
static void visit(struct av_seg *seg, const struct av_odp_eviction *how, struct av_key *k)
{
	uint64_t addr = 0, length = 0;

	/* Checked before locking, because a window's lock may be held for long. */
	if (!k || !is_meant(k, how))
		return;
	av_lock_acquire_plain(&k->lock, AV_RANK_KEY);
	if (is_meant(k, how)) {
		addr = k->addr;
		length = k->length;
	}
	av_lock_release(&k->lock);
	if (length)
		evict(seg, how, addr, length);
}

void av_odp_evict(struct av_seg *seg, const struct av_odp_eviction *how)
{
	for (uint32_t chunk = 0; chunk < AV_SLAB_CHUNKS; chunk++) {
		if (!atomic_load(&seg->head->chunk[AV_SLAB_KEY][chunk]))
			continue;
		for (uint32_t i = 0; i < AV_KEY_CHUNK; i++)
			visit(seg, how,
			      av_slab_at(seg, AV_SLAB_KEY, chunk * AV_KEY_CHUNK + i, AV_KEY_BYTES,
					 AV_KEY_CHUNK));
	}
}
