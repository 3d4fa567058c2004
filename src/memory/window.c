/* SPDX-License-Identifier: MIT */
#include "memory/key.h"

/* One has been unbound from that region. Context: the window's lock is held. */
static void window_count_less(struct av_seg *seg, uint32_t region)
{
	struct av_key *r = av_key_entry(seg, region);

	if (!r || av_peer_lock(seg, &r->lock, AV_RANK_KEY) == AV_LOCK_BUSY)
		return;
	if (av_window_count(r) > 0)
		r->windows = av_window_count(r) - 1;
	av_lock_release(&r->lock);
}

uint32_t av_window_create(struct av_seg *seg, uint8_t type, uint32_t pd, uint32_t limit)
{
	struct av_key what = {.kind = AV_KEY_WINDOW, .window_type = type, .pd = pd};

	return av_key_create(seg, &what, limit);
}

/* While the region changes, its rkey is unbound, and keeps what it was bound to. */
AV_RACY uint32_t av_window_rkey_of(struct av_seg *seg, uint32_t region)
{
	for (uint32_t n = 0; n < AV_SLAB_CHUNKS; n++) {
		const struct av_key *k = av_key_entry(seg, n * AV_KEY_CHUNK << 8);

		for (uint32_t i = 0; k && i < AV_KEY_CHUNK; i++)
			if (k[i].kind == AV_KEY_WINDOW && k[i].window_type == AV_WINDOW_RKEY &&
			    k[i].region == region)
				return k[i].held;
	}
	return region;
}

static struct av_key *window_entry(struct av_seg *seg, uint32_t key)
{
	struct av_key *k = av_key_entry(seg, key);

	return k && k->kind == AV_KEY_WINDOW ? k : NULL;
}

/*
 * Context: the window's lock is held. Afterwards no access through the old binding is under way.
 * Return: false: one does not end, and the window is bound as before
 */
static bool unbind(struct av_seg *seg, struct av_key *w)
{
	uint32_t key = atomic_load(&w->key), region = w->region;

	if (key == 0)
		return true;
	atomic_store(&w->key, 0);
	if (!av_pin_drain(seg, key)) {
		atomic_store_explicit(&w->key, key, memory_order_release);
		return false;
	}
	w->qpn = 0;
	window_count_less(seg, region);
	if (w->window_type != AV_WINDOW_RKEY)
		w->region = 0;
	return true;
}

int av_window_destroy(struct av_seg *seg, uint32_t key)
{
	struct av_key *w = window_entry(seg, key);
	bool ended;

	if (!w)
		return 0;
	av_lock_acquire_plain(&w->lock, AV_RANK_KEY_CHANGE);
	ended = unbind(seg, w);
	if (ended) {
		w->was_region = w->window_type == AV_WINDOW_RKEY;
		w->region = 0;
		w->kind = AV_KEY_REGION; /* no longer a window, and nothing else yet */
		atomic_store(&w->held, 0);
	}
	av_lock_release(&w->lock);
	if (!ended)
		return EBUSY;
	av_slab_free(seg, AV_SLAB_KEY, AV_KEY_INDEX(key));
	return 0;
}

/* The checks of a bind that concern the window alone. Context: its lock is held. */
static enum av_check check_window(const struct av_key *w, const struct av_window_bind *bind)
{
	if (AV_KEY_INDEX(bind->rkey) != AV_KEY_INDEX(bind->window) || bind->rkey == 0)
		return AV_CHECK_BIND_WINDOW;
	if ((w->window_type == AV_WINDOW_RKEY) != bind->is_rkey)
		return AV_CHECK_BIND_WINDOW;
	if (bind->is_rkey)
		return AV_CHECK_NONE;
	if (w->pd != bind->pd)
		return AV_CHECK_BIND_PD;
	if (bind->access & ~AV_WINDOW_ACCESS)
		return AV_CHECK_BIND_FLAGS;
	if (w->window_type == IBV_MW_TYPE_1)
		return (bind->access & IBV_ACCESS_ZERO_BASED) || (!bind->region && bind->length)
			       ? AV_CHECK_BIND_TYPE
			       : AV_CHECK_NONE;
	if (!bind->region || bind->length == 0)
		return AV_CHECK_BIND_LENGTH;
	return atomic_load(&w->key) ? AV_CHECK_BIND_BOUND : AV_CHECK_NONE;
}

/* Those that concern its region. Context: the region's lock is held. */
static enum av_check check_region(const struct av_key *r, const struct av_window_bind *bind)
{
	const uint32_t changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if (bind->is_rkey)
		return AV_CHECK_NONE;
	if (!(av_kind_of(r->kind)->is & AV_KIND_BINDABLE))
		return AV_CHECK_BIND_REGION;
	if (r->pd != bind->pd)
		return AV_CHECK_BIND_REGION_PD;
	if (!(r->access & IBV_ACCESS_MW_BIND) || (r->access & IBV_ACCESS_ZERO_BASED))
		return AV_CHECK_BIND_REGION_FLAG;
	if ((bind->access & changes) && !(r->access & IBV_ACCESS_LOCAL_WRITE))
		return AV_CHECK_BIND_RIGHTS;
	return av_range_within(bind->addr, bind->length, r->base, r->length) ? AV_CHECK_NONE
									     : AV_CHECK_BIND_RANGE;
}

