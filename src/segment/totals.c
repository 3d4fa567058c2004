/* SPDX-License-Identifier: MIT */
#include "segment/totals.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "registry/directory_file.h"
#include "registry/folder.h"
#include "segment/segment_map.h"

static void add(const struct av_tables *t, struct av_totals *sum)
{
	uint32_t qps = av_dir_rows(&t->qp_chunks, AV_SLAB_CHUNKS);
	uint32_t cqs = av_dir_rows(&t->cq_chunks, AV_SLAB_CHUNKS);

	for (uint32_t i = 0; i < qps * AV_OBJ_CHUNK; i++)
		av_count_add(sum->qp, t->qp[i / AV_OBJ_CHUNK][i % AV_OBJ_CHUNK] + AV_QP_COUNTERS_AT,
			     AV_QP_COUNTERS);
	for (uint32_t i = 0; i < cqs * AV_OBJ_CHUNK; i++)
		av_count_add(sum->cq, t->cq[i / AV_OBJ_CHUNK][i % AV_OBJ_CHUNK] + AV_CQ_COUNTERS_AT,
			     AV_CQ_COUNTERS);
}

void av_totals_add(const struct av_seg *seg, struct av_totals *sum)
{
	add(av_tables_of(seg->head), sum);
}

void av_totals_of_context(int folder, uint32_t ref, struct av_totals *sum)
{
	const struct av_tables *t = NULL;
	char name[32];
	int fd;

	snprintf(name, sizeof(name), AV_CONTEXT_NAME, AV_CONTEXT_NAME_OF(ref));
	fd = openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	t = av_tables_map(fd);
	close(fd);
	if (!t)
		return;
	add(t, sum);
	av_tables_unmap(t);
}

/* --- reading --------------------------------------------------------------------- */

#define TRIES 1000

/* Read everything once. Return: false if a context ended meanwhile. */
static bool look(const struct av_dir_file *d, int folder, uint32_t place, struct av_totals *sum)
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
		if (look(view.dir, folder, place, sum))
			break;
	if (folder >= 0)
		close(folder);
	if (place)
		*link_downed = atomic_load(&view.dir->device[place - 1].link_downed);
	av_dir_view_end(&view);
}
