/* SPDX-License-Identifier: MIT */

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "base/thread.h"
#include "memory/region.h"

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

bool av_heap_next(int maps, uint64_t addr, uint64_t end, struct av_heap_extent *extent)
{
	const struct av_own_fd file = {atomic_load(&own.fd), atomic_load(&own.dev),
				       atomic_load(&own.ino)};
	struct av_vma vma;

	for (; addr < end && av_vma_next(maps, addr, &vma) && vma.begin < end; addr = vma.end) {
		uint64_t begin = vma.begin > addr ? vma.begin : addr;

		if (!av_vma_is_of(&vma, &file))
			continue;
		*extent = (struct av_heap_extent){begin, vma.end < end ? vma.end : end, file,
						  vma.offset + (begin - vma.begin)};
		return true;
	}
	return false;
}

/* System calls by number: the library's versions are cancellation points. */
static void discard_file_pages(const struct av_heap_extent *p)
{
	if (syscall(SYS_fallocate, av_own_fd(&p->file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		    p->at, p->end - p->begin))
		(void)!av_madvise((void *)(uintptr_t)p->begin, p->end - p->begin, MADV_REMOVE);
}

void av_heap_discard(uint64_t addr, uint64_t len)
{
	struct av_heap_extent extent;
	int maps;

	if (av_likely(!av_heap_is_near(addr, len)))
		return;
	maps = av_vma_open_own();
	if (maps < 0)
		return;
	for (uint64_t at = addr; av_heap_next(maps, at, addr + len, &extent); at = extent.end)
		discard_file_pages(&extent);
	syscall(SYS_close, maps);
}

static_assert(offsetof(struct av_file_run, begin) == offsetof(struct av_heap_part, addr) &&
		      offsetof(struct av_file_run, bytes) == offsetof(struct av_heap_part, bytes) &&
		      offsetof(struct av_file_run, what) == offsetof(struct av_heap_part, at),
	      "a run's descriptor begins as a part's");

struct run {
	LIST_ENTRY(run) entry;
	struct av_seg *seg;
	uint32_t part;
	uint32_t users;
	uint32_t extents;
	struct av_file_extent extent[];
};

static struct {
	pthread_mutex_t mutex;
	LIST_HEAD(, run) list;
	uint64_t serial;
} runs = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void reset_file_runs_in_child(void)
{
	LIST_INIT(&runs.list);
}

static uint64_t file_run_bytes(uint32_t extents)
{
	return sizeof(struct av_file_run) + extents * sizeof(struct av_file_extent);
}

static struct av_file_run *at(const struct av_seg *seg, uint32_t part)
{
	return av_seg_at(seg, (uint64_t)part << AV_HEAP_PART_SHIFT, sizeof(struct av_file_run));
}

/* --- what the range is on -------------------------------------------------------- */

/* Return: false: it is not memory that others could share. Files of disks have a device. */
static bool read_file_extent(int maps, uint64_t addr, struct av_file_extent *p)
{
	struct av_vma vma;

	if (!av_vma_next(maps, addr, &vma) || vma.begin > addr || !vma.shared || !vma.readable ||
	    !vma.writable || vma.inode == 0 || major(vma.dev) != 0)
		return false;
	*p = (struct av_file_extent){vma.begin, vma.end, vma.dev, vma.inode, vma.offset};
	return true;
}

/* The mappings of [addr, end), into @to if it has room for @n. Return: how many; 0: other memory */
static uint32_t list_extents(int maps, uint64_t addr, uint64_t end, struct av_file_extent *to,
			     uint32_t n)
{
	uint32_t count = 0;

	for (struct av_file_extent p; addr < end; addr = p.end) {
		if (count == AV_FILE_EXTENTS_MAX || !read_file_extent(maps, addr, &p))
			return 0;
		if (count < n)
			to[count] = p;
		count++;
	}
	return count;
}

/* The run of mappings under [addr, end). NULL: it is no such memory, or there is none to say so */
static struct run *collect_file_run(int maps, uint64_t addr, uint64_t end)
{
	uint32_t n = list_extents(maps, addr, end, NULL, 0);
	struct run *r = n ? calloc(1, sizeof(*r) + n * sizeof(r->extent[0])) : NULL;

	if (!r)
		return NULL;
	r->extents = n;
	if (list_extents(maps, addr, end, r->extent, n) == n)
		return r;
	free(r); /* it has changed meanwhile */
	return NULL;
}

/* --- who asks for a file --------------------------------------------------------- */

/* Peers get the heap and the files of regions, and no other descriptor. */
static bool is_handed(uint64_t dev, uint64_t ino)
{
	const struct av_shared_heap *heap = av_shared_heap_own();
	bool ret = heap && heap->file.dev == dev && heap->file.ino == ino;
	const struct run *r;

	AV_LOCKED(&runs.mutex);
	LIST_FOREACH(r, &runs.list, entry)
		for (uint32_t i = 0; i < r->extents && !ret; i++)
			ret = r->extent[i].dev == dev && r->extent[i].ino == ino;
	return ret;
}

void av_file_region_begin(void)
{
	static const struct av_fork_handlers handlers = {.mutex = &runs.mutex,
							 .child = reset_file_runs_in_child};

	if (av_fork_register(AV_FORK_FILE_RUNS, &handlers) == 0)
		av_fd_pass_files_by(is_handed);
}

/* --- regions --------------------------------------------------------------------- */

static struct run *find_file_run(const struct run *like)
{
	struct run *r;

	LIST_FOREACH(r, &runs.list, entry)
		if (r->seg == like->seg && r->extents == like->extents &&
		    memcmp(r->extent, like->extent, r->extents * sizeof(r->extent[0])) == 0)
			return r;
	return NULL;
}

/* Describe it in the segment. The mutex is held. Return: false: there is no room */
static bool publish_file_run(struct run *r)
{
	uint64_t offset = av_seg_alloc(r->seg, file_run_bytes(r->extents));
	struct av_file_run *run;

	if (!offset)
		return false;
	if (!runs.serial)
		runs.serial = av_now_ns();
	r->part = (uint32_t)(offset >> AV_HEAP_PART_SHIFT);
	run = at(r->seg, r->part);
	run->begin = r->extent[0].begin;
	run->bytes = r->extent[r->extents - 1].end - run->begin;
	run->extents = r->extents;
	memcpy(run->extent, r->extent, r->extents * sizeof(r->extent[0]));
	atomic_store(&run->what, AV_FILE_RUN);
	atomic_store(&run->serial, ++runs.serial);
	LIST_INSERT_HEAD(&runs.list, r, entry);
	return true;
}

/* Return: one that is used once more, or NULL; @r is taken over */
static struct run *acquire_file_run(struct run *r)
{
	struct run *there;

	pthread_mutex_lock(&runs.mutex);
	there = find_file_run(r);
	if (!there && publish_file_run(r))
		there = r;
	if (there)
		there->users++;
	pthread_mutex_unlock(&runs.mutex);
	if (there != r)
		free(r);
	return there;
}

static bool is_page_of_file(uint64_t addr)
{
	const uint64_t both = AV_PAGEMAP_PRESENT | AV_PAGEMAP_FILE;
	uint64_t entry;

	return av_pagemap_read(addr, &entry, 1) == 1 && (entry & both) == both;
}

uint32_t av_file_region(struct av_seg *seg, uint64_t addr, uint64_t length)
{
	AV_ERRNO_KEPT;
	int maps AV_CLOSED = -1;
	struct run *r;

	if (length == 0 || av_heap_is_near(addr, length) || !is_page_of_file(addr))
		return 0;
	maps = av_vma_open_own();
	r = maps < 0 ? NULL : collect_file_run(maps, addr, addr + length);
	if (r) {
		r->seg = seg;
		r = acquire_file_run(r);
	}
	return r ? r->part : 0;
}

bool av_file_region_is(const struct av_seg *seg, uint32_t part)
{
	const struct av_file_run *run = part ? at(seg, part) : NULL;

	return run && atomic_load(&run->what) == AV_FILE_RUN;
}

static void destroy_file_run(struct run *r)
{
	struct av_file_run *run = at(r->seg, r->part);

	atomic_store(&run->serial, 0);
	if (atomic_load(&run->viewed))
		av_seg_call_peers();
	atomic_store(&run->what, 0);
	av_seg_free(r->seg, (uint64_t)r->part << AV_HEAP_PART_SHIFT, file_run_bytes(r->extents));
	free(r);
}

/* @part: 0: any. Return: one without users, taken out of the list */
static struct run *release_file_run(const struct av_seg *seg, uint32_t part)
{
	struct run *r;

	AV_LOCKED(&runs.mutex);
	LIST_FOREACH(r, &runs.list, entry)
		if (r->seg == seg && (r->part == part || !part))
			break;
	if (r && part && --r->users > 0)
		r = NULL;
	if (r)
		LIST_REMOVE(r, entry);
	return r;
}

void av_file_region_end(struct av_seg *seg, uint32_t part)
{
	AV_ERRNO_KEPT;
	struct run *r = release_file_run(seg, part);

	if (r)
		destroy_file_run(r);
}

void av_file_region_close(struct av_seg *seg)
{
	struct run *r;

	while ((r = release_file_run(seg, 0)))
		destroy_file_run(r);
}
