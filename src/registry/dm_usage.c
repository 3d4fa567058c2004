/* SPDX-License-Identifier: MIT */
/* Device memory in use by all processes together. */
#include <errno.h>

#include "registry/directory_file.h"

int av_dir_dm_take(uint32_t ref, uint64_t bytes, uint64_t limit)
{
	int ret = -ENOMEM;

	av_dir_change_begin();
	if (bytes > limit - (av_dir->dm_bytes < limit ? av_dir->dm_bytes : limit))
		(void)av_dir_sweep();
	if (av_dir->dm_bytes <= limit && bytes <= limit - av_dir->dm_bytes) {
		av_dir->dm_bytes += bytes;
		av_dir->context[AV_REF_SLOT(ref)].dm_bytes += bytes;
		ret = 0;
	}
	av_dir_change_end();
	return ret;
}

void av_dir_dm_give(uint32_t ref, uint64_t bytes)
{
	struct av_dir_context *c = &av_dir->context[AV_REF_SLOT(ref)];

	av_dir_change_begin();
	if (atomic_load(&c->ref) == ref && c->dm_bytes >= bytes) {
		c->dm_bytes -= bytes;
		av_dir->dm_bytes -= bytes;
	}
	av_dir_change_end();
}
