/* SPDX-License-Identifier: MIT */
/* How much of what they share do all processes use? */
#include <errno.h>

#include "registry/directory_file.h"

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
