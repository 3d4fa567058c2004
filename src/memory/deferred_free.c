/* SPDX-License-Identifier: MIT */
#include "memory/region.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/thread.h"
#include "memory/key.h"
#include "segment/pages.h"

bool av_deferred_key(struct av_seg *seg, uint32_t key)
{
	const struct av_key *k = av_key_entry(seg, key);
	const struct av_kind *kind = av_kind_of(atomic_load(&k->kind));
	uint64_t leads_to;

	if (!kind->defer || !kind->defer(seg, k, &leads_to) ||
	    !av_deferred_begin(seg, key, leads_to))
		return false;
	if (av_revoke(seg, key))
		return true;
	av_revoke_forget(seg, key);
	av_deferred_cancel(seg, key);
	return false;
}

/* One ended region. Several may have led to the same memory. */
struct deferred {
	LIST_ENTRY(deferred) entry;
	struct av_seg *seg;
	uint32_t key;
	uint64_t leads_to;	/* as in av_deferred_begin() */
	uint64_t memory, bytes; /* of the segment, to be freed with it; 0: none */
	bool settled;		/* its end is over */
};

static struct {
	pthread_mutex_t mutex;
	LIST_HEAD(, deferred) list;
	_Atomic uint32_t count; /* almost always 0: then nobody takes the mutex */
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* All of it is the parent's. */
static void reset_deferred_in_child(void)
{
	LIST_INIT(&all.list);
	atomic_store(&all.count, 0);
}

static const struct av_fork_handlers fork_handlers = {.mutex = &all.mutex,
						      .child = reset_deferred_in_child};

typedef bool chosen(const struct deferred *l, uint64_t what);

static bool is_key(const struct deferred *l, uint64_t key)
{
	return l->key == key;
}

static bool leads_to(const struct deferred *l, uint64_t offset)
{
	return l->leads_to == offset;
}

static bool is_used_and_leads_to(const struct deferred *l, uint64_t offset)
{
	return l->leads_to == offset && av_pin_is_held(l->seg, l->key);
}

static bool is_deferred_unused(const struct deferred *l, uint64_t unused)
{
	return l->settled && !av_pin_is_held(l->seg, l->key);
}

static bool is_any(const struct deferred *l, uint64_t unused)
{
	return true;
}

/* The mutex is held; also below. */
static struct deferred *find_deferred(const struct av_seg *seg, chosen *is, uint64_t what)
{
	struct deferred *l;

	LIST_FOREACH(l, &all.list, entry)
		if (l->seg == seg && is(l, what))
			return l;
	return NULL;
}

/* Leave memory to a key that leads into it. Return: false: there is none */
static bool bequeath(const struct av_seg *seg, uint64_t memory, uint64_t bytes)
{
	struct deferred *l;

	LIST_FOREACH(l, &all.list, entry)
		if (l->seg == seg && l->leads_to && l->leads_to - memory < bytes) {
			l->memory = memory;
			l->bytes = bytes;
			return true;
		}
	return false;
}

/* What is still used by another is left to that one. */
static void unlink_deferred(struct deferred *l)
{
	LIST_REMOVE(l, entry);
	atomic_fetch_sub(&all.count, 1);
	if (l->memory && bequeath(l->seg, l->memory, l->bytes))
		l->memory = 0;
}

bool av_deferred_begin(struct av_seg *seg, uint32_t key, uint64_t leads_to)
{
	struct deferred *l = calloc(1, sizeof(*l));

	if (!l || av_fork_register(AV_FORK_DEFERRED, &fork_handlers)) {
		free(l);
		return false;
	}
	*l = (struct deferred){.seg = seg, .key = key, .leads_to = leads_to};
	pthread_mutex_lock(&all.mutex);
	LIST_INSERT_HEAD(&all.list, l, entry);
	atomic_fetch_add(&all.count, 1);
	pthread_mutex_unlock(&all.mutex);
	return true;
}

/* Take one out of the list. */
static struct deferred *pop_deferred(const struct av_seg *seg, chosen *is, uint64_t what)
{
	struct deferred *l;

	if (av_likely(atomic_load(&all.count) == 0))
		return NULL;
	pthread_mutex_lock(&all.mutex);
	l = find_deferred(seg, is, what);
	if (l)
		unlink_deferred(l);
	pthread_mutex_unlock(&all.mutex);
	return l;
}

void av_deferred_cancel(struct av_seg *seg, uint32_t key)
{
	free(pop_deferred(seg, is_key, key));
}

/* @key: out, if it is not NULL */
static bool has_deferred(struct av_seg *seg, chosen *is, uint64_t what, uint32_t *key)
{
	const struct deferred *l;

	if (av_likely(atomic_load(&all.count) == 0))
		return false;
	pthread_mutex_lock(&all.mutex);
	l = find_deferred(seg, is, what);
	if (l && key)
		*key = l->key;
	pthread_mutex_unlock(&all.mutex);
	return l != NULL;
}

bool av_deferred_has_key(struct av_seg *seg, uint32_t key)
{
	return has_deferred(seg, is_key, key, NULL);
}

bool av_deferred_leads_to(struct av_seg *seg, uint64_t offset)
{
	return has_deferred(seg, leads_to, offset, NULL);
}

void av_deferred_wait(struct av_seg *seg, uint64_t offset)
{
	uint32_t key;

	while (has_deferred(seg, is_used_and_leads_to, offset, &key) && av_pin_drain(seg, key))
		;
}

void av_deferred_free(struct av_seg *seg, uint64_t offset, uint64_t bytes)
{
	bool left = false;

	if (av_unlikely(atomic_load(&all.count))) {
		pthread_mutex_lock(&all.mutex);
		left = bequeath(seg, offset, bytes);
		pthread_mutex_unlock(&all.mutex);
	}
	if (!left)
		av_seg_free(seg, offset, bytes);
}

void av_deferred_settle(struct av_seg *seg, uint32_t key)
{
	struct deferred *l;

	if (av_likely(atomic_load(&all.count) == 0))
		return;
	pthread_mutex_lock(&all.mutex);
	l = find_deferred(seg, is_key, key);
	if (l)
		l->settled = true;
	pthread_mutex_unlock(&all.mutex);
}

void av_deferred_sweep(struct av_seg *seg)
{
	struct deferred *l;

	while ((l = pop_deferred(seg, is_deferred_unused, 0))) {
		av_seg_free(seg, l->memory, l->bytes);
		av_revoke_forget(seg, l->key);
		av_slab_free(seg, AV_SLAB_KEY, AV_KEY_INDEX(l->key));
		free(l);
	}
}

void av_deferred_forget(struct av_seg *seg)
{
	struct deferred *l;

	while ((l = pop_deferred(seg, is_any, 0)))
		free(l);
}
