/* SPDX-License-Identifier: MIT */
#include "memory/klm_list.h"

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "memory/linger.h"
#include "memory/pin.h"
#include "memory/key.h"
#include "segment/alloc.h"

uint64_t av_klm_alloc(struct av_seg *seg, uint32_t capacity)
{
	uint64_t at = av_seg_alloc(seg, av_klm_bytes(capacity));
	struct av_klm_list *list = at ? av_seg_at(seg, at, av_klm_bytes(capacity)) : NULL;

	if (list)
		list->capacity = capacity;
	return at;
}

void av_klm_free(struct av_seg *seg, uint64_t list, uint32_t capacity)
{
	av_linger_free_memory(seg, list, av_klm_bytes(capacity));
}

/* Do all addresses of an element fit 64 bits? */
static bool entry_fits(const struct av_klm_entry *e, uint64_t rounds)
{
	uint64_t last;

	if (e->length == 0)
		return true;
	return !__builtin_mul_overflow(rounds - 1, e->stride, &last) &&
	       !__builtin_add_overflow(last, e->addr, &last) && !av_range_wraps(last, e->length);
}

int av_klm_layout(struct av_klm_entry *entries, uint32_t count, uint64_t rounds, uint64_t base)
{
	uint64_t round = 0, total;

	for (uint32_t i = 0; i < count; i++) {
		entries[i].start = round;
		if (!entry_fits(&entries[i], rounds) ||
		    __builtin_add_overflow(round, entries[i].length, &round))
			return EINVAL;
	}
	if (__builtin_mul_overflow(round, rounds, &total) || av_range_wraps(base, total))
		return EINVAL;
	return 0;
}

static uint64_t round_of(const struct av_klm_fill *fill)
{
	const struct av_klm_entry *last = fill->count ? &fill->entries[fill->count - 1] : NULL;

	return last ? last->start + last->length : 0;
}

/* Context: the key's lock is held, the key is withdrawn, and nobody uses it. */
static void replace(struct av_key *k, struct av_klm_list *list, const struct av_klm_fill *fill)
{
	list->count = fill->count;
	list->round = round_of(fill);
	if (fill->count)
		memcpy(list->at, fill->entries, fill->count * sizeof(fill->entries[0]));
	k->access = fill->access;
	k->base = fill->base;
	k->length = list->round * fill->rounds;
}

static int fill_locked(struct av_seg *seg, struct av_key *k, const struct av_klm_fill *fill)
{
	struct av_klm_list *list;
	uint64_t place;
	bool drained;

	if (atomic_load(&k->held) != fill->key || k->kind != AV_KEY_UMR || k->pd != fill->pd)
		return EINVAL;
	place = __atomic_load_n(&k->addr, __ATOMIC_RELAXED);
	list = av_seg_at(seg, place, sizeof(*list));
	if (!list || fill->count > list->capacity ||
	    !av_seg_at(seg, place, av_klm_bytes(fill->count)))
		return EINVAL;
	atomic_store(&k->key, 0);
	drained = av_pin_drain(seg, fill->key);
	if (drained)
		replace(k, list, fill);
	atomic_store_explicit(&k->key, fill->key, memory_order_release);
	return drained ? 0 : EINVAL;
}

int av_klm_fill(struct av_seg *seg, const struct av_klm_fill *fill)
{
	struct av_key *k = fill->key ? av_key_entry(seg, fill->key) : NULL;
	int ret;

	/* Check first: this may be a window by now, whose lock may be held for long. */
	if (!k || atomic_load(&k->held) != fill->key)
		return EINVAL;
	if (av_peer_lock(seg, &k->lock, AV_RANK_KEY_RIGHT) == AV_LOCK_BUSY)
		return EINVAL;
	ret = fill_locked(seg, k, fill);
	av_lock_release(&k->lock);
	return ret;
}
