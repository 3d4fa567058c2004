/* SPDX-License-Identifier: MIT */
#include "segment/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/real_calls.h"
#include "base/thread.h"
#include "registry/tables.h"

/* A sorted list of all blocks, first fit. */

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define COLLAPSE_TRIES 4 /* for EAGAIN and EBUSY: others are looking at a page */

enum state { FREE, USED, DEFERRED };

struct block {
	uint64_t at, bytes;
	enum state state;
};

struct av_pages {
	uint32_t ref;
	const struct av_own_fd *file; /* the segment's */
	uint8_t *base;
	struct av_heap *heap;
	pthread_mutex_t mutex;
	struct block *list; /* sorted, without gaps: from the lowest block to the end */
	uint32_t count, room;
	_Atomic uint64_t begin; /* of the first block; 0: none yet */
	_Atomic uint32_t deferred;
};

struct av_pages *av_pages_create(uint32_t ref, const struct av_own_fd *file, void *base,
				 struct av_heap *heap)
{
	struct av_pages *pages = calloc(1, sizeof(*pages));

	if (!pages)
		return NULL;
	pages->ref = ref;
	pages->file = file;
	pages->base = base;
	pages->heap = heap;
	pthread_mutex_init(&pages->mutex, NULL);
	return pages;
}

void av_pages_destroy(struct av_pages *pages)
{
	if (!pages)
		return;
	pthread_mutex_destroy(&pages->mutex);
	free(pages->list);
	free(pages);
}

bool av_pages_owns(const struct av_pages *p, uint64_t at)
{
	uint64_t begin = atomic_load(&p->begin);

	return begin && at >= begin;
}

/* --- the list; the mutex is held ------------------------------------------------- */

static bool reserve_block_list(struct av_pages *p, uint32_t more)
{
	uint32_t room = p->room * 2 + 16;
	struct block *list;

	if (p->room - p->count >= more)
		return true;
	list = realloc(p->list, room * sizeof(*list));
	if (!list)
		return false;
	p->list = list;
	p->room = room;
	return true;
}

static void insert(struct av_pages *p, uint32_t i, struct block block)
{
	memmove(&p->list[i + 1], &p->list[i], (p->count - i) * sizeof(block));
	p->list[i] = block;
	p->count++;
}

static void erase(struct av_pages *p, uint32_t i)
{
	p->count--;
	memmove(&p->list[i], &p->list[i + 1], (p->count - i) * sizeof(*p->list));
}

static struct block *find_page_block(struct av_pages *p, uint64_t at)
{
	uint32_t low = 0, high = p->count;

	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (p->list[mid].at <= at)
			low = mid;
		else
			high = mid;
	}
	return p->count && p->list[low].at == at ? &p->list[low] : NULL;
}

static void release_page_block(struct av_pages *p, struct block *b)
{
	uint32_t i = (uint32_t)(b - p->list);

	if (b->state == DEFERRED)
		atomic_fetch_sub(&p->deferred, 1);
	b->state = FREE;
	if (i + 1 < p->count && p->list[i + 1].state == FREE) {
		b->bytes += p->list[i + 1].bytes;
		erase(p, i + 1);
	}
	if (i > 0 && p->list[i - 1].state == FREE) {
		p->list[i - 1].bytes += b->bytes;
		erase(p, i);
	}
}

/* Cut [at, at + bytes) out of free block @i. The list has room for two more. */
static void carve(struct av_pages *p, uint32_t i, uint64_t at, uint64_t bytes)
{
	struct block whole = p->list[i];
	uint64_t before = at - whole.at, behind = whole.bytes - before - bytes;

	p->list[i] = (struct block){at, bytes, USED};
	if (behind)
		insert(p, i + 1, (struct block){at + bytes, behind, FREE});
	if (before)
		insert(p, i, (struct block){whole.at, before, FREE});
}

static uint64_t first_fit(struct av_pages *p, uint64_t bytes, uint64_t align)
{
	for (uint32_t i = 0; i < p->count; i++) {
		uint64_t at = av_round_up(p->list[i].at, align);

		if (p->list[i].state != FREE ||
		    !av_range_within(at, bytes, p->list[i].at, p->list[i].bytes))
			continue;
		carve(p, i, at, bytes);
		return at;
	}
	return 0;
}

