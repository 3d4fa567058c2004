/* SPDX-License-Identifier: MIT */
#include "segment/pages_owner.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "base/thread.h"
#include "segment/segment_map.h"

#define NAME                                                                                 \
	"pages_owner%u" /* of the socket in the folder of the context that has regions there \
			 */

static bool format_owner_socket_name(char *name, size_t size, const char *path, uint32_t ref)
{
	return snprintf(name, size, "%s/" NAME, path, ref) < (int)size;
}

/* The entry of @ref, or with @ref 0 a free one. NULL if there is none. */
static struct av_seg_pages_owner *find_pages_owner(struct av_seg *seg, uint32_t ref)
{
	for (int i = 0; i < AV_SEG_PAGES_OWNERS; i++)
		if (atomic_load_explicit(&seg->pages_owner[i].ref, memory_order_acquire) == ref)
			return &seg->pages_owner[i];
	return NULL;
}

/* --- own segments ---------------------------------------------------------------- */

/* What peers find of an entry of ours. */
static struct av_seg_foreign *shown(const struct av_seg *seg, const struct av_seg_pages_owner *h)
{
	return &seg->head->pages_owner[h - seg->pages_owner];
}

/* If peers cannot have the memory, they copy by system calls. */
static void hand_out(struct av_seg *seg, struct av_seg_pages_owner *h, uint32_t ref)
{
	struct av_seg_foreign *f = shown(seg, h);
	char path[PATH_MAX], name[PATH_MAX];

	h->handout = AV_HANDOUT_NONE;
	if (!av_own_fd_keep(&h->file, av_seg_memory(h->seg)))
		return;
	if (av_dir_context_path(seg->ref, path, sizeof(path)) &&
	    format_owner_socket_name(name, sizeof(name), path, ref))
		av_handout_begin(&h->handout, name, &h->file, NULL);
	f->number = h->file.fd;
	f->ino = h->file.ino;
	atomic_store(&f->ref, ref);
}

static void take_back(struct av_seg *seg, struct av_seg_pages_owner *h)
{
	char name[32];

	atomic_store(&shown(seg, h)->ref, 0);
	snprintf(name, sizeof(name), NAME, atomic_load(&h->ref));
	av_handout_end(&h->handout);
	(void)!unlinkat(av_own_fd(&seg->folder), name, 0);
	av_own_fd_close(&h->file);
}

static int add_pages_owner(struct av_seg *seg, struct av_seg *pages_owner)
{
	struct av_seg_pages_owner *h = find_pages_owner(seg, 0);

	if (!h)
		return ENOMEM;
	h->seg = av_seg_get(pages_owner->ref);
	if (!h->seg)
		return ENOMEM;
	hand_out(seg, h, pages_owner->ref);
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
	h = find_pages_owner(seg, pages_owner->ref);
	if (h)
		h->users++;
	else
		ret = add_pages_owner(seg, pages_owner);
	pthread_mutex_unlock(&seg->pages_owner_mutex);
	return ret;
}

void av_pages_owner_drop(struct av_seg *seg, uint32_t ref)
{
	struct av_seg *unused = NULL;
	struct av_seg_pages_owner *h;

	pthread_mutex_lock(&seg->pages_owner_mutex);
	h = find_pages_owner(seg, ref);
	if (h && --h->users == 0) {
		take_back(seg, h);
		unused = h->seg;
		h->seg = NULL;
		h->base = NULL;
		atomic_store(&h->ref, 0);
	}
	pthread_mutex_unlock(&seg->pages_owner_mutex);
	av_seg_put(unused);
}

/* --- anybody's ------------------------------------------------------------------- */

/* What the peer says of the memory. Return: .bytes is 0: nothing */
static struct av_handed said(const struct av_seg *seg, uint32_t ref)
{
	for (int i = 0; i < AV_SEG_PAGES_OWNERS; i++) {
		const struct av_seg_foreign *f = &seg->head->pages_owner[i];

		if (atomic_load_explicit(&f->ref, memory_order_acquire) == ref)
			return (struct av_handed){
				.pid = seg->pid,
				.number = f->number,
				.ino = f->ino,
				.bytes = AV_SEG_BYTES,
			};
	}
	return (struct av_handed){.bytes = 0};
}

static uint8_t *map_handed(struct av_seg *seg, uint32_t ref)
{
	const struct av_handed what = said(seg, ref);
	char path[PATH_MAX], name[PATH_MAX];
	uint8_t *base = NULL;
	int fd;

	if (!what.bytes || !av_dir_context_path(seg->ref, path, sizeof(path)))
		return NULL;
	fd = av_handed_open(&what,
			    format_owner_socket_name(name, sizeof(name), path, ref) ? name : NULL);
	if (fd < 0)
		return NULL;
	base = av_map_sparse(av_map_file(NULL, AV_SEG_BYTES, PROT_NONE, fd, 0), AV_SEG_BYTES,
			     PROT_READ | PROT_WRITE);
	if (base)
		(void)!av_madvise(base, AV_SEG_BYTES, MADV_DONTDUMP);
	close(fd);
	return base;
}

static uint8_t *map_peers(struct av_seg *seg, uint32_t ref)
{
	AV_UNCANCELLED;
	struct av_seg_pages_owner *h;
	uint8_t *base = NULL;

	pthread_mutex_lock(&seg->pages_owner_mutex);
	h = find_pages_owner(seg, ref);
	if (h) {
		base = h->base;
	} else {
		h = find_pages_owner(seg, 0);
		base = h ? map_handed(seg, ref) : NULL;
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
	struct av_seg_pages_owner *h = ref ? find_pages_owner(seg, ref) : NULL;

	if (av_likely(h != NULL))
		return h->base;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): @seg was looked into by
	 * find_pages_owner() */
	return ref && !seg->own ? map_peers(seg, ref) : NULL;
}

void av_pages_owner_forked(struct av_seg *seg)
{
	for (int i = 0; i < AV_SEG_PAGES_OWNERS; i++) {
		av_handout_forked(&seg->pages_owner[i].handout);
		av_own_fd_close(&seg->pages_owner[i].file);
	}
}

void av_pages_owner_forget(struct av_seg *seg)
{
	for (int i = 0; i < AV_SEG_PAGES_OWNERS; i++) {
		struct av_seg_pages_owner *h = &seg->pages_owner[i];

		if (seg->own && h->seg)
			take_back(seg, h);
		else if (!seg->own && h->base)
			av_munmap(h->base, AV_SEG_BYTES);
	}
}
