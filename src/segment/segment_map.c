/* SPDX-License-Identifier: MIT */
#include "segment/segment_map.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/anonymous.h"
#include "base/file_back.h"
#include "base/file_size.h"
#include "base/map.h"
#include "registry/folder.h"
#include "segment/handout.h"
#include "segment/heap.h"
#include "segment/map_file.h"

#define TABLES "tables"

static int make_tables(int folder, struct av_own_fd *tables)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
	int ret;

	if (!av_own_fd_keep(tables, openat(folder, TABLES, flags, 0600)))
		return -errno;
	av_folder_rights(folder, TABLES, 0600);
	if (av_file_may_have(tables->fd, AV_TABLES_BYTES))
		return -EFBIG;
	if (ftruncate(tables->fd, (off_t)AV_TABLES_BYTES))
		return -errno;
	ret = av_file_back(tables->fd, 0, offsetof(struct av_tables, qp));
	if (ret == -ENOSPC)
		av_folder_full(tables->fd, offsetof(struct av_tables, qp), ENOSPC);
	return ret;
}

int av_seg_make(uint32_t ref, int folder, struct av_own_fd *file, struct av_own_fd *tables)
{
	char name[48]; /* for who reads /proc/PID/maps */
	int ret;

	snprintf(name, sizeof(name), "anyverbs-" AV_CONTEXT_NAME, AV_CONTEXT_NAME_OF(ref));
	ret = av_anonymous(file, name, AV_SEG_BYTES);
	if (ret == 0)
		ret = av_file_back(file->fd, 0, sizeof(struct av_seg_head));
	return ret ? ret : make_tables(folder, tables);
}

bool av_seg_socket(char *name, size_t size, const char *path)
{
	return snprintf(name, size, "%s/segment", path) < (int)size;
}

int av_seg_open(const struct av_dir_memory *memory, const char *path)
{
	const struct av_handed what = {.pid = memory->pid,
				       .number = memory->number,
				       .ino = memory->ino,
				       .bytes = AV_SEG_BYTES};
	char name[PATH_MAX];

	return av_handed_open(&what, av_seg_socket(name, sizeof(name), path) ? name : NULL);
}

struct av_seg_head *av_seg_map(int file, int tables, int prot)
{
	uint8_t *p = av_map_file(NULL, AV_SEG_BYTES, PROT_NONE, file, 0);

	if (!p)
		return NULL;
	if (av_mmap(p + AV_TABLES_OFFSET, AV_TABLES_BYTES, PROT_NONE,
		    MAP_SHARED | MAP_NORESERVE | MAP_FIXED, tables, 0) == MAP_FAILED) {
		av_munmap(p, AV_SEG_BYTES);
		return NULL;
	}
	p = av_map_sparse(p, AV_SEG_BYTES, prot);
	if (p) /* whoever dumps it fills the holes */
		(void)!av_madvise(p, AV_SEG_BYTES, MADV_DONTDUMP);
	return (struct av_seg_head *)p;
}

static int open_tables(int dir, uint32_t ref, int prot)
{
	int mode = prot & PROT_WRITE ? O_RDWR : O_RDONLY, fd;
	struct stat st;

	fd = av_dir_context_open(dir, ref, TABLES, mode | O_NONBLOCK);
	if (fd < 0 ||
	    (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == (off_t)AV_TABLES_BYTES))
		return fd;
	close(fd);
	return -1;
}

struct av_seg_head *av_seg_map_peers(uint32_t ref, const struct av_dir_memory *memory, int dir,
				     const char *path, int prot)
{
	int tables = open_tables(dir, ref, prot);
	int file = tables < 0 ? -1 : av_seg_open(memory, path);
	struct av_seg_head *head = file < 0 ? NULL : av_seg_map(file, tables, prot);

	if (file >= 0)
		close(file);
	if (tables >= 0)
		close(tables);
	if (!head || head->magic == AV_SEG_MAGIC)
		return head;
	av_munmap(head, AV_SEG_BYTES);
	return NULL;
}

int av_tables_open(int dir, uint32_t ref)
{
	return open_tables(dir, ref, PROT_READ);
}
