/* SPDX-License-Identifier: MIT */
/* Few entries, searched from end to end: the time to spend on adoption is limited. */
#include "memory/adopted.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/map.h"
#include "segment/shared_heap.h"
#include "memory/vma.h"

#define FILES 64u

/* An entry with @end 0 is hidden. @end is written last, and cleared first. */
struct entry {
	_Atomic uint64_t end, begin; /* addresses */
	_Atomic uint64_t at;	     /* offset in the segment, */
	_Atomic uint64_t dev, inode; /* which is this file, */
	_Atomic int fd;		     /* open as that */
};

static struct {
	struct entry list[AV_ADOPTIONS + 1]; /* the last one is the shared heap's */
	_Atomic uint32_t used;		     /* entries that have ever been shown */
	_Atomic uint32_t count;		     /* but the last one */
	_Atomic uint64_t file[FILES];	     /* inodes of segments: av_adopted_is_file(), */
	_Atomic uint64_t dev;		     /* on the kernel's own device of memfds */
	_Atomic uint32_t files;		     /* that were ever written there */
} adopted;

void *av_adopted_in_heap(struct av_seg *seg, uint64_t at, uint64_t bytes, uint64_t offset)
{
	uint8_t *heap;

	if (!seg->same_pidns || !av_range_within(at, bytes, 0, AV_SHARED_HEAP_BYTES))
		return NULL;
	heap = av_shared_heap_map(seg->head, seg->pid, &seg->shared_heap);
	return heap ? heap + at + offset : NULL;
}

/* The shared heap does not leave its place, unlike memory that the program may have moved. */
bool av_adopted_any(uint64_t addr, uint64_t len)
{
	const struct entry *heap = &adopted.list[AV_ADOPTIONS];
	uint64_t end = atomic_load_explicit(&heap->end, memory_order_relaxed);

	return atomic_load_explicit(&adopted.count, memory_order_relaxed) != 0 ||
	       (addr < end &&
		addr + len > atomic_load_explicit(&heap->begin, memory_order_relaxed));
}

bool av_adopted_overlaps(uint64_t addr, uint64_t len)
{
	for (uint32_t i = 0; i < AV_ADOPTIONS && i < atomic_load(&adopted.used); i++)
		if (addr < atomic_load(&adopted.list[i].end) &&
		    atomic_load(&adopted.list[i].begin) < addr + len)
			return true;
	return false;
}

static void show(uint32_t i, const struct av_adopted_piece *piece)
{
	struct entry *e = &adopted.list[i];

	atomic_store(&e->dev, piece->file.dev);
	atomic_store(&e->inode, piece->file.ino);
	atomic_store(&e->fd, piece->file.fd);
	atomic_store(&e->at, piece->at);
	atomic_store(&e->begin, piece->begin);
	atomic_store(&e->end, piece->end);
	if (i >= atomic_load(&adopted.used))
		atomic_store(&adopted.used, i + 1);
}

bool av_adopted_ever(void)
{
	return atomic_load_explicit(&adopted.files, memory_order_relaxed) != 0;
}

static bool has_file(uint64_t inode)
{
	uint32_t n = atomic_load(&adopted.files);

	for (uint32_t i = 0; i < n && i < FILES; i++)
		if (atomic_load(&adopted.file[i]) == inode)
			return true;
	return false;
}

bool av_adopted_is_file(const struct av_vma *vma)
{
	return vma->inode && vma->dev == atomic_load(&adopted.dev) && has_file(vma->inode);
}

static void remember_file(const struct av_own_fd *file)
{
	if (has_file(file->ino))
		return;
	atomic_store(&adopted.dev, file->dev);
	atomic_store(&adopted.file[atomic_load(&adopted.files) % FILES], file->ino);
	atomic_fetch_add(&adopted.files, 1);
}

void av_adopted_show(uint32_t i, const struct av_adopted_piece *piece)
{
	remember_file(&piece->file);
	show(i, piece);
	atomic_fetch_add(&adopted.count, 1);
}

void av_adopted_show_heap(const struct av_shared_heap *heap)
{
	struct av_adopted_piece all = {
		heap->begin, heap->begin + AV_SHARED_HEAP_BYTES, {.fd = heap->fd}, 0};
	struct stat st;

	if (fstat(heap->fd, &st) == 0) {
		all.file.dev = st.st_dev;
		all.file.ino = st.st_ino;
	}
	show(AV_ADOPTIONS, &all);
}

void av_adopted_hide(uint32_t i)
{
	atomic_store(&adopted.list[i].end, 0);
	atomic_fetch_sub(&adopted.count, 1);
}

/* The part of a file mapping, from @addr on, that consists of pages of @e. */
static bool piece_of(const struct entry *e, const struct av_vma *vma, uint64_t addr,
		     struct av_adopted_piece *piece)
{
	uint64_t end = atomic_load(&e->end), begin = atomic_load(&e->begin);
	uint64_t at = atomic_load(&e->at);

	piece->file = (struct av_own_fd){atomic_load(&e->fd), atomic_load(&e->dev),
					 atomic_load(&e->inode)};
	if (!end || !av_vma_is_of(vma, &piece->file) ||
	    !av_vma_part(vma, at, end - begin, &piece->begin, &piece->end))
		return false;
	piece->begin = piece->begin > addr ? piece->begin : addr;
	piece->at = vma->offset + (piece->begin - vma->begin);
	return piece->begin < piece->end;
}

/* The first such part of any entry. */
static bool first_piece(const struct av_vma *vma, uint64_t addr, struct av_adopted_piece *piece)
{
	struct av_adopted_piece one;
	bool found = false;

	for (uint32_t i = 0, n = atomic_load(&adopted.used); i < n; i++) {
		if (!piece_of(&adopted.list[i], vma, addr, &one) ||
		    (found && one.begin >= piece->begin))
			continue;
		*piece = one;
		found = true;
	}
	return found;
}

bool av_adopted_next(int maps, uint64_t addr, uint64_t end, struct av_adopted_piece *piece)
{
	struct av_vma vma;

	while (addr < end && av_vma_next(maps, addr, &vma) && vma.begin < end) {
		if (vma.inode && first_piece(&vma, addr, piece) && piece->begin < end) {
			piece->end = piece->end < end ? piece->end : end;
			return true;
		}
		addr = vma.end;
	}
	return false;
}

/* System calls by number: the library's versions are cancellation points. */
static void drop_pages(const struct av_adopted_piece *p)
{
	if (syscall(SYS_fallocate, av_own_fd(&p->file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		    p->at, p->end - p->begin))
		(void)!av_madvise((void *)(uintptr_t)p->begin, p->end - p->begin, MADV_REMOVE);
}

void av_adopted_discard(uint64_t addr, uint64_t len)
{
	struct av_adopted_piece piece;
	int maps;

	if (av_likely(!av_adopted_any(addr, len)))
		return;
	maps = av_vma_open_own();
	if (maps < 0)
		return;
	for (uint64_t at = addr; av_adopted_next(maps, at, addr + len, &piece); at = piece.end)
		drop_pages(&piece);
	syscall(SYS_close, maps);
}
