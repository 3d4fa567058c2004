/* SPDX-License-Identifier: MIT */
#include "memory/window.h"

#include <errno.h>

#include "base/checked.h"
#include "base/newer_verbs.h"
#include "memory/pin.h"
#include "memory/key.h"
#include "memory/window_count.h"
#include "segment/alloc.h"

/* Local rights mean nothing for a window, but programs pass IBV_ACCESS_LOCAL_WRITE out of habit. */
#define WINDOW_ACCESS                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | AV_ACCESS_FLUSH_GLOBAL)

uint32_t av_window_create(struct av_seg *seg, enum ibv_mw_type type, uint32_t pd, uint32_t limit)
{
	struct av_key what = {.kind = AV_KEY_WINDOW, .window_type = (uint8_t)type, .pd = pd};

	return av_key_create(seg, &what, limit);
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
	av_window_count_less(seg, region);
	w->region = 0;
	return true;
}

int av_window_destroy(struct av_seg *seg, uint32_t key)
{
	struct av_key *w = window_entry(seg, key);
	bool ended;

	if (!w)
		return 0;
	av_lock_acquire_plain(&w->lock, AV_RANK_KEY_RIGHT);
	ended = unbind(seg, w);
	if (ended)
		w->kind = AV_KEY_REGION; /* no longer a window, and nothing else yet */
	av_lock_release(&w->lock);
	if (!ended)
		return EBUSY;
	av_slab_free(seg, AV_SLAB_KEY, AV_KEY_INDEX(key));
	return 0;
}

/* Does the region permit this bind? Context: its lock is held. */
static bool region_permits(const struct av_key *r, const struct av_window_bind *bind)
{
	uint32_t changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if ((r->kind != AV_KEY_REGION && r->kind != AV_KEY_ODP && r->kind != AV_KEY_PAGES) ||
	    r->pd != bind->pd)
		return false;
	if (!(r->access & IBV_ACCESS_MW_BIND) || (r->access & IBV_ACCESS_ZERO_BASED))
		return false;
	if ((bind->access & changes) && !(r->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	return av_range_within(bind->addr, bind->length, r->base, r->length);
}

/* The checks of a bind that concern the window alone. Context: its lock is held. */
static bool window_permits(const struct av_key *w, const struct av_window_bind *bind)
{
	if (w->pd != bind->pd || (bind->access & ~(uint32_t)WINDOW_ACCESS))
		return false;
	if (AV_KEY_INDEX(bind->rkey) != AV_KEY_INDEX(bind->window) || bind->rkey == 0)
		return false;
	if (w->window_type == IBV_MW_TYPE_1)
		return !(bind->access & IBV_ACCESS_ZERO_BASED) &&
		       (bind->region || bind->length == 0);
	return bind->region && bind->length > 0 && atomic_load(&w->key) == 0;
}

/* Count the window at its region and copy the region's fields that it needs. */
static bool hold_region(struct av_seg *seg, const struct av_window_bind *bind, struct av_key *copy)
{
	struct av_key *r = av_key_lock_region(seg, bind->region);
	bool ok;

	if (!r)
		return false;
	ok = region_permits(r, bind);
	if (ok) {
		av_window_count_more(r);
		copy->kind = r->kind;
		copy->access = r->access;
		copy->addr = r->addr + (bind->addr - r->base);
		atomic_store_explicit(&copy->intact, atomic_load(&r->intact), memory_order_relaxed);
	}
	av_lock_release(&r->lock);
	return ok;
}

static int bind_locked(struct av_seg *seg, struct av_key *w, const struct av_window_bind *bind)
{
	struct av_key region;

	if (!window_permits(w, bind))
		return EINVAL;
	if (bind->length == 0)
		return unbind(seg, w) ? 0 : EINVAL;
	if (!hold_region(seg, bind, &region))
		return EINVAL;
	if (!unbind(seg, w)) {
		av_window_count_less(seg, bind->region);
		return EINVAL;
	}
	w->access = bind->access | (region.access & AV_ACCESS_TUNNELED);
	w->under = region.kind;
	w->addr = region.addr;
	atomic_store_explicit(&w->intact, region.intact, memory_order_relaxed);
	w->base = bind->access & IBV_ACCESS_ZERO_BASED ? 0 : bind->addr;
	w->length = bind->length;
	w->region = bind->region;
	w->qpn = w->window_type == IBV_MW_TYPE_2 ? bind->qpn : 0;
	w->tag = bind->rkey & 0xff; /* the index's next key continues from this tag */
	atomic_store_explicit(&w->key, bind->rkey, memory_order_release);
	return 0;
}

int av_window_bind(struct av_seg *seg, const struct av_window_bind *bind)
{
	struct av_key *w = window_entry(seg, bind->window);
	int ret;

	if (!w || av_peer_lock(seg, &w->lock, AV_RANK_KEY_RIGHT) == AV_LOCK_BUSY)
		return EINVAL;
	ret = bind_locked(seg, w, bind);
	av_lock_release(&w->lock);
	return ret;
}

static enum av_invalidate may_invalidate(const struct av_key *w, uint32_t rkey, uint32_t qpn)
{
	return atomic_load(&w->key) == rkey && w->window_type == IBV_MW_TYPE_2 && w->qpn == qpn
		       ? AV_INVALIDATED
		       : AV_INVALIDATE_NOT_BOUND;
}

enum av_invalidate av_window_may_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn)
{
	struct av_key *w = window_entry(seg, rkey);

	return w && rkey ? may_invalidate(w, rkey, qpn) : AV_INVALIDATE_NO_WINDOW;
}

enum av_invalidate av_window_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn)
{
	struct av_key *w = window_entry(seg, rkey);
	enum av_invalidate ret;

	if (!w || rkey == 0)
		return AV_INVALIDATE_NO_WINDOW;
	if (av_peer_lock(seg, &w->lock, AV_RANK_KEY_RIGHT) == AV_LOCK_BUSY)
		return AV_INVALIDATE_NOT_BOUND;
	ret = may_invalidate(w, rkey, qpn);
	if (ret == AV_INVALIDATED && !unbind(seg, w))
		ret = AV_INVALIDATE_NOT_BOUND;
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
	av_lock_acquire_plain(&w->lock, AV_RANK_KEY_RIGHT);
	if (w->qpn == qpn)
		(void)unbind(seg, w);
	av_lock_release(&w->lock);
}
