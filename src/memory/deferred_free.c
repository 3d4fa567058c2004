/* SPDX-License-Identifier: MIT */
#include "memory/region.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/thread.h"
#include "memory/key.h"
#include "segment/pages.h"

static struct {
	pthread_mutex_t mutex; /* held from av_mm_quiesce_begin() to av_mm_quiesce_end() */
	LIST_HEAD(, av_seg) list;
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A forked child has none of its parent's contexts. */
static void forget_moves_in_child(void)
{
	pthread_mutex_init(&own.mutex, NULL);
	LIST_INIT(&own.list);
}

static const struct av_fork_handlers move_fork_handlers = {.child = forget_moves_in_child};

void av_mm_quiesce_add(struct av_seg *seg)
{
	(void)av_fork_register(AV_FORK_PAGE_MOVE, &move_fork_handlers);
	pthread_mutex_lock(&own.mutex);
	LIST_INSERT_HEAD(&own.list, seg, movable);
	pthread_mutex_unlock(&own.mutex);
}

void av_mm_quiesce_remove(struct av_seg *seg)
{
	pthread_mutex_lock(&own.mutex);
	LIST_REMOVE(seg, movable);
	pthread_mutex_unlock(&own.mutex);
}

/* --- may they? ------------------------------------------------------------------- */

/*
 * Mappings of what may write to this process's memory or keep it pinned, without a processor. Of a
 * socket, a ring is mapped: AF_XDP pins the memory beside it and does not count that in VmPin.
 */
static const char *const foreign_writers[] = {
	"[io_uring]",  "/[aio]",    "/dev/infiniband/", "/dev/vfio/",
	"/dev/nvidia", "/dev/dri/", "/dev/kfd",		"socket:[",
};

static bool no_foreign_writer(const char *line)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(foreign_writers); i++)
		if (strstr(line, foreign_writers[i]))
			return false;
	return true;
}

static bool is_zero(const char *line, const char *name)
{
	return strncmp(line, name, strlen(name)) != 0 ||
	       strtoul(line + strlen(name), NULL, 10) == 0;
}

/* Pinned: the fixed buffers of an io_uring, another adapter's regions. */
static bool nothing_held(const char *line)
{
	return is_zero(line, "VmPin:") && is_zero(line, "VmLck:");
}

/* Could the file be read, and is every line of it fine? */
static bool all_lines(const char *path, bool (*fine)(const char *line))
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	bool ret = f != NULL;

	if (!f)
		return false;
	while (ret && getline(&line, &room, f) > 0)
		ret = fine(line);
	ret = ret && feof(f);
	free(line);
	fclose(f);
	return ret;
}

bool av_mm_quiesce_allowed(void)
{
	return all_lines("/proc/self/status", nothing_held) &&
	       all_lines("/proc/self/maps", no_foreign_writer);
}

/* --- moving ---------------------------------------------------------------------- */

static void set_pages_moving(uint32_t moving)
{
	struct av_seg *seg;

	LIST_FOREACH(seg, &own.list, movable)
		atomic_store(&seg->head->moving, moving);
}

struct range {
	uint64_t begin, end;
};

static bool reaches(struct av_seg *seg, uint32_t key, const void *arg)
{
	const struct range *r = arg;

	return !av_deferred_has_key(seg, key) && av_key_reaches(seg, key, r->begin, r->end);
}

/* Have all accesses ended? Waits a while. */
static bool nobody_at(const struct range *r)
{
	uint64_t until = 0;
	struct av_seg *seg;
	bool ret = true;

	LIST_FOREACH(seg, &own.list, movable)
		ret = av_pin_try_drain(seg, reaches, r, &until) && ret;
	return ret;
}

bool av_mm_quiesce_begin(uint64_t begin, uint64_t end)
{
	const struct range r = {begin, end};

	pthread_mutex_lock(&own.mutex);
	set_pages_moving(1);
	if (nobody_at(&r))
		return true;
	av_mm_quiesce_end();
	return false;
}

void av_mm_quiesce_end(void)
{
	set_pages_moving(0);
	pthread_mutex_unlock(&own.mutex);
}

/* Can a copy by this key be kept from the program's memory? @of: what has to be deferred for that
 */
