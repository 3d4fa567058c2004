/* SPDX-License-Identifier: MIT */
/* Contexts: claiming a row, ending, sweeping the dead. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "registry/cm_ports.h"
#include "registry/directory_file.h"
#include "registry/folder.h"
#include "registry/process_socket.h"
#include "observe/log.h"

/* The last one is no reference: AV_DIR_PROC_ENDED. */
#define GENERATIONS ((UINT32_MAX >> AV_REF_SLOT_BITS) - 1)

uint32_t av_dir_next_ref(uint32_t slot, uint32_t *last)
{
	*last = *last >= GENERATIONS ? 1 : *last + 1;
	return *last << AV_REF_SLOT_BITS | slot;
}

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

static void clear(struct av_dir_context *c)
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
		clear(row_of(begun));
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
			clear(c);
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
			clear(&av_dir->context[i]);
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

/* --- claiming --------------------------------------------------------------------- */

static struct av_dir_context *claim(void)
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
	struct av_dir_context *c = claim();
	char name[32];
	int fd;

	if (!c && av_dir_change_soon()) {
		av_dir_sweep();
		av_dir_change_end();
		c = claim();
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
