/* SPDX-License-Identifier: MIT */
#include "segment/map_file.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/map.h"
#include "segment/pages.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static void *map(void *wanted, uint64_t bytes, int prot, int flags, int fd, uint64_t offset)
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

static void *reserve(uint64_t bytes)
{
	return mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Kernels from 6.7 on align it to a huge page unasked. */
void *av_map_place(uint64_t bytes, uint64_t offset, uint64_t align)
{
	uint8_t *p = reserve(bytes);
	uint64_t before;

	if (p == MAP_FAILED)
		return NULL;
	if (((offset - (uintptr_t)p) & (align - 1)) == 0)
		return p;
	av_munmap(p, bytes);
	p = reserve(bytes + align);
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
		return map(wanted, bytes, prot, flags, fd, offset);
	bytes = av_round_up(bytes, AV_PAGE_BYTES);
	place = av_map_place(bytes, offset, AV_HUGE_PAGE_BYTES);
	if (!place)
		return map(NULL, bytes, prot, flags, fd, offset);
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

	return map(wanted, bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | (huge ? from_pool : 0), -1, 0);
}
