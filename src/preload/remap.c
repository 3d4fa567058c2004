/* SPDX-License-Identifier: MIT */
/*
 * mremap(2) of pages that are or were adopted (docs/ADOPTION.md). The kernel would make a mapping
 * of the segment larger by what lies behind in that file, which is somebody else's; it would leave
 * the same pages at the old address; and it takes one mapping at a time, while pages may be several
 * since they moved. So they are put, mapping by mapping, in front of new private memory.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/map.h"
#include "base/next.h"
#include "base/remap.h"
#include "memory/adopted.h"
#include "memory/vma.h"

AV_FIND_NEXT(mremap);

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define PAGE_BYTES AV_ADOPTED_ALIGN /* with other pages, nothing is adopted */

/* Is the range of a segment, or of several mappings, and of no other file? */
static bool is_moved(int maps, uint64_t at, uint64_t end)
{
	bool file = false;
	unsigned int n = 0;
	struct av_vma vma;

	for (; at < end; at = vma.end, n++) {
		if (!av_vma_next(maps, at, &vma) || !(vma.anonymous || av_adopted_is_file(&vma)))
			return false;
		file |= !vma.anonymous;
	}
	return file || n > 1;
}

/*
 * Is the range one mapping for the program, but not for the kernel? @prot: out; its rights. Where
 * the kernel cannot be asked, memory that is adopted is; it can grow in its place then, and not
 * move
 */
static bool is_ours(const struct av_remap *r, int *prot)
{
	uint64_t at = (uintptr_t)r->p, bytes = r->had ? r->had : 1;
	int maps = av_vma_open_own();
	bool ret;

	*prot = PROT_READ | PROT_WRITE;
	if (maps < 0)
		return av_adopted_overlaps(at, bytes);
	*prot = av_vma_rights_of(maps, at, bytes);
	ret = *prot >= 0 && is_moved(maps, at, at + bytes);
	syscall(SYS_close, maps);
	return ret;
}

static void *fail(int error)
{
	errno = error;
	return MAP_FAILED;
}

static void *fresh(void *at, size_t bytes, int prot, int flags)
{
	return av_mmap(at, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static void *grow_in_place(const struct av_remap *r, int prot)
{
	uint8_t *end = (uint8_t *)r->p + r->had;
	void *more = fresh(end, r->bytes - r->had, prot, MAP_FIXED_NOREPLACE);

	if (more == end)
		return r->p;
	if (more != MAP_FAILED) /* a kernel before 4.17 takes the address for a hint */
		av_munmap(more, r->bytes - r->had);
	return fail(ENOMEM);
}

/*
 * By the C library's function: registration caches hear of it. @leave: MREMAP_DONTUNMAP: the old
 * mapping stays, so that nobody gets its place, if the kernel can; before 5.13 it cannot. Or 0
 */
static bool move_mapping(uint8_t *from, uint8_t *to, size_t bytes, int leave)
{
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;

	return (leave && AV_NEXT_OF(mremap)(from, bytes, bytes, flags | leave, to) != MAP_FAILED) ||
	       AV_NEXT_OF(mremap)(from, bytes, bytes, flags, to) != MAP_FAILED;
}

/* Return: bytes that were moved */
static size_t move_mappings(uint8_t *from, uint8_t *to, size_t bytes, int leave)
{
	int maps = av_vma_open_own();
	struct av_vma vma;
	size_t at = 0, n;

	for (; maps >= 0 && at < bytes && av_vma_next(maps, (uintptr_t)from + at, &vma); at += n) {
		n = vma.end - ((uintptr_t)from + at);
		n = n < bytes - at ? n : bytes - at;
		if (!move_mapping(from + at, to + at, n, leave))
			break;
	}
	if (maps >= 0)
		syscall(SYS_close, maps);
	return at;
}

static void *move(const struct av_remap *r, int prot)
{
	size_t kept = r->had < r->bytes ? r->had : r->bytes, moved;
	uint8_t *from = r->p, *to;

	to = r->flags & MREMAP_FIXED ? fresh(r->wanted, r->bytes, prot, MAP_FIXED)
				     : fresh(NULL, r->bytes, prot, 0);
	if (to == MAP_FAILED)
		return MAP_FAILED;
	moved = move_mappings(from, to, kept, r->flags & MREMAP_DONTUNMAP);
	if (moved < kept) {
		(void)move_mappings(to, from, moved, 0);
		av_munmap(to, r->bytes);
		return fail(ENOMEM);
	}
	if (r->flags & MREMAP_DONTUNMAP)
		(void)!fresh(from, r->had, prot, MAP_FIXED);
	else if (kept < r->had)
		munmap(from + kept, r->had - kept);
	return to;
}

static void *remap(struct av_remap *r)
{
	const int elsewhere = MREMAP_FIXED | MREMAP_DONTUNMAP;
	int saved = errno, prot = PROT_NONE;
	void *ret;

	if (av_likely(!av_adopted_ever()) || (r->bytes <= r->had && !(r->flags & elsewhere)) ||
	    !is_ours(r, &prot)) {
		errno = saved;
		return AV_NEXT_OF(mremap)(r->p, r->had, r->bytes, r->flags, r->wanted);
	}
	av_remap_round(r, PAGE_BYTES);
	if (av_remap_refused(r, PAGE_BYTES))
		return fail(EINVAL);
	ret = r->flags & MREMAP_MAYMOVE ? move(r, prot) : grow_in_place(r, prot);
	if (ret != MAP_FAILED)
		errno = saved;
	return ret;
}

AV_EXPORT void *mremap(void *p, size_t had, size_t bytes, int flags, ...)
{
	struct av_remap r;
	va_list more;

	va_start(more, flags);
	r = av_remap_of(p, had, bytes, flags, more);
	va_end(more);
	return remap(&r);
}