/* Take more room from the end of the heap. The list has room for one more. */
static bool extend_page_room(struct av_pages *p, uint64_t bytes)
{
	uint64_t more = av_round_up(bytes, AV_HUGE_PAGE_BYTES);
	uint64_t at = av_heap_take_end(p->heap, more, AV_HUGE_PAGE_BYTES, &more);

	if (!at)
		return false;
	insert(p, 0, (struct block){at, more, USED});
	release_page_block(p, &p->list[0]);
	atomic_store(&p->begin, at);
	return true;
}

static uint64_t alloc_page_block(struct av_pages *p, uint64_t bytes, uint64_t align)
{
	uint64_t at = 0;

	pthread_mutex_lock(&p->mutex);
	if (reserve_block_list(p, 3)) {
		at = first_fit(p, bytes, align);
		if (!at && extend_page_room(p, bytes))
			at = first_fit(p, bytes, align);
	}
	pthread_mutex_unlock(&p->mutex);
	return at;
}

/* --- the pages ------------------------------------------------------------------- */

static int collapse(void *addr, uint64_t bytes)
{
	for (int i = 0; i < COLLAPSE_TRIES; i++) {
		if (av_madvise(addr, bytes, MADV_COLLAPSE) == 0)
			return 0;
		if (errno != EAGAIN && errno != EBUSY)
			break;
	}
	return ENOMEM;
}

/* A hole cannot be collapsed, but one page in it is enough. */
static bool seed_huge_pages(struct av_pages *p, uint64_t at, uint64_t bytes)
{
	for (uint64_t off = 0; off < bytes; off += AV_HUGE_PAGE_BYTES)
		if (av_file_back(av_own_fd(p->file), at + off, AV_PAGE_BYTES))
			return false;
	return true;
}

static uint64_t count_huge_slots(const struct av_page_block *block)
{
	uint64_t first = av_round_up(block->at, AV_HUGE_PAGE_BYTES), end = block->at + block->bytes;

	return end > first ? (end - first) / AV_HUGE_PAGE_BYTES : 0;
}

/* @all: give up at the first that fails. Return: how many have been made. */
static uint64_t make_huge(struct av_pages *p, const struct av_page_block *block, bool all)
{
	uint64_t at = av_round_up(block->at, AV_HUGE_PAGE_BYTES), whole = count_huge_slots(block),
		 done = 0;
	uint8_t *begin = p->base + at;

	if (whole == 0 || !seed_huge_pages(p, at, whole * AV_HUGE_PAGE_BYTES))
		return 0;
	if (collapse(begin, whole * AV_HUGE_PAGE_BYTES) == 0)
		return whole;
	for (uint64_t i = 0; i < whole; i++) {
		if (collapse(begin + i * AV_HUGE_PAGE_BYTES, AV_HUGE_PAGE_BYTES) == 0)
			done++;
		else if (all)
			break;
	}
	return done;
}

