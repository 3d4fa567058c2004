/* SPDX-License-Identifier: MIT */
#include "segment/segment_view.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/map.h"
#include "registry/directory_file.h"
#include "registry/folder.h"
#include "segment/segment_map.h"

/* Return: false: there is no such context, or its process is dead */
static bool look_up(uint32_t ref, struct av_dir_memory *memory)
{
	struct av_dir_view view;
	bool ret;

	if (!av_dir_view(&view))
		return false;
	*memory = av_dir_context_memory(view.dir, ref);
	ret = memory->ino != 0;
	av_dir_view_end(&view);
	return ret;
}

static struct av_seg_head *map(const struct av_dir_memory *memory, uint32_t ref)
{
	char path[PATH_MAX];
	int dir = av_folder_find(path, sizeof(path));
	struct av_seg_head *head;
	size_t n;

	if (dir < 0)
		return NULL;
	n = strlen(path);
	snprintf(path + n, sizeof(path) - n, "/" AV_CONTEXT_NAME, AV_CONTEXT_NAME_OF(ref));
	head = av_seg_map_peers(ref, memory, dir, path, PROT_READ);
	close(dir);
	return head;
}

struct av_seg *av_seg_view(uint32_t ref)
{
	struct av_seg *seg = calloc(1, sizeof(*seg));
	struct av_dir_memory memory;

	if (seg && look_up(ref, &memory))
		seg->head = map(&memory, ref);
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

void av_seg_view_each(const char *device, void (*visit)(const struct av_seg *seg, void *arg),
		      void *arg)
{
	uint32_t *refs = calloc(AV_REF_SLOTS, sizeof(*refs));
	unsigned int count = refs ? av_dir_contexts(device, refs) : 0;

	for (unsigned int i = 0; i < count; i++) {
		struct av_seg *seg = av_seg_view(refs[i]);

		if (seg)
			visit(seg, arg);
		av_seg_view_end(seg);
	}
	free(refs);
}
