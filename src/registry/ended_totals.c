/* SPDX-License-Identifier: MIT */
/*
 * What contexts had counted that have ended, added to their device's totals: prepared beside them,
 * published by one store, and finished by the next to come if its author dies.
 */
#include "registry/directory_file.h"

void av_ended_keep(const struct av_dir_context *c, int folder, av_dir_count *count)
{
	struct av_dir_fold *f = &av_dir->fold;
	uint32_t ref = atomic_load(&c->ref);

	if (!c->device)
		return;
	if (atomic_load(&f->ref) != ref) {
		av_ended_kept(); /* of somebody who died when all was done but this */
		f->device = c->device;
		f->after = av_dir->device[c->device - 1].ended;
		if (count)
			count(folder, ref, &f->after);
		atomic_store(&f->ref, ref);
	}
	av_dir->device[f->device - 1].ended = f->after;
}

void av_ended_kept(void)
{
	if (!atomic_load(&av_dir->fold.ref))
		return;
	atomic_fetch_add(&av_dir->fold.done, 1);
	atomic_store(&av_dir->fold.ref, 0);
}
