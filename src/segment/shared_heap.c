/* SPDX-License-Identifier: MIT */
#include "segment/shared_heap.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "segment/map_file.h"

static uint8_t nowhere; /* in place of a mapping that cannot be had */

const struct av_shared_heap *av_shared_heap(void)
{
	return anyverbs_shared_heap ? anyverbs_shared_heap() : NULL;
}

void av_shared_heap_publish(struct av_seg *seg)
{
	const struct av_shared_heap *heap = av_shared_heap();

	seg->head->shared_heap_fd = heap ? heap->fd : -1;
	seg->head->shared_heap_inode = heap ? heap->inode : 0;
}

/* A memfd has no name but the descriptors of its process. The number may be anybody's by now. */
static uint8_t *map_heap(const struct av_seg *seg)
{
	char path[48];
	struct stat st;
	uint8_t *map = NULL;
	int fd;

	if (seg->head->shared_heap_fd < 0 || !seg->same_pidns)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)seg->pid,
		 (int)seg->head->shared_heap_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && st.st_ino == seg->head->shared_heap_inode &&
	    st.st_size == (off_t)AV_SHARED_HEAP_BYTES)
		map = av_map_file(NULL, AV_SHARED_HEAP_BYTES, PROT_READ | PROT_WRITE, fd, 0);
	close(fd);
	return map;
}

static void unmap(uint8_t *map)
{
	if (map && map != &nowhere)
		av_munmap(map, AV_SHARED_HEAP_BYTES);
}

uint8_t *av_shared_heap_of(struct av_seg *seg)
{
	uint8_t *map = atomic_load_explicit(&seg->shared_heap, memory_order_acquire), *none = NULL;

	if (av_unlikely(!map)) {
		map = map_heap(seg);
		map = map ? map : &nowhere;
		if (!atomic_compare_exchange_strong(&seg->shared_heap, &none, map)) {
			unmap(map);
			map = none;
		}
	}
	return map == &nowhere ? NULL : map;
}

void av_shared_heap_forget(struct av_seg *seg)
{
	unmap(atomic_exchange(&seg->shared_heap, NULL));
}
