/* SPDX-License-Identifier: MIT */
#include "segment/segment_view.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "registry/directory.h"
#include "registry/folder.h"
#include "segment/map_file.h"

static int open_file(int folder, uint32_t ref)
{
	char name[64];

	snprintf(name, sizeof(name), "c%u-%u/segment", AV_REF_SLOT(ref), ref >> AV_REF_SLOT_BITS);
	return openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

/* A file that is just being made counts as none. */
static struct av_seg_head *map(int fd)
{
	struct stat st;
	struct av_seg_head *head;

	if (fstat(fd, &st) || st.st_size != (off_t)AV_SEG_BYTES)
		return NULL;
	head = av_map_file(NULL, AV_SEG_BYTES, PROT_READ, fd, 0);
	if (head && head->magic == AV_SEG_MAGIC)
		return head;
	if (head)
		av_munmap(head, AV_SEG_BYTES);
	return NULL;
}

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
	int fd = seg ? open_file(folder, ref) : -1;

	if (fd >= 0) {
		seg->head = map(fd);
		close(fd);
	}
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