/* Count the window at its region and copy the region's fields that it needs. */
static enum av_check hold_region(struct av_seg *seg, const struct av_window_bind *bind,
				 struct av_key *copy)
{
	struct av_key *r = bind->region ? av_key_lock_region(seg, bind->region) : NULL;
	enum av_check found;

	if (!r)
		return AV_CHECK_BIND_REGION;
	found = check_region(r, bind);
	if (found == AV_CHECK_NONE) {
		r->windows = av_window_count(r) + 1;
		copy->kind = r->kind;
		copy->access = r->access;
		copy->addr = r->addr + (bind->addr - r->base);
		atomic_store_explicit(&copy->intact, atomic_load(&r->intact), memory_order_relaxed);
	}
	av_lock_release(&r->lock);
	return found;
}

static enum av_check bind_locked(struct av_seg *seg, struct av_key *w,
				 const struct av_window_bind *bind)
{
	enum av_check found = check_window(w, bind);
	struct av_key region;

	if (found == AV_CHECK_NONE && bind->length)
		found = hold_region(seg, bind, &region);
	if (found != AV_CHECK_NONE)
		return found;
	if (!unbind(seg, w)) {
		if (bind->length)
			window_count_less(seg, bind->region);
		return AV_CHECK_OBJECT_BUSY;
	}
	if (bind->length == 0)
		return AV_CHECK_NONE;
	w->pd = bind->pd;
	w->access = bind->access | (region.access & AV_ACCESS_TUNNELED);
	w->under = region.kind;
	w->addr = region.addr;
	atomic_store_explicit(&w->intact, region.intact, memory_order_relaxed);
	w->base = bind->access & IBV_ACCESS_ZERO_BASED ? 0 : bind->addr;
	w->length = bind->length;
	w->region = bind->region;
	w->qpn = w->window_type == IBV_MW_TYPE_2 ? bind->qpn : 0;
	if (bind->is_rkey)
		atomic_store(&w->held, bind->rkey); /* accesses wait while the region changes */
	w->tag = bind->rkey & 0xff; /* the index's next key continues from this tag */
	atomic_store_explicit(&w->key, bind->rkey, memory_order_release);
	return AV_CHECK_NONE;
}

enum av_check av_window_bind(struct av_seg *seg, const struct av_window_bind *bind)
{
	struct av_key *w = window_entry(seg, bind->window);
	enum av_check found;

	if (!w)
		return AV_CHECK_BIND_WINDOW;
	if (av_peer_lock(seg, &w->lock, AV_RANK_KEY_CHANGE) == AV_LOCK_BUSY)
		return AV_CHECK_OBJECT_BUSY;
	found = bind_locked(seg, w, bind);
	av_lock_release(&w->lock);
	return found;
}

static enum av_check may_invalidate(const struct av_key *w, uint32_t rkey, uint32_t qpn)
{
	return atomic_load(&w->key) == rkey && w->window_type == IBV_MW_TYPE_2 && w->qpn == qpn
		       ? AV_CHECK_NONE
		       : AV_CHECK_INVALIDATE_UNBOUND;
}

/* A region's rkey is none. */
static struct av_key *program_window(struct av_seg *seg, uint32_t rkey)
{
	struct av_key *w = rkey ? window_entry(seg, rkey) : NULL;

	return w && w->window_type != AV_WINDOW_RKEY ? w : NULL;
}

enum av_check av_window_may_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn)
{
	struct av_key *w = program_window(seg, rkey);

	return w ? may_invalidate(w, rkey, qpn) : AV_CHECK_INVALIDATE_WINDOW;
}

enum av_check av_window_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn)
{
	struct av_key *w = program_window(seg, rkey);
	enum av_check ret;

	if (!w)
		return AV_CHECK_INVALIDATE_WINDOW;
	if (av_peer_lock(seg, &w->lock, AV_RANK_KEY_CHANGE) == AV_LOCK_BUSY)
		return AV_CHECK_INVALIDATE_UNBOUND;
	ret = may_invalidate(w, rkey, qpn);
	if (ret == AV_CHECK_NONE && !unbind(seg, w))
		ret = AV_CHECK_INVALIDATE_UNBOUND;
	av_lock_release(&w->lock);
	return ret;
}

/* Only @qpn itself binds windows to it, and it does not any more. */
AV_RACY static bool may_be_bound_on(const struct av_key *w, uint32_t qpn)
{
	return w->qpn == qpn;
}

void av_window_queue_pair_ends(struct av_seg *seg, uint32_t key, uint32_t qpn)
{
	struct av_key *w = window_entry(seg, key);

	/* Check first: whoever binds another's window may be stopped. */
	if (!w || !may_be_bound_on(w, qpn))
		return;
	av_lock_acquire_plain(&w->lock, AV_RANK_KEY_CHANGE);
	if (w->qpn == qpn)
		(void)unbind(seg, w);
	av_lock_release(&w->lock);
}
