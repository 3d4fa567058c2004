/* SPDX-License-Identifier: MIT */
#include "segment/shared_heap.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/map.h"
#include "segment/map_file.h"

static uint8_t nowhere; /* in place of a mapping that cannot be had */
static _Atomic(const struct av_shared_heap *) own;

const struct av_shared_heap *av_shared_heap_begin(void)
{
	const struct av_shared_heap *heap = anyverbs_shared_heap ? anyverbs_shared_heap() : NULL;

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

	head->shared_heap_fd = heap ? heap->fd : -1;
	head->shared_heap_inode = heap ? heap->inode : 0;
}

/*
 * A memfd has no name but the descriptors of its process. The number may be anybody's by now.
 * System calls are made by number: callers hold execution rights, and the library's are
 * cancellation points.
 */
static int open_heap(const struct av_seg_head *head, pid_t pid)
{
	int number = head->shared_heap_fd, fd;
	char path[48];
	struct stat st;

	if (number < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, number);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || (fstat(fd, &st) == 0 && st.st_ino == head->shared_heap_inode &&
		       st.st_size == (off_t)AV_SHARED_HEAP_BYTES))
		return fd;
	syscall(SYS_close, fd);
	return -1;
}

static uint8_t *map_heap(const struct av_seg_head *head, pid_t pid)
{
	int fd = open_heap(head, pid);
	uint8_t *map = NULL;

	if (fd >= 0) {
		map = av_map_sparse(av_map_file(NULL, AV_SHARED_HEAP_BYTES, PROT_NONE, fd, 0),
				    AV_SHARED_HEAP_BYTES, PROT_READ | PROT_WRITE);
		syscall(SYS_close, fd);
	}
	return map ? map : &nowhere;
}

static void unmap(uint8_t *map)
{
	if (map && map != &nowhere)
		av_munmap(map, AV_SHARED_HEAP_BYTES);
}

uint8_t *av_shared_heap_map(const struct av_seg_head *head, pid_t pid, _Atomic(uint8_t *) *kept)
{
	uint8_t *map = atomic_load_explicit(kept, memory_order_acquire), *none = NULL;

	if (av_unlikely(!map)) {
		map = map_heap(head, pid);
		if (!atomic_compare_exchange_strong(kept, &none, map)) {
			unmap(map);
			map = none;
		}
	}
	return map == &nowhere ? NULL : map;
}

void av_shared_heap_forget(_Atomic(uint8_t *) *kept)
{
	unmap(atomic_exchange(kept, NULL));
}