/* Give back the pages. The range reads as zeros afterwards. */
static void punch_pages(struct av_pages *p, uint64_t at, uint64_t bytes)
{
	if (fallocate(av_own_fd(p->file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
		      (off_t)bytes))
		(void)!av_madvise(p->base + at, bytes, MADV_REMOVE);
}

static bool back_page_block(struct av_pages *p, enum av_pages_wish wish,
			    struct av_page_block *block)
{
	if (wish != AV_PAGES_SMALL)
		block->huge = make_huge(p, block, wish == AV_PAGES_HUGE);
	if (block->huge * AV_HUGE_PAGE_BYTES == block->bytes)
		return true;
	return wish != AV_PAGES_HUGE &&
	       av_file_back(av_own_fd(p->file), block->at, block->bytes) == 0;
}

/* Several threads may see that nobody holds a deferred block: only one of them frees it. */
static bool claim_deferred_block(struct av_pages *p, uint64_t at)
{
	struct block *b;
	bool mine;

	pthread_mutex_lock(&p->mutex);
	b = find_page_block(p, at);
	mine = b && b->state == DEFERRED;
	if (mine) {
		b->state = USED;
		atomic_fetch_sub(&p->deferred, 1);
	}
	pthread_mutex_unlock(&p->mutex);
	return mine;
}

static void sweep_deferred_blocks(struct av_pages *p)
{
	uint64_t at = 0, next;

	do {
		next = 0;
		pthread_mutex_lock(&p->mutex);
		for (uint32_t i = 0; i < p->count && !next; i++)
			if (p->list[i].state == DEFERRED && p->list[i].at > at)
				next = p->list[i].at;
		pthread_mutex_unlock(&p->mutex);
		at = next;
		if (at && !av_page_users_any(p->ref, at) && claim_deferred_block(p, at))
			av_pages_free(p, at);
	} while (at);
}

static struct av_page_block reserve_block(struct av_pages *p, uint64_t bytes,
					  enum av_pages_wish wish)
{
	uint64_t unit = wish == AV_PAGES_HUGE ? AV_HUGE_PAGE_BYTES : AV_PAGE_BYTES;
	uint64_t align =
		wish != AV_PAGES_SMALL && bytes >= AV_HUGE_PAGE_BYTES ? AV_HUGE_PAGE_BYTES : unit;
	struct av_page_block block = {.bytes = av_round_up(bytes, unit)};

	if (atomic_load(&p->deferred))
		sweep_deferred_blocks(p);
	block.at = alloc_page_block(p, block.bytes, align);
	return block;
}

int av_pages_take(struct av_pages *p, uint64_t bytes, enum av_pages_wish wish,
		  struct av_page_block *block)
{
	*block = reserve_block(p, bytes, wish);
	if (!block->at)
		return ENOMEM;
	if (back_page_block(p, wish, block))
		return 0;
	av_pages_free(p, block->at);
	block->at = 0;
	return ENOMEM;
}

static uint64_t measure_page_block(struct av_pages *p, uint64_t at)
{
	const struct block *b;
	uint64_t bytes;

	pthread_mutex_lock(&p->mutex);
	b = find_page_block(p, at);
	bytes = b ? b->bytes : 0;
	pthread_mutex_unlock(&p->mutex);
	return bytes;
}

void av_pages_free(struct av_pages *p, uint64_t at)
{
	uint64_t bytes = measure_page_block(p, at);

	if (!bytes)
		return;
	punch_pages(p, at, bytes); /* before others can get the range */
	pthread_mutex_lock(&p->mutex);
	release_page_block(p, find_page_block(p, at));
	pthread_mutex_unlock(&p->mutex);
}

void av_pages_defer(struct av_pages *p, uint64_t at)
{
	struct block *b;

	pthread_mutex_lock(&p->mutex);
	b = find_page_block(p, at);
	if (b && b->state == USED) {
		b->state = DEFERRED;
		atomic_fetch_add(&p->deferred, 1);
	}
	pthread_mutex_unlock(&p->mutex);
}

#define LOG2_MIN  12
#define LOG2_MAX  23
#define VALUE_MAX 64 /* longer values are neither type nor number */

static const char *const names[AV_ALLOC_N] = {
	[AV_ALLOC_ANON] = "ANON",
	[AV_ALLOC_HUGE] = "HUGE",
	[AV_ALLOC_CONTIG] = "CONTIG",
	[AV_ALLOC_PREFER_CONTIG] = "PREFER_CONTIG",
	[AV_ALLOC_PREFER_HUGE] = "PREFER_HUGE",
	[AV_ALLOC_ALL] = "ALL",
};

const char *av_alloc_type_name(unsigned int type)
{
	return type < AV_ALLOC_N ? names[type] : "";
}

struct source {
	const struct av_page_object *object;
	av_page_variable *get;
	const void *where;
	void (*complain)(const char *name, const char *value);
};

static enum av_alloc_type read_type(const struct source *s)
{
	char variable[VALUE_MAX], value[VALUE_MAX];
	enum av_alloc_type type = s->object->fallback;

	if (s->object->huge_variable &&
	    s->get(s->where, s->object->huge_variable, value, sizeof(value)) && !strcmp(value, "y"))
		type = AV_ALLOC_HUGE;
	snprintf(variable, sizeof(variable), "MLX_%s_ALLOC_TYPE", s->object->name);
	if (!s->get(s->where, variable, value, sizeof(value)))
		return type;
	for (unsigned int i = 0; i < AV_ALLOC_N; i++)
		if (!strcasecmp(value, names[i]))
			return (enum av_alloc_type)i;
	return type;
}

static uint8_t read_log2(const struct source *s, const char *which, uint8_t max, uint8_t fallback)
{
	char variable[VALUE_MAX], value[VALUE_MAX], *end;
	long number;

	snprintf(variable, sizeof(variable), "MLX_%s_%s_LOG2_CONTIG_BSIZE", s->object->name, which);
	if (!s->get(s->where, variable, value, sizeof(value)))
		return fallback;
	number = strtol(value, &end, 10);
	if (end != value && !*end && number >= LOG2_MIN && number <= max)
		return (uint8_t)number;
	s->complain(variable, value);
	return fallback;
}

struct av_page_policy av_page_policy_read(const struct av_page_object *object,
					  av_page_variable *get, const void *where,
					  void (*complain)(const char *name, const char *value))
{
	const struct source s = {object, get, where, complain};
	struct av_page_policy policy = {.type = read_type(&s)};

	policy.max_log2 = read_log2(&s, "MAX", LOG2_MAX, LOG2_MAX);
	policy.min_log2 = read_log2(&s, "MIN", policy.max_log2, LOG2_MIN);
	return policy;
}

static struct av_page_plan contiguous(const struct av_page_policy *policy, bool or_fail)
{
	struct av_page_plan plan = {.pages = true, .or_fail = or_fail, .wish = AV_PAGES_SMALL};

	if (policy->min_log2 > AV_HUGE_LOG2)
		plan.never = true;
	else if (policy->min_log2 > LOG2_MIN)
		plan.wish = AV_PAGES_HUGE;
	else if (policy->max_log2 > LOG2_MIN)
		plan.wish = AV_PAGES_TRY;
	return plan;
}

struct av_page_plan av_page_plan(const struct av_page_policy *policy)
{
	switch (policy->type) {
	case AV_ALLOC_HUGE:
		return (struct av_page_plan){.pages = true, .wish = AV_PAGES_HUGE, .or_fail = true};
	case AV_ALLOC_PREFER_HUGE:
		return (struct av_page_plan){.pages = true, .wish = AV_PAGES_HUGE};
	case AV_ALLOC_CONTIG:
		return contiguous(policy, true);
	case AV_ALLOC_PREFER_CONTIG:
	case AV_ALLOC_ALL:
		return contiguous(policy, false);
	case AV_ALLOC_ANON:
	case AV_ALLOC_N:
		break;
	}
	return (struct av_page_plan){.pages = false};
}

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

	h->fd_pass = AV_FD_PASS_NONE;
	if (!av_own_fd_keep(&h->file, av_seg_memory(h->seg)))
		return;
	if (av_dir_context_path(seg->ref, path, sizeof(path)) &&
	    format_owner_socket_name(name, sizeof(name), path, ref))
		av_fd_pass_begin(&h->fd_pass, name, &h->file, NULL);
	f->number = h->file.fd;
	f->ino = h->file.ino;
	atomic_store(&f->ref, ref);
}