static bool can_be_deferred(struct av_seg *seg, const struct av_key *k, struct av_deferred_of *of)
{
	*of = (struct av_deferred_of){0};
	switch ((enum av_key_kind)atomic_load(&k->kind)) {
	case AV_KEY_PAGES:
		of->at = k->addr;
		return (uint32_t)k->intact == seg->ref && k->share == 0;
	case AV_KEY_REGION:
		of->part = k->heap; /* the program has other pages then: av_heap_region_end() */
		return !k->heap || (!av_file_region_is(seg, k->heap) && av_mm_quiesce_allowed());
	case AV_KEY_DEVICE:
	case AV_KEY_UMR:
		of->leads_to = k->addr;
		return true;
	case AV_KEY_ODP:
	case AV_KEY_NULL:
		return true;
	default:
		return false;
	}
}

static bool defer_key_free(struct av_seg *seg, uint32_t key)
{
	struct av_deferred_of of;

	if (!can_be_deferred(seg, av_key_entry(seg, key), &of) || !av_deferred_begin(seg, key, &of))
		return false;
	if (av_revoke(seg, key))
		return true;
	av_revoke_forget(seg, key);
	av_deferred_cancel(seg, key);
	return false;
}

int av_region_end(struct av_seg *seg, uint32_t key)
{
	int err = av_key_destroy(seg, key, defer_key_free);

	return err == EBUSY && av_window_none_bound(seg, key)
		       ? av_key_destroy(seg, key, defer_key_free)
		       : err;
}

int av_region_change(struct av_seg *seg, uint32_t key, const struct av_key *what)
{
	int err = av_key_change(seg, key, what);

	return err == EBUSY && av_window_none_bound(seg, key) ? av_key_change(seg, key, what) : err;
}

/* One ended region. Several may have been on one block, behind one descriptor. */
struct deferred {
	LIST_ENTRY(deferred) entry;
	struct av_seg *seg;
	uint32_t key;
	struct av_deferred_of of;
	bool pages, part;	/* the block, or the descriptor, is to be freed then */
	uint64_t memory, bytes; /* of the segment's heap, to be freed; 0: none */
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

static bool is_key(const struct deferred *l, uint64_t key)
{
	return l->key == key;
}

static bool is_deferred_block(const struct deferred *l, uint64_t at)
{
	return l->of.at == at;
}

static bool is_part(const struct deferred *l, uint64_t part)
{
	return l->of.part == part;
}

static bool is_used_part(const struct deferred *l, uint64_t part)
{
	return l->of.part == part && av_pin_is_held(l->seg, l->key);
}

/* The mutex is held; also below. */
static struct deferred *find_deferred(const struct av_seg *seg,
				      bool (*is)(const struct deferred *, uint64_t), uint64_t what)
{
	struct deferred *l;

	LIST_FOREACH(l, &all.list, entry)
		if (l->seg == seg && is(l, what))
			return l;
	return NULL;
}

static struct deferred *find_leading_into(const struct av_seg *seg, uint64_t memory, uint64_t bytes)
{
	struct deferred *l;

