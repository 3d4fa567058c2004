/* SPDX-License-Identifier: MIT */
/*
 * Adds the counts of an ended context to the totals of its device. The sum is prepared beside them
 * and published by one store. If its author dies, the next process finishes the work.
 */
#include "registry/directory_file.h"

void av_ended_keep(const struct av_dir_context *c, int folder, av_dir_count *count)
{
	struct av_dir_fold *f = &av_dir->fold;
	uint32_t ref = atomic_load(&c->ref);

	if (!c->device)
		return;
	if (atomic_load(&f->ref) != ref) {
		av_ended_kept(); /* of a process that died just before this */
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
