/* SPDX-License-Identifier: MIT */
#include "segment/shared_heap.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/map.h"
#include "segment/map_file.h"

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

static uint8_t *map(int fd)
{
	return av_map_sparse(av_map_file(NULL, AV_SHARED_HEAP_BYTES, PROT_NONE, fd, 0),
			     AV_SHARED_HEAP_BYTES, PROT_READ | PROT_WRITE);
}

static void unmap(uint8_t *map)
{
	if (map && map != AV_SHARED_HEAP_NOWHERE)
		av_munmap(map, AV_SHARED_HEAP_BYTES);
}

uint8_t *av_shared_heap_map(const struct av_handed *what, const char *path,
			    _Atomic(uint8_t *) *kept)
{
	int fd = what->number < 0 ? -1 : av_handed_open(what, path);
	uint8_t *mine = fd < 0 ? NULL : map(fd), *first = NULL;

	if (fd >= 0)
		syscall(SYS_close, fd); /* close(3) is a cancellation point */
	mine = mine ? mine : AV_SHARED_HEAP_NOWHERE;
	if (!atomic_compare_exchange_strong(kept, &first, mine)) {
		unmap(mine);
		mine = first;
	}
	return mine;
}

void av_shared_heap_forget(_Atomic(uint8_t *) *kept)
{
	unmap(atomic_exchange(kept, NULL));
}