	LIST_FOREACH(l, &all.list, entry)
		if (l->seg == seg && l->of.leads_to && l->of.leads_to - memory < bytes)
			return l;
	return NULL;
}

/* What is still used by another is left to that one. */
static void unlink_deferred(struct deferred *l)
{
	struct deferred *heir;

	LIST_REMOVE(l, entry);
	atomic_fetch_sub(&all.count, 1);
	heir = l->pages ? find_deferred(l->seg, is_deferred_block, l->of.at) : NULL;
	if (heir) {
		heir->pages = true;
		l->pages = false;
	}
	heir = l->part ? find_deferred(l->seg, is_part, l->of.part) : NULL;
	if (heir) {
		heir->part = true;
		l->part = false;
	}
	heir = l->memory ? find_leading_into(l->seg, l->memory, l->bytes) : NULL;
	if (heir) {
		heir->memory = l->memory;
		heir->bytes = l->bytes;
		l->memory = 0;
	}
}

bool av_deferred_begin(struct av_seg *seg, uint32_t key, const struct av_deferred_of *of)
{
	struct deferred *l = calloc(1, sizeof(*l));

	if (!l || av_fork_register(AV_FORK_DEFERRED, &fork_handlers)) {
		free(l);
		return false;
	}
	*l = (struct deferred){.seg = seg, .key = key, .of = *of};
	pthread_mutex_lock(&all.mutex);
	LIST_INSERT_HEAD(&all.list, l, entry);
	atomic_fetch_add(&all.count, 1);
	pthread_mutex_unlock(&all.mutex);
	return true;
}

void av_deferred_cancel(struct av_seg *seg, uint32_t key)
{
	struct deferred *l;

	pthread_mutex_lock(&all.mutex);
	l = find_deferred(seg, is_key, key);
	if (l)
		unlink_deferred(l);
	pthread_mutex_unlock(&all.mutex);
	free(l);
}

/* @key: out, if it is not NULL */
static bool has_deferred(struct av_seg *seg, bool (*is)(const struct deferred *, uint64_t),
			 uint64_t what, uint32_t *key)
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

bool av_deferred_has_part(struct av_seg *seg, uint32_t part)
{
	return has_deferred(seg, is_part, part, NULL);
}

void av_deferred_wait(struct av_seg *seg, uint32_t part)
{
	uint32_t key;

	while (has_deferred(seg, is_used_part, part, &key) && av_pin_drain(seg, key))
		;
}

void av_deferred_free_pages(struct av_seg *seg, uint64_t at)
{
	struct deferred *l = NULL;

	if (av_unlikely(atomic_load(&all.count))) {
		pthread_mutex_lock(&all.mutex);
		l = find_deferred(seg, is_deferred_block, at);
		if (l)
			l->pages = true;
		pthread_mutex_unlock(&all.mutex);
	}
	if (!l)
		av_pages_free(seg->pages, at);
}

static void free_part(struct av_seg *seg, uint32_t part)
{
	av_seg_free(seg, (uint64_t)part << AV_HEAP_PART_SHIFT, sizeof(struct av_heap_part));
}

void av_deferred_free_part(struct av_seg *seg, uint32_t part)
{
	struct deferred *l = NULL;

	if (av_unlikely(atomic_load(&all.count))) {
		pthread_mutex_lock(&all.mutex);
		l = find_deferred(seg, is_part, part);
		if (l)
			l->part = true;
		pthread_mutex_unlock(&all.mutex);
	}
	if (!l)
		free_part(seg, part);
}

void av_deferred_free_memory(struct av_seg *seg, uint64_t offset, uint64_t bytes)
{
	struct deferred *l = NULL;

	if (av_unlikely(atomic_load(&all.count))) {
		pthread_mutex_lock(&all.mutex);
		l = find_leading_into(seg, offset, bytes);
		if (l) {
			l->memory = offset;
			l->bytes = bytes;
		}
		pthread_mutex_unlock(&all.mutex);
	}
	if (!l)
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

static bool is_deferred_unused(const struct deferred *l, uint64_t unused)
{
	(void)unused;
	return l->settled && !av_pin_is_held(l->seg, l->key);
}

static bool is_any(const struct deferred *l, uint64_t unused)
{
	(void)l, (void)unused;
	return true;
}

/* Take one out of the list. */
static struct deferred *pop_deferred(const struct av_seg *seg,
				     bool (*is)(const struct deferred *, uint64_t))
{
	struct deferred *l;

	if (av_likely(atomic_load(&all.count) == 0))
		return NULL;
	pthread_mutex_lock(&all.mutex);
	l = find_deferred(seg, is, 0);
	if (l)
		unlink_deferred(l);
	pthread_mutex_unlock(&all.mutex);
	return l;
}

void av_deferred_sweep(struct av_seg *seg)
{
	struct deferred *l;

	while ((l = pop_deferred(seg, is_deferred_unused))) {
		if (l->pages)
			av_pages_free(seg->pages, l->of.at);
		if (l->part)
			free_part(seg, l->of.part);
		if (l->memory)
			av_seg_free(seg, l->memory, l->bytes);
		av_revoke_forget(seg, l->key);
		av_slab_free(seg, AV_SLAB_KEY, AV_KEY_INDEX(l->key));
		free(l);
	}
}

void av_deferred_forget(struct av_seg *seg)
{
	struct deferred *l;

	while ((l = pop_deferred(seg, is_any)))
		free(l);
}
