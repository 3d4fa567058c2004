/* SPDX-License-Identifier: MIT */
#include "segment/segment_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/map.h"
#include "registry/folder.h"

struct av_seg *av_seg_view(uint32_t ref)
{
	char path[256];
	int folder = av_folder_find(path, sizeof(path));
	struct av_seg *seg;

	if (folder < 0)
		return NULL;
	seg = av_seg_view_in(folder, ref);
	close(folder);
	return seg;
}

struct av_seg *av_seg_view_in(int folder, uint32_t ref)
{
	struct av_seg *seg = calloc(1, sizeof(*seg));
	char name[64];

	snprintf(name, sizeof(name), "c%u-%u/segment", AV_REF_SLOT(ref), ref >> AV_REF_SLOT_BITS);
	if (seg)
		seg->head = av_seg_map_file(folder, name, PROT_READ);
	if (seg && seg->head)
		return seg;
	free(seg);
	return NULL;
}

void av_seg_view_end(struct av_seg *seg)
{
	if (!seg)
		return;
	av_munmap(seg->head, AV_SEG_BYTES);
	free(seg);
}
