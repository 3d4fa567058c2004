/* SPDX-License-Identifier: MIT */
#include "segment/totals.h"

#include <string.h>

#include "registry/directory_file.h"
#include "segment/segment_view.h"

/* Add the counters of all entries of a table. They are at the same place in each. */
static void add_table(const struct av_seg *seg, enum av_slab slab, uint32_t bytes, uint32_t at,
		      uint64_t *sum, size_t words)
{
	for (uint32_t chunk = 0; chunk < AV_SLAB_CHUNKS; chunk++) {
		const uint8_t *first =
			av_slab_at(seg, slab, chunk * AV_OBJ_CHUNK, bytes, AV_OBJ_CHUNK);

		for (uint32_t i = 0; first && i < AV_OBJ_CHUNK; i++)
			av_count_add(sum, first + (size_t)i * bytes + at, words);
	}
}

void av_totals_add(const struct av_seg *seg, struct av_totals *sum)
{
	add_table(seg, AV_SLAB_QP, AV_QP_BYTES, AV_QP_COUNTERS_AT, sum->qp, AV_QP_COUNTERS);
	add_table(seg, AV_SLAB_CQ, AV_CQ_BYTES, AV_CQ_COUNTERS_AT, sum->cq, AV_CQ_COUNTERS);
}

/* @view may be NULL. */
static void add_view(struct av_seg *view, struct av_totals *sum)
{
	if (view)
		av_totals_add(view, sum);
	av_seg_view_end(view);
}

void av_totals_of_context(int folder, uint32_t ref, struct av_totals *sum)
{
	add_view(av_seg_view_in(folder, ref), sum);
}

/* --- reading --------------------------------------------------------------------- */

#define TRIES 1000

/* Read everything once. Return: false if a context ended meanwhile. */
static bool look(const struct av_dir_file *d, uint32_t place, struct av_totals *sum)
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
			add_view(av_seg_view(ref), sum);
	}
	return atomic_load(&d->fold.done) == done && atomic_load(&d->fold.ref) == folding;
}

void av_totals_read(const char *device, struct av_totals *sum, uint64_t *link_downed)
{
	struct av_dir_view view;
	uint32_t place;

	memset(sum, 0, sizeof(*sum));
	*link_downed = 0;
	if (!av_dir_view(&view))
		return;
	place = av_dir_find_device(view.dir, device);
	for (int i = 0; place && i < TRIES; i++)
		if (look(view.dir, place, sum))
			break;
	if (place)
		*link_downed = atomic_load(&view.dir->device[place - 1].link_downed);
	av_dir_view_end(&view);
}
