/* SPDX-License-Identifier: MIT */
/* What devices count, and the gauges of contexts. */
#include <stdio.h>
#include <string.h>

#include "registry/directory_file.h"

uint32_t av_dir_find_device(const struct av_dir_file *d, const char *name)
{
	for (uint32_t i = 0; i < av_dir_rows(&d->device_end, AV_DIR_DEVICES); i++)
		if (strncmp(d->device[i].name, name, sizeof(d->device[i].name)) == 0)
			return i + 1;
	return 0;
}

/* Only the first use of a name is a change. Return: 0: too many devices, or others change */
static uint32_t device_place(const char *name)
{
	uint32_t place = av_dir_find_device(av_dir, name);

	if (place || av_dir_change_begin())
		return place;
	place = av_dir_find_device(av_dir, name);
	if (!place && atomic_load(&av_dir->device_end) < AV_DIR_DEVICES) {
		place = atomic_load(&av_dir->device_end) + 1;
		snprintf(av_dir->device[place - 1].name, sizeof(av_dir->device[0].name), "%s",
			 name);
		atomic_store(&av_dir->device_end, place);
	}
	av_dir_change_end();
	return place;
}

_Atomic uint64_t *av_dir_counters(const char *device)
{
	uint32_t place = device_place(device);

	return place ? av_dir->device[place - 1].counter : NULL;
}

_Atomic uint64_t *av_dir_gauges(uint32_t ref, const char *device)
{
	struct av_dir_context *c = &av_dir->context[AV_REF_SLOT(ref)];

	atomic_store(&c->device, device_place(device));
	return c->gauge;
}

void av_dir_read(const char *device, uint64_t counters[AV_DIR_COUNTERS],
		 uint64_t gauges[AV_DIR_GAUGES])
{
	struct av_dir_view view;
	uint32_t place;

	memset(counters, 0, AV_DIR_COUNTERS * sizeof(*counters));
	memset(gauges, 0, AV_DIR_GAUGES * sizeof(*gauges));
	if (!av_dir_view(&view))
		return;
	place = av_dir_find_device(view.dir, device);
	for (int i = 0; place && i < AV_DIR_COUNTERS; i++)
		counters[i] = atomic_load(&view.dir->device[place - 1].counter[i]);
	for (uint32_t slot = 0; place && slot < av_dir_rows(&view.dir->context_end, AV_REF_SLOTS);
	     slot++)
		if (view.dir->context[slot].device == place && av_dir_view_lives(&view, slot))
			for (int i = 0; i < AV_DIR_GAUGES; i++)
				gauges[i] += atomic_load(&view.dir->context[slot].gauge[i]);
	av_dir_view_end(&view);
}

unsigned int av_dir_contexts(const char *device, uint32_t *refs)
{
	struct av_dir_view view;
	unsigned int count = 0;
	uint32_t place;

	if (!av_dir_view(&view))
		return 0;
	place = av_dir_find_device(view.dir, device);
	for (uint32_t slot = 0; place && slot < av_dir_rows(&view.dir->context_end, AV_REF_SLOTS);
	     slot++)
		if (view.dir->context[slot].device == place && av_dir_view_lives(&view, slot))
			refs[count++] = atomic_load(&view.dir->context[slot].ref);
	av_dir_view_end(&view);
	return count;
}

/* --- totals of ended contexts ---------------------------------------------------- */

/* Published by one store. If the author dies, the next process finishes the work. */
void av_ended_keep(const struct av_dir_context *c, int folder, av_dir_count *count)
{
	struct av_dir_fold *f = &av_dir->fold;
	uint32_t ref = atomic_load(&c->ref), device = atomic_load(&c->device);

	if (!device || device > AV_DIR_DEVICES)
		return;
	if (atomic_load(&f->ref) != ref) {
		av_ended_kept(); /* of a process that died just before this */
		f->device = device;
		f->after = av_dir->device[device - 1].ended;
		if (count)
			count(folder, ref, &f->after);
		atomic_store(&f->ref, ref);
	}
	if (f->device && f->device <= AV_DIR_DEVICES)
		av_dir->device[f->device - 1].ended = f->after;
}

void av_ended_kept(void)
{
	if (!atomic_load(&av_dir->fold.ref))
		return;
	atomic_fetch_add(&av_dir->fold.done, 1);
	atomic_store(&av_dir->fold.ref, 0);
}
