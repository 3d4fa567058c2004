/* SPDX-License-Identifier: MIT */
#include "memory/odp_evict.h"

#include "base/lock.h"
#include "memory/key.h"
#include "memory/odp_counters.h"
#include "memory/odp_table.h"
#include "memory/region_count.h"

#define IMPLICIT SIZE_MAX

/* --- invalidation; the listener comes here: no heap, no lock --------------------- */

/* Clear the overlap of a region and the range. Return: pages that were valid. */
static uint64_t invalidate_region(struct av_seg *seg, const struct av_odp_region *r, uint64_t addr,
				  uint64_t len)
{
	uint64_t last = addr + (len - 1), end = r->addr + (r->length - 1), first, pages;

	if (r->length == 0 || r->addr > last || end < addr)
		return 0;
	first = r->addr > addr ? r->addr : addr;
	pages = av_odp_clear(seg, first, (end < last ? end : last) - first + 1);
	if (pages) {
		av_region_count(seg, r->key, AV_MR_INVALIDATION_PAGES, pages);
		av_region_count(seg, r->key, AV_MR_INVALIDATIONS, 1);
	}
	return pages;
}

/* Implicit regions last: exactly one of overlapping regions counts each page. */
static uint64_t invalidate_regions(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	struct av_odp_region r, whole = {0};
	uint64_t pages = 0;
	uint32_t at = 0;

	for (int i = 0; i < AV_ODP_REGION_LOOKS && av_odp_region_next(seg, &at, &r); i++) {
		if (r.whole)
			whole = r;
		else
			pages += invalidate_region(seg, &r, addr, len);
	}
	return pages + invalidate_region(seg, &whole, addr, len);
}

void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	uint64_t pages;

	if (len == 0)
		return;
	pages = invalidate_regions(seg, addr, len) + av_odp_clear(seg, addr, len);
	if (!pages)
		return;
	av_odp_count(seg, AV_ODP_COUNT_INVALIDATION_PAGES, pages);
	/* After the pages: who sees the event sees its pages. */
	av_odp_count(seg, AV_ODP_COUNT_INVALIDATIONS, 1);
}

/* --- eviction -------------------------------------------------------------------- */

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

/* If the region ends meanwhile, the invalidated pages belong to nobody: harmless. */
static void visit(struct av_seg *seg, const struct av_odp_eviction *how, struct av_key *k)
{
	uint64_t addr = 0, length = 0;

	/* Checked before locking, because a window's lock may be held for long. */
	if (!k || !is_meant(k, how) || av_peer_lock(seg, &k->lock, AV_RANK_KEY) == AV_LOCK_BUSY)
		return;
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
