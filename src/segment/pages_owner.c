/* SPDX-License-Identifier: MIT */
#include "segment/pages_owner.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/map.h"

static void name_of(char name[32], uint32_t ref)
{
	snprintf(name, 32, "pages_owner%u", ref);
}

/* The entry of @ref, or with @ref 0 a free one. NULL if there is none. */
static struct av_seg_pages_owner *find(struct av_seg *seg, uint32_t ref)
{
	for (int i = 0; i < AV_SEG_PAGES_OWNERS; i++)
		if (atomic_load_explicit(&seg->pages_owner[i].ref, memory_order_acquire) == ref)
			return &seg->pages_owner[i];
	return NULL;
}

/* --- own segments ---------------------------------------------------------------- */

static int add(struct av_seg *seg, struct av_seg *pages_owner)
{
	struct av_seg_pages_owner *h = find(seg, 0);
	char name[32];

	if (!h)
		return ENOMEM;
	h->seg = av_seg_get(pages_owner->ref);
	if (!h->seg)
		return ENOMEM;
	/* If the file system has no links, peers copy by system calls. */
	name_of(name, pages_owner->ref);
	(void)!linkat(av_own_fd(&pages_owner->folder), "segment", av_own_fd(&seg->folder), name, 0);
	h->base = (uint8_t *)h->seg->head;
	h->users = 1;
	atomic_store_explicit(&h->ref, pages_owner->ref, memory_order_release);
	return 0;
}

int av_pages_owner_hold(struct av_seg *seg, struct av_seg *pages_owner)
{
	struct av_seg_pages_owner *h;
	int ret = 0;

	pthread_mutex_lock(&seg->pages_owner_mutex);
	h = find(seg, pages_owner->ref);
	if (h)
		h->users++;
	else
		ret = add(seg, pages_owner);
	pthread_mutex_unlock(&seg->pages_owner_mutex);
	return ret;
}

void av_pages_owner_drop(struct av_seg *seg, uint32_t ref)
{
	struct av_seg *unused = NULL;
	struct av_seg_pages_owner *h;
	char name[32];

	pthread_mutex_lock(&seg->pages_owner_mutex);
	h = find(seg, ref);
	if (h && --h->users == 0) {
		name_of(name, ref);
		(void)!unlinkat(av_own_fd(&seg->folder), name, 0);
		unused = h->seg;
		h->seg = NULL;
		h->base = NULL;
		atomic_store(&h->ref, 0);
	}
	pthread_mutex_unlock(&seg->pages_owner_mutex);
	av_seg_put(unused);
}

/* --- anybody's ------------------------------------------------------------------- */

static uint8_t *map_by_link(struct av_seg *seg, uint32_t ref)
{
	char name[32];

	name_of(name, ref);
	return (uint8_t *)av_seg_map_file(av_own_fd(&seg->folder), name, PROT_READ | PROT_WRITE);
}

static uint8_t *map_peers(struct av_seg *seg, uint32_t ref)
{
	struct av_seg_pages_owner *h;
	uint8_t *base = NULL;

	pthread_mutex_lock(&seg->pages_owner_mutex);
	h = find(seg, ref);
	if (h) {
		base = h->base;
	} else {
		h = find(seg, 0);
		base = h ? map_by_link(seg, ref) : NULL;
		if (base) {
			h->base = base;
			atomic_store_explicit(&h->ref, ref, memory_order_release);
		}
	}
	pthread_mutex_unlock(&seg->pages_owner_mutex);
	return base;
}

uint8_t *av_pages_owner_base(struct av_seg *seg, uint32_t ref)
{
	struct av_seg_pages_owner *h = ref ? find(seg, ref) : NULL;

	if (av_likely(h != NULL))
		return h->base;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): @seg was looked into by find() */
	return ref && !seg->own ? map_peers(seg, ref) : NULL;
}

void av_pages_owner_forget(struct av_seg *seg)
{
	for (int i = 0; i < AV_SEG_PAGES_OWNERS; i++)
		if (!seg->own && seg->pages_owner[i].base)
			av_munmap(seg->pages_owner[i].base, AV_SEG_BYTES);
}
