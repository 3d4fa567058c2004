/* SPDX-License-Identifier: MIT */
#include "memory/heap_part.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/map.h"
#include "memory/vma.h"

/* This process's heap; @begin 0: there is none. */
static struct {
	_Atomic uint64_t begin;
	_Atomic uint64_t dev, ino; /* of its file, */
	_Atomic int fd;		   /* open as that */
} own;

void av_heap_part_begin(const struct av_shared_heap *heap)
{
	atomic_store(&own.dev, heap->file.dev);
	atomic_store(&own.ino, heap->file.ino);
	atomic_store(&own.fd, heap->file.fd);
	atomic_store(&own.begin, heap->begin);
}

bool av_heap_is_near(uint64_t addr, uint64_t len)
{
	uint64_t begin = atomic_load_explicit(&own.begin, memory_order_relaxed);

	return begin && addr < begin + AV_SHARED_HEAP_BYTES && addr + len > begin;
}

bool av_heap_next(int maps, uint64_t addr, uint64_t end, struct av_heap_piece *piece)
{
	const struct av_own_fd file = {atomic_load(&own.fd), atomic_load(&own.dev),
				       atomic_load(&own.ino)};
	struct av_vma vma;

	for (; addr < end && av_vma_next(maps, addr, &vma) && vma.begin < end; addr = vma.end) {
		uint64_t begin = vma.begin > addr ? vma.begin : addr;

		if (!av_vma_is_of(&vma, &file))
			continue;
		*piece = (struct av_heap_piece){begin, vma.end < end ? vma.end : end, file,
						vma.offset + (begin - vma.begin)};
		return true;
	}
	return false;
}

/* System calls by number: the library's versions are cancellation points. */
static void drop_pages(const struct av_heap_piece *p)
{
	if (syscall(SYS_fallocate, av_own_fd(&p->file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		    p->at, p->end - p->begin))
		(void)!av_madvise((void *)(uintptr_t)p->begin, p->end - p->begin, MADV_REMOVE);
}

void av_heap_discard(uint64_t addr, uint64_t len)
{
	struct av_heap_piece piece;
	int maps;

	if (av_likely(!av_heap_is_near(addr, len)))
		return;
	maps = av_vma_open_own();
	if (maps < 0)
		return;
	for (uint64_t at = addr; av_heap_next(maps, at, addr + len, &piece); at = piece.end)
		drop_pages(&piece);
	syscall(SYS_close, maps);
}
