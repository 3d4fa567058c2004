/* SPDX-License-Identifier: MIT */
#include "memory/key.h"

#include <errno.h>
#include <sched.h>

#include "base/patience.h"
#include "memory/pin.h"
#include "memory/region_count.h"
#include "segment/alloc.h"

/* 0 has index 0, which no key has. */
static_assert(AV_SLAB_CHUNKS * AV_KEY_CHUNK <= AV_KEY_INDEX(0xdeadbeefu), "numbers of no key");

/* The first tag differs between contexts, so that a key of one is rarely a key of another. */
static uint8_t first_tag(const struct av_seg *seg, uint32_t index)
{
	return (uint8_t)((seg->ref * 0x9e3779b1u ^ index * 0x85ebca6bu) >> 24);
}

AV_RACY bool av_key_was_given(const struct av_seg *seg, uint32_t key)
{
	const struct av_key *k = av_key_entry(seg, key);
	uint8_t first = first_tag(seg, AV_KEY_INDEX(key));

	if (!k || key == 0 || k->kind == AV_KEY_NONE)
		return false;
	return k->kind == AV_KEY_WINDOW || (uint8_t)(key - first - 1) < (uint8_t)(k->tag - first);
}

/* What is behind a UMR key is pinned by keys of its own. */
AV_RACY bool av_key_reaches(const struct av_seg *seg, uint32_t key, uint64_t begin, uint64_t end)
{
	const struct av_key *k = av_key_entry(seg, key);
	uint8_t kind = !k ? AV_KEY_NONE : k->kind == AV_KEY_WINDOW ? k->under : k->kind;

	return (kind == AV_KEY_REGION || kind == AV_KEY_ODP) && k->addr < end &&
	       begin < k->addr + k->length;
}

static void fill(struct av_key *k, const struct av_key *what)
{
	k->pd = what->pd;
	k->access = what->access;
	k->base = what->base;
	k->length = what->length;
	k->addr = what->addr;
	k->in_origin = what->in_origin;
	atomic_store_explicit(&k->intact, what->intact, memory_order_relaxed);
	if (k->kind != AV_KEY_WINDOW)
		k->heap = what->heap;
}

void av_key_describe(const struct av_key *k, struct av_key *what)
{
	*what = (struct av_key){.kind = k->kind};
	fill(what, k);
}

uint32_t av_key_create(struct av_seg *seg, const struct av_key *what, uint32_t limit)
{
	uint32_t index = av_slab_alloc(seg, AV_SLAB_KEY, limit);
	struct av_key *k = index ? av_key_entry(seg, index << 8) : NULL;
	uint32_t key;

	if (!k)
		return 0;
	if (k->kind == AV_KEY_NONE)
		k->tag = first_tag(seg, index);
	key = index << 8 | ++k->tag;
	k->kind = what->kind;
	k->qpn = k->windows = 0;
	fill(k, what);
	av_region_count_begin(seg, key, what->kind == AV_KEY_ODP);
	if (what->kind == AV_KEY_WINDOW)
		k->window_type = what->window_type;
	if (what->kind != AV_KEY_WINDOW) { /* a window's key gives no access until it is bound */
		atomic_store(&k->held, key);
		atomic_store_explicit(&k->key, key, memory_order_release);
	}
	return key;
}

/* On success @k's lock is held. Return: false: windows are bound to it */
static bool withdraw(struct av_key *k, bool for_good)
{
	av_lock_acquire_plain(&k->lock, AV_RANK_KEY);
	if (k->windows) {
		av_lock_release(&k->lock);
		return false;
	}
	if (for_good)
		atomic_store(&k->held, 0);
	atomic_store(&k->key, 0);
	return true;
}

/* The key is as it was. */
static void put_back(struct av_key *k, uint32_t key)
{
	atomic_store(&k->held, key);
	atomic_store_explicit(&k->key, key, memory_order_release);
}

static bool is_that(struct av_seg *seg, uint32_t key, const void *that)
{
	(void)seg;
	return key == *(const uint32_t *)that;
}

int av_key_destroy(struct av_seg *seg, uint32_t key, av_key_linger *linger)
{
	struct av_key *k = av_key_entry(seg, key);
	uint64_t until = 0;

	if (!withdraw(k, true))
		return EBUSY;
	k->tag = key & 0xff;
	av_lock_release(&k->lock);
	if (!av_pin_try_drain(seg, is_that, &key, &until)) {
		if (linger && linger(seg, key))
			return 0;
		if (!av_pin_drain(seg, key)) {
			put_back(k, key);
			return ETIMEDOUT;
		}
	}
	av_slab_free(seg, AV_SLAB_KEY, AV_KEY_INDEX(key));
	return 0;
}

void av_key_kill(struct av_seg *seg, uint32_t key)
{
	struct av_key *k = av_key_entry(seg, key);

	if (!k || !atomic_compare_exchange_strong(&k->held, &(uint32_t){key}, 0))
		return;
	atomic_store(&k->key, 0);
	(void)av_pin_drain(seg, key);
}

int av_key_change(struct av_seg *seg, uint32_t key, const struct av_key *what)
{
	struct av_key *k = av_key_entry(seg, key);

	if (!withdraw(k, false))
		return EBUSY;
	av_lock_release(&k->lock);
	if (!av_pin_drain(seg, key)) {
		put_back(k, key);
		return ETIMEDOUT;
	}
	av_lock_acquire_plain(&k->lock, AV_RANK_KEY); /* for readers without a pin */
	fill(k, what);
	k->kind = what->kind;
	av_lock_release(&k->lock);
	atomic_store_explicit(&k->key, key, memory_order_release);
	return 0;
}

struct av_key *av_key_lock_region(struct av_seg *seg, uint32_t key)
{
	struct av_key *k = key ? av_key_entry(seg, key) : NULL;
	uint64_t until = 0;

	/* Check first: a window's lock may be held for long. */
	while (k && atomic_load(&k->held) == key) {
		if (av_peer_lock(seg, &k->lock, AV_RANK_KEY) == AV_LOCK_BUSY)
			return NULL;
		if (atomic_load(&k->key) == key)
			return k;
		av_lock_release(&k->lock);
		if (!av_patient(&until) || !av_seg_alive(seg))
			return NULL;
		sched_yield();
	}
	return NULL;
}

bool av_key_is_on_demand(struct av_seg *seg, uint32_t key)
{
	struct av_key *k = av_key_entry(seg, key);
	bool is;

	/* Check first: a window's lock may be held for long. */
	if (!k || key == 0 || atomic_load(&k->held) != key ||
	    av_peer_lock(seg, &k->lock, AV_RANK_KEY) == AV_LOCK_BUSY)
		return false;
	is = atomic_load(&k->held) == key && k->kind == AV_KEY_ODP;
	av_lock_release(&k->lock);
	return is;
}
