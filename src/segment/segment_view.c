/* SPDX-License-Identifier: MIT */
#include "segment/segment_view.h"

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "registry/directory.h"
#include "registry/folder.h"
#include "segment/segment_map.h"

static void add_qps(const uint8_t (*qp)[AV_QP_BYTES], struct av_totals *sum)
{
	for (uint32_t i = 0; i < AV_OBJ_CHUNK; i++)
		av_count_add(sum->qp, qp[i] + AV_QP_COUNTERS_AT, AV_QP_COUNTERS);
}

static void add_cqs(const uint8_t (*cq)[AV_CQ_BYTES], struct av_totals *sum)
{
	for (uint32_t i = 0; i < AV_OBJ_CHUNK; i++)
		for (size_t inlet = 0; inlet < 2; inlet++)
			av_count_add(sum->cq, cq[i] + AV_CQ_COUNTERS_AT + inlet * AV_CACHE_LINE,
				     AV_CQ_COUNTERS);
}

void av_totals_add(const struct av_seg *seg, struct av_totals *sum)
{
	const struct av_tables *t = av_tables_of(seg->head);

	for (uint32_t i = 0; i < av_dir_rows(&t->qp_chunks, AV_SLAB_CHUNKS); i++)
		add_qps(t->qp[i], sum);
	for (uint32_t i = 0; i < av_dir_rows(&t->cq_chunks, AV_SLAB_CHUNKS); i++)
		add_cqs(t->cq[i], sum);
}

static bool read_at(int fd, void *to, size_t bytes, size_t at)
{
	return pread(fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

/* What av_totals_add() does, of a file. */
static void add_file(int fd, struct av_totals *sum)
{
	union {
		struct {
			uint64_t magic;
			_Atomic uint32_t qp_chunks, cq_chunks;
		} head;
		uint8_t qp[AV_OBJ_CHUNK][AV_QP_BYTES], cq[AV_OBJ_CHUNK][AV_CQ_BYTES];
	} *t = malloc(sizeof(*t));
	uint32_t qps, cqs;

	if (!t || !read_at(fd, &t->head, sizeof(t->head), 0) || t->head.magic != AV_TABLES_MAGIC) {
		free(t);
		return;
	}
	qps = av_dir_rows(&t->head.qp_chunks, AV_SLAB_CHUNKS);
	cqs = av_dir_rows(&t->head.cq_chunks, AV_SLAB_CHUNKS);
	for (uint32_t i = 0; i < qps; i++)
		if (read_at(fd, t->qp, sizeof(t->qp), offsetof(struct av_tables, qp[i])))
			add_qps((const uint8_t(*)[AV_QP_BYTES])t->qp, sum);
	for (uint32_t i = 0; i < cqs; i++)
		if (read_at(fd, t->cq, sizeof(t->cq), offsetof(struct av_tables, cq[i])))
			add_cqs((const uint8_t(*)[AV_CQ_BYTES])t->cq, sum);
	free(t);
}

void av_totals_of_context(int folder, uint32_t ref, struct av_totals *sum)
{
	int tables = av_tables_open(folder, ref);

	if (tables < 0)
		return;
	add_file(tables, sum);
	close(tables);
}

/* --- reading --------------------------------------------------------------------- */

#define TRIES 1000

/* Read everything once. Return: false if a context ended meanwhile. */
static bool collect_device_totals(const struct av_dir_file *d, int folder, uint32_t place,
				  struct av_totals *sum)
{
	const struct av_dir_device *device = &d->device[place - 1];
	uint32_t done = atomic_load(&d->fold.done), folding = atomic_load(&d->fold.ref);

	memset(sum, 0, sizeof(*sum));
	av_count_add((uint64_t *)sum,
		     folding && d->fold.device == place ? &d->fold.after : &device->ended,
		     sizeof(*sum) / sizeof(uint64_t));
	for (uint32_t slot = 0; slot < av_dir_rows(&d->context_end, AV_REF_SLOTS); slot++) {
		uint32_t ref = atomic_load(&d->context[slot].ref);

		/* Contexts of dead processes as well: their counts are not in the totals yet. */
		if (ref && ref != folding && d->context[slot].device == place)
			av_totals_of_context(folder, ref, sum);
	}
	return atomic_load(&d->fold.done) == done && atomic_load(&d->fold.ref) == folding;
}

void av_totals_read(const char *device, struct av_totals *sum, uint64_t *link_downed)
{
	struct av_dir_view view;
	char path[PATH_MAX];
	uint32_t place;
	int folder;

	memset(sum, 0, sizeof(*sum));
	*link_downed = 0;
	if (!av_dir_view(&view))
		return;
	folder = av_folder_find(path, sizeof(path));
	place = av_dir_find_device(view.dir, device);
	for (int i = 0; place && i < TRIES; i++)
		if (collect_device_totals(view.dir, folder, place, sum))
			break;
	if (folder >= 0)
		close(folder);
	if (place)
		*link_downed = atomic_load(&view.dir->device[place - 1].link_downed);
	av_dir_view_end(&view);
}

/* Return: false: there is no such context, or its process is dead */
static bool lookup_context_memory(uint32_t ref, struct av_dir_memory *memory)
{
	struct av_dir_view view;
	bool ret;

	if (!av_dir_view(&view))
		return false;
	*memory = av_dir_context_memory(view.dir, ref);
	ret = memory->ino != 0;
	av_dir_view_end(&view);
	return ret;
}

static struct av_seg_head *map_viewed_segment(const struct av_dir_memory *memory, uint32_t ref)
{
	char path[PATH_MAX];
	int dir = av_folder_find(path, sizeof(path));
	struct av_seg_head *head;
	size_t n;

	if (dir < 0)
		return NULL;
	n = strlen(path);
	snprintf(path + n, sizeof(path) - n, "/" AV_CONTEXT_NAME, AV_CONTEXT_NAME_OF(ref));
	head = av_seg_map_peers(ref, memory, dir, path, PROT_READ);
	close(dir);
	return head;
}

/*
 * The segment of that context, or NULL. seg_view_end() also takes NULL. Waits at most
 * AV_PATIENCE_NS. Context: the directory is not being viewed.
 */
static struct av_seg *seg_view(uint32_t ref)
{
	struct av_seg *seg = calloc(1, sizeof(*seg));
	struct av_dir_memory memory;

	if (seg && lookup_context_memory(ref, &memory))
		seg->head = map_viewed_segment(&memory, ref);
	if (seg && seg->head)
		return seg;
	free(seg);
	return NULL;
}

static void seg_view_end(struct av_seg *seg)
{
	if (!seg)
		return;
	av_munmap(seg->head, AV_SEG_BYTES);
	free(seg);
}

void av_seg_view_each(const char *device, void (*visit)(const struct av_seg *seg, void *arg),
		      void *arg)
{
	uint32_t *refs = calloc(AV_REF_SLOTS, sizeof(*refs));
	unsigned int count = refs ? av_dir_contexts(device, refs) : 0;

	for (unsigned int i = 0; i < count; i++) {
		struct av_seg *seg = seg_view(refs[i]);

		if (seg)
			visit(seg, arg);
		seg_view_end(seg);
	}
	free(refs);
}