static void take_back(struct av_seg *seg, struct av_seg_pages_owner *h)
{
	char name[32];

	atomic_store(&shown(seg, h)->ref, 0);
	snprintf(name, sizeof(name), NAME, atomic_load(&h->ref));
	av_fd_pass_end(&h->fd_pass);
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
static struct av_fd_passed said(const struct av_seg *seg, uint32_t ref)
{
	for (int i = 0; i < AV_SEG_PAGES_OWNERS; i++) {
		const struct av_seg_foreign *f = &seg->head->pages_owner[i];

		if (atomic_load_explicit(&f->ref, memory_order_acquire) == ref)
			return (struct av_fd_passed){
				.pid = seg->pid,
				.number = f->number,
				.ino = f->ino,
				.bytes = AV_SEG_BYTES,
			};
	}
	return (struct av_fd_passed){.bytes = 0};
}

static uint8_t *map_passed(struct av_seg *seg, uint32_t ref)
{
	const struct av_fd_passed what = said(seg, ref);
	char path[PATH_MAX], name[PATH_MAX];
	uint8_t *base = NULL;
	int fd;

	if (!what.bytes || !av_dir_context_path(seg->ref, path, sizeof(path)))
		return NULL;
	fd = av_fd_passed_open(
		&what, format_owner_socket_name(name, sizeof(name), path, ref) ? name : NULL);
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
		base = h ? map_passed(seg, ref) : NULL;
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
		av_fd_pass_forked(&seg->pages_owner[i].fd_pass);
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
