/* SPDX-License-Identifier: MIT */
#include "memory/window_count.h"

#include "base/clock.h"
#include "base/patience.h"

#define TURNS 3

void av_window_count_less(struct av_seg *seg, uint32_t region)
{
	struct av_key *r = av_key_entry(seg, region);

	if (!r || av_peer_lock(seg, &r->lock, AV_RANK_KEY) == AV_LOCK_BUSY)
		return;
	if (av_window_count(r) > 0)
		r->windows = av_window_count(r) - 1;
	av_lock_release(&r->lock);
}

static void begin(struct av_key *region)
{
	av_lock_acquire_plain(&region->lock, AV_RANK_KEY);
	region->windows |= AV_WINDOWS_COUNTING;
	av_lock_release(&region->lock);
}

/* Return: false: the count has changed meanwhile */
static bool end(struct av_key *region, uint32_t bound)
{
	bool unchanged;

	av_lock_acquire_plain(&region->lock, AV_RANK_KEY);
	unchanged = region->windows & AV_WINDOWS_COUNTING;
	if (unchanged)
		region->windows = bound;
	av_lock_release(&region->lock);
	return unchanged;
}

/*
 * Add @k to *@bound if it is a window bound to that region. Who binds it meanwhile is waited for:
 * then that is in the count of the region, or will never be.
 * Return: false: not had in time
 */
static bool add(struct av_key *k, uint32_t region, uint64_t until_ns, uint32_t *bound)
{
	if (atomic_load(&k->kind) != AV_KEY_WINDOW)
		return true;
	if (av_lock_acquire_until(&k->lock, AV_RANK_KEY_RIGHT, until_ns) == AV_LOCK_BUSY)
		return false;
	if (k->kind == AV_KEY_WINDOW && atomic_load(&k->key) && k->region == region)
		++*bound;
	av_lock_release(&k->lock);
	return true;
}

/* Walks the table itself: a program that deallocates a window names it no more. */
static bool add_all(struct av_seg *seg, uint32_t region, uint64_t until_ns, uint32_t *bound)
{
	*bound = 0;
	for (uint32_t n = 0; n < AV_SLAB_CHUNKS; n++) {
		struct av_key *k = av_key_entry(seg, n * AV_KEY_CHUNK << 8);

		for (uint32_t i = 0; k && i < AV_KEY_CHUNK; i++)
			if (!add(&k[i], region, until_ns, bound))
				return false;
	}
	return true;
}

bool av_window_none_bound(struct av_seg *seg, uint32_t region)
{
	struct av_key *r = av_key_entry(seg, region);
	uint64_t until_ns = av_now_ns() + AV_PATIENCE_NS;
	uint32_t bound;

	for (int i = 0; i < TURNS; i++) {
		begin(r);
		if (!add_all(seg, region, until_ns, &bound))
			return false;
		if (end(r, bound))
			return bound == 0;
	}
	return false;
}
