/* SPDX-License-Identifier: MIT */
#include "segment/segment_map.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/real_calls.h"
#include "registry/folder.h"
#include "segment/handout.h"
#include "segment/heap.h"
#include "segment/pages.h"

static _Atomic(const struct av_shared_heap *) own;

const struct av_shared_heap *av_shared_heap_begin(av_shared_heap_leaving *leaving)
{
	const struct av_shared_heap *heap =
		anyverbs_shared_heap ? anyverbs_shared_heap(leaving) : NULL;

	atomic_store_explicit(&own, heap, memory_order_release);
	return heap;
}

const struct av_shared_heap *av_shared_heap_own(void)
{
	return atomic_load_explicit(&own, memory_order_acquire);
}

void av_shared_heap_publish(struct av_seg_head *head)
{
	const struct av_shared_heap *heap = av_shared_heap_own();

	head->shared_heap_fd = heap ? heap->file.fd : -1;
	head->shared_heap_inode = heap ? heap->file.ino : 0;
	head->shared_heap_dev = heap ? heap->file.dev : 0;
}

static uint8_t *map_heap(int fd)
{
	return av_map_sparse(av_map_file(NULL, AV_SHARED_HEAP_BYTES, PROT_NONE, fd, 0),
			     AV_SHARED_HEAP_BYTES, PROT_READ | PROT_WRITE);
}

static void unmap_shared_heap(uint8_t *heap)
{
	if (heap && heap != AV_SHARED_HEAP_NOWHERE)
		av_munmap(heap, AV_SHARED_HEAP_BYTES);
}

uint8_t *av_shared_heap_map(const struct av_handed *what, const char *path,
			    _Atomic(uint8_t *) *kept)
{
	int fd = what->number < 0 ? -1 : av_handed_open(what, path);
	uint8_t *mine = fd < 0 ? NULL : map_heap(fd), *first = NULL;

	if (fd >= 0)
		syscall(SYS_close, fd); /* close(3) is a cancellation point */
	mine = mine ? mine : AV_SHARED_HEAP_NOWHERE;
	if (!atomic_compare_exchange_strong(kept, &first, mine)) {
		unmap_shared_heap(mine);
		mine = first;
	}
	return mine;
}

void av_shared_heap_forget(_Atomic(uint8_t *) *kept)
{
	unmap_shared_heap(atomic_exchange(kept, NULL));
}

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static void *map_segment_range(void *wanted, uint64_t bytes, int prot, int flags, int fd,
			       uint64_t offset)
{
	void *p = mmap(wanted, bytes, prot, flags | (wanted ? MAP_FIXED_NOREPLACE : 0), fd,
		       (off_t)offset);

	if (p == MAP_FAILED)
		return NULL;
	if (!wanted || p == wanted)
		return p;
	av_munmap(p, bytes); /* kernels before 4.17 take it as a hint */
	errno = EEXIST;
	return NULL;
}

static void *reserve_segment_range(uint64_t bytes)
{
	return mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Kernels from 6.7 on align it to a huge page unasked. */
void *av_map_place(uint64_t bytes, uint64_t offset, uint64_t align)
{
	uint8_t *p = reserve_segment_range(bytes);
	uint64_t before;

	if (p == MAP_FAILED)
		return NULL;
	if (((offset - (uintptr_t)p) & (align - 1)) == 0)
		return p;
	av_munmap(p, bytes);
	p = reserve_segment_range(bytes + align);
	if (p == MAP_FAILED)
		return NULL;
	before = (offset - (uintptr_t)p) & (align - 1);
	if (before)
		av_munmap(p, before);
	av_munmap(p + before + bytes, align - before);
	return p + before;
}

void *av_map_file(void *wanted, uint64_t bytes, int prot, int fd, uint64_t offset)
{
	const int flags = MAP_SHARED | MAP_NORESERVE;
	void *p, *place;

	if (wanted || bytes < AV_HUGE_PAGE_BYTES)
		return map_segment_range(wanted, bytes, prot, flags, fd, offset);
	bytes = av_round_up(bytes, AV_PAGE_BYTES);
	place = av_map_place(bytes, offset, AV_HUGE_PAGE_BYTES);
	if (!place)
		return map_segment_range(NULL, bytes, prot, flags, fd, offset);
	p = av_mmap(place, bytes, prot, flags | MAP_FIXED, fd, (off_t)offset);
	if (p != MAP_FAILED)
		return p;
	av_munmap(place, bytes);
	return NULL;
}

void *av_map_sparse(void *p, uint64_t bytes, int prot)
{
	if (!p)
		return NULL;
	(void)syscall(SYS_munlock, p, bytes);
	if (av_mprotect(p, bytes, prot) == 0)
		return p;
	av_munmap(p, bytes);
	return NULL;
}

void *av_map_private(void *wanted, uint64_t bytes, bool huge)
{
	const int from_pool = MAP_HUGETLB | (int)AV_HUGE_LOG2 << MAP_HUGE_SHIFT;

	return map_segment_range(wanted, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | (huge ? from_pool : 0), -1, 0);
}

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
