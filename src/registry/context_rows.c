/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "observe/flight.h"
#include "registry/tables.h"

/* What devices count, and the gauges of contexts. */

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

/* The first context at or after @slot of the device at @place whose process lives. */
static bool next_living_context(const struct av_dir_view *view, uint32_t place, uint32_t *slot)
{
	for (; place && *slot < av_dir_rows(&view->dir->context_end, AV_REF_SLOTS); (*slot)++)
		if (view->dir->context[*slot].device == place && av_dir_view_lives(view, *slot))
			return true;
	return false;
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
	for (uint32_t slot = 0; next_living_context(&view, place, &slot); slot++)
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

uint32_t av_dir_next_context(const char *device, uint32_t *slot, struct av_dir_memory *memory)
{
	struct av_dir_view view;
	uint32_t ref = 0, place;

	if (!av_dir_view(&view))
		return 0;
	place = av_dir_find_device(view.dir, device);
	while (!ref && next_living_context(&view, place, slot))
		ref = atomic_load(&view.dir->context[(*slot)++].ref);
	if (ref)
		*memory = av_dir_context_memory(view.dir, ref);
	av_dir_view_end(&view);
	return ref;
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

static bool format_totals_path(char name[PATH_MAX], const char *folder)
{
	return snprintf(name, PATH_MAX, "%s/" AV_DIR_TOTALS, folder) < PATH_MAX;
}

bool av_dir_counts_load(const char *folder, struct av_dir_file *d)
{
	char name[PATH_MAX];

	memset(&kept, 0, sizeof(kept));
	if (!format_totals_path(name, folder) ||
	    !av_small_file_read(name, (char *)&kept, sizeof(kept)) || kept.rows > AV_DIR_DEVICES)
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

	if (!format_totals_path(name, folder))
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

/* Contexts: claiming a row, ending, sweeping the dead. */

static void context_name(char name[32], uint32_t ref)
{
	snprintf(name, 32, AV_CONTEXT_NAME, AV_CONTEXT_NAME_OF(ref));
}

static struct av_dir_context *row_of(uint32_t ref)
{
	return &av_dir->context[AV_REF_SLOT(ref)];
}

static uint32_t rows(void)
{
	return av_dir_rows(&av_dir->context_end, AV_REF_SLOTS);
}

/* --- ending; within a change ------------------------------------------------------ */

/* Keep its counts, and remove its folder. A process that dies in here leaves both to the next. */
static void keep_counts(struct av_dir_context *c)
{
	uint32_t ref = atomic_load(&c->ref);
	char name[32];

	if (ref)
		av_ended_keep(c, av_dir_folder(), av_dir_count_context);
	else /* it died before it published the row, but perhaps behind making the folder */
		ref = c->last << AV_REF_SLOT_BITS | (uint32_t)(c - av_dir->context);
	context_name(name, ref);
	av_folder_remove(av_dir_folder(), name);
}

static void clear_context_row(struct av_dir_context *c)
{
	atomic_store(&c->proc, AV_DIR_PROC_ENDED);
	keep_counts(c);
	for (int i = 0; i < AV_DIR_LIMITED_N; i++)
		atomic_store(&c->used[i], 0);
	atomic_store(&c->device, 0);
	atomic_store(&c->port, 0);
	atomic_store(&c->memory_ino, 0);
	for (int i = 0; i < AV_DIR_GAUGES; i++)
		atomic_store(&c->gauge[i], 0);
	atomic_store(&c->ref, 0);
	av_ended_kept();
	atomic_store(&c->proc, 0); /* from here on, the row is somebody else's */
}

/* Who had begun to clear a row died doing so: its counts are on their way. */
static void finish_begun(void)
{
	uint32_t begun = atomic_load(&av_dir->fold.ref);

	if (!begun)
		return;
	if (atomic_load(&row_of(begun)->ref) == begun)
		clear_context_row(row_of(begun));
	else
		av_ended_kept();
}

void av_dir_contexts_end(uint32_t proc, bool for_good)
{
	finish_begun();
	for (uint32_t i = 0; i < rows(); i++) {
		struct av_dir_context *c = &av_dir->context[i];

		if (atomic_load(&c->proc) != proc)
			continue;
		if (for_good) {
			clear_context_row(c);
		} else {
			keep_counts(c);
			av_ended_kept();
		}
	}
}

void av_dir_sweep(void)
{
	finish_begun();
	for (uint32_t i = 0; i < rows(); i++) {
		uint32_t proc = atomic_load(&av_dir->context[i].proc);

		if (proc && !av_dir_proc_alive(proc))
			clear_context_row(&av_dir->context[i]);
	}
	for (uint32_t i = 0; i < av_dir_rows(&av_dir->proc_end, AV_REF_SLOTS); i++) {
		uint32_t proc = atomic_load(&av_dir->proc[i].ref);

		/* A process that takes the slot meanwhile has another reference. */
		if (proc && !av_dir_proc_alive(proc)) {
			av_process_socket_remove(proc);
			av_cm_ports_end(proc);
			atomic_compare_exchange_strong(&av_dir->proc[i].ref, &proc, 0);
		}
	}
}

void av_dir_sweep_soon(void)
{
	if (!av_dir_change_soon())
		return;
	av_dir_sweep();
	av_dir_change_end();
}

/* --- claiming --------------------------------------------------------------------- */

static struct av_dir_context *claim_context_row(void)
{
	for (uint32_t i = 0; i < AV_REF_SLOTS; i++) {
		uint32_t free = 0;

		if (atomic_load(&av_dir->context[i].proc) == 0 &&
		    atomic_compare_exchange_strong(&av_dir->context[i].proc, &free, av_lock_self))
			return &av_dir->context[i];
	}
	return NULL;
}

int av_dir_context_add(uint32_t *ref)
{
	struct av_dir_context *c = claim_context_row();
	char name[32];
	int fd;

	if (!c) {
		av_dir_sweep_soon();
		c = claim_context_row();
	}
	if (!c)
		return -EUSERS;
	av_dir_will_use(&av_dir->context_end, (uint32_t)(c - av_dir->context));
	*ref = av_dir_next_ref((uint32_t)(c - av_dir->context), &c->last);
	context_name(name, *ref);
	fd = av_folder_make(av_dir_folder(), name);
	if (fd >= 0) {
		atomic_store(&c->ref, *ref);
		return fd;
	}
	if (fd == -ENOENT)
		av_warn_once("%s was removed while in use: close all devices, then open them again",
			     av_dir_path());
	atomic_store(&c->proc, 0);
	return fd;
}

void av_dir_context_remove(uint32_t ref)
{
	struct av_dir_context *c = row_of(ref);

	uint32_t proc = av_lock_self;

	/* A forked child has its parent's objects, but not its contexts. */
	if (atomic_load(&c->ref) != ref ||
	    !atomic_compare_exchange_strong(&c->proc, &proc, AV_DIR_PROC_ENDED) ||
	    !av_dir_change_soon())
		return;
	av_dir_contexts_end(AV_DIR_PROC_ENDED, true);
	av_dir_change_end();
}

/* --- looking up ------------------------------------------------------------------- */

uint32_t av_dir_context_owner(uint32_t ref)
{
	struct av_dir_context *c;
	uint32_t proc;

	if (ref == 0 || !av_dir)
		return 0;
	c = row_of(ref);
	proc = atomic_load(&c->proc);
	return proc != AV_DIR_PROC_ENDED && atomic_load(&c->ref) == ref ? proc : 0;
}

uint32_t av_dir_context_at(uint32_t *slot)
{
	while (*slot < rows()) {
		uint32_t ref = atomic_load(&av_dir->context[(*slot)++].ref);

		if (ref)
			return ref;
	}
	return 0;
}

int av_dir_context_open(int dir, uint32_t ref, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), AV_CONTEXT_NAME "/%s", AV_CONTEXT_NAME_OF(ref), name);
	return openat(dir, path, flags | O_NOFOLLOW | O_CLOEXEC);
}

bool av_dir_context_path(uint32_t ref, char *name, size_t size)
{
	return snprintf(name, size, "%s/" AV_CONTEXT_NAME, av_dir_path(), AV_CONTEXT_NAME_OF(ref)) <
	       (int)size;
}

void av_dir_context_set_memory(uint32_t ref, int number, uint64_t ino)
{
	struct av_dir_context *c = row_of(ref);

	atomic_store(&c->memory_number, number);
	atomic_store(&c->memory_ino, ino);
}

struct av_dir_memory av_dir_context_memory(const struct av_dir_file *d, uint32_t ref)
{
	const struct av_dir_context *c = &d->context[AV_REF_SLOT(ref)];
	uint32_t proc = atomic_load(&c->proc);
	const struct av_dir_proc *p = &d->proc[AV_REF_SLOT(proc)];
	struct av_dir_memory memory = {
		.pid = atomic_load(&p->pid),
		.number = atomic_load(&c->memory_number),
		.ino = atomic_load(&c->memory_ino),
	};

	if (atomic_load(&p->ref) != proc || atomic_load(&c->ref) != ref)
		memory.ino = 0;
	return memory;
}

/* How much of what they share do all processes use? */

/* @living: without what processes have left that died since the last sweep */
static uint64_t sum(enum av_dir_limited what, bool living)
{
	uint64_t used = 0;

	for (uint32_t i = 0; i < av_dir_rows(&av_dir->context_end, AV_REF_SLOTS); i++) {
		struct av_dir_context *c = &av_dir->context[i];
		uint64_t mine = atomic_load(&c->used[what]);

		if (mine && (!living || av_dir_proc_alive(atomic_load(&c->proc))))
			used += mine;
	}
	return used;
}

/* Added before the sum is looked at: so all together never use more. */
int av_dir_use(uint32_t ref, enum av_dir_limited what, uint64_t amount, uint64_t limit)
{
	_Atomic uint64_t *used = &av_dir->context[AV_REF_SLOT(ref)].used[what];

	if (amount > limit)
		return -ENOMEM;
	atomic_fetch_add(used, amount);
	if (sum(what, false) <= limit || sum(what, true) <= limit)
		return 0;
	atomic_fetch_sub(used, amount);
	return -ENOMEM;
}

uint64_t av_dir_used(enum av_dir_limited what)
{
	return sum(what, true);
}

void av_dir_unuse(uint32_t ref, enum av_dir_limited what, uint64_t amount)
{
	struct av_dir_context *c = &av_dir->context[AV_REF_SLOT(ref)];

	if (atomic_load(&c->ref) == ref && atomic_load(&c->used[what]) >= amount)
		atomic_fetch_sub(&c->used[what], amount);
}
