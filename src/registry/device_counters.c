/* SPDX-License-Identifier: MIT */
/* What devices count, and the gauges of contexts. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "registry/directory_file.h"
#include "registry/folder.h"

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

uint32_t av_dir_failures(void)
{
	return atomic_load(&av_dir->failures);
}

uint32_t av_dir_failures_add(void)
{
	uint32_t number;

	do
		number = atomic_fetch_add(&av_dir->failures, 1) + 1;
	while (number == 0);
	return number;
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

/* The sum of the counts that the device's contexts have now. */
static void sum_up(uint32_t place, struct av_totals *sum)
{
	for (uint32_t slot = 0; slot < av_dir_rows(&av_dir->context_end, AV_REF_SLOTS); slot++) {
		const struct av_dir_context *c = &av_dir->context[slot];
		uint32_t ref = atomic_load(&c->ref);

		if (ref && atomic_load(&c->device) == place && av_dir_count_context)
			av_dir_count_context(av_dir_folder(), ref, sum);
	}
}

void av_dir_counters_reset(const char *device)
{
	uint32_t place = av_dir_find_device(av_dir, device);
	struct av_totals now = {0};
	uint64_t *ended, *words = (uint64_t *)&now;

	if (!place)
		return;
	av_dir_sweep(); /* whose counts are on their way */
	for (int i = 0; i < AV_DIR_COUNTERS; i++)
		atomic_store(&av_dir->device[place - 1].counter[i], 0);
	atomic_store(&av_dir->device[place - 1].link_downed, 0);
	sum_up(place, &now);
	ended = (uint64_t *)&av_dir->device[place - 1].ended;
	for (size_t i = 0; i < sizeof(now) / sizeof(*words); i++)
		ended[i] = 0 - words[i]; /* what is there until now makes 0, whenever it ends */
	atomic_fetch_add(&av_dir->fold.done, 1); /* who is adding up begins again */
}

/* --- while nobody uses the directory ----------------------------------------------- */

/* Devices that have counted something. Guarded by the directory's mutex: too large for a stack. */
static struct {
	uint32_t rows;
	uint32_t unused;
	struct av_dir_device row[AV_DIR_DEVICES];
	char end; /* of what is read as text */
} kept;

static bool path_of(char name[PATH_MAX], const char *folder)
{
	return snprintf(name, PATH_MAX, "%s/" AV_DIR_TOTALS, folder) < PATH_MAX;
}

bool av_dir_counts_load(const char *folder, struct av_dir_file *d)
{
	char name[PATH_MAX];

	memset(&kept, 0, sizeof(kept));
	if (!path_of(name, folder) || !av_small_file_read(name, (char *)&kept, sizeof(kept)) ||
	    kept.rows > AV_DIR_DEVICES)
		return false;
	for (uint32_t i = 0; i < kept.rows; i++) {
		kept.row[i].name[sizeof(kept.row[i].name) - 1] = '\0';
		d->device[i] = kept.row[i];
	}
	atomic_store(&d->device_end, kept.rows);
	return true;
}

static bool has_counted(const struct av_dir_device *device)
{
	static const struct av_dir_device nothing;
	const size_t name = sizeof(device->name);

	return memcmp((const char *)device + name, (const char *)&nothing + name,
		      sizeof(*device) - name) != 0;
}

void av_dir_counts_keep(const char *folder, const struct av_dir_file *d)
{
	char name[PATH_MAX];

	if (!path_of(name, folder))
		return;
	kept.rows = 0;
	for (uint32_t i = 0; i < av_dir_rows(&d->device_end, AV_DIR_DEVICES); i++)
		if (has_counted(&d->device[i]))
			kept.row[kept.rows++] = d->device[i];
	if (kept.rows == 0)
		unlink(name);
	else
		(void)!av_small_file_write(
			name, (const char *)&kept,
			(size_t)((const char *)&kept.row[kept.rows] - (const char *)&kept));
}
