/* SPDX-License-Identifier: MIT */
/*
 * mmap() and what takes mappings away, by name and by number: UCX, whose hooks of these functions
 * must not meet themselves, makes its own mappings by syscall(2).
 *
 * Registration caches (UCX's, Open MPI's) patch the C library's functions to hear of memory that
 * goes away. So these are called for what the program calls; and what they then do by number comes
 * here once more (av_block_unmap_begin()).
 */
#include <stdarg.h>

#include "base/thread.h"
#include "memory/region.h"
#include "heap/blocks.h"

AV_FIND_NEXT(mmap);
AV_FIND_NEXT(munmap);
AV_FIND_NEXT(mremap);

/* Like malloc()'s memory: private, of no file, anywhere, no less and no more than read-write. */
static bool is_ordinary(const void *at, size_t bytes, int prot, int flags)
{
	return !at && bytes && prot == (PROT_READ | PROT_WRITE) &&
	       (flags & ~MAP_NORESERVE) == (MAP_PRIVATE | MAP_ANONYMOUS);
}

/* --- mmap ------------------------------------------------------------------------ */

static void *hook_mmap(bool by_number, void *at, size_t bytes, int prot, int flags, int fd,
		       off_t offset)
{
	void *p = is_ordinary(at, bytes, prot, flags) ? av_block_take(bytes, 1, true) : NULL;
	bool over;

	if (p)
		return p;
	over = (flags & MAP_FIXED) && av_block_unmap_begin(at, bytes);
	do
		p = by_number ? (void *)AV_RAW(SYS_mmap, at, bytes, prot, flags, fd,
					       offset) /* NOLINT */
			      : AV_NEXT_OF(mmap)(at, bytes, prot, flags, fd, offset);
	while (p == MAP_FAILED && errno == ENOMEM && av_block_drop_spares());
	if (over)
		av_block_unmap_end(at, bytes, p == MAP_FAILED ? AV_BLOCK_STAYS : AV_BLOCK_HIDDEN);
	return p;
}

AV_EXPORT void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	return hook_mmap(false, at, bytes, prot, flags, fd, offset);
}

AV_EXPORT void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	return hook_mmap(false, at, bytes, prot, flags, fd, offset);
}

/* --- munmap ---------------------------------------------------------------------- */

static int hook_munmap(bool by_number, void *p, size_t bytes)
{
	bool blocks = av_block_unmap_begin(p, bytes);
	int ret = by_number ? (int)AV_RAW(SYS_munmap, p, bytes) : AV_NEXT_OF(munmap)(p, bytes);

	if (blocks)
		av_block_unmap_end(p, bytes, ret ? AV_BLOCK_STAYS : AV_BLOCK_GONE);
	return ret;
}

AV_EXPORT int munmap(void *p, size_t bytes)
{
	return hook_munmap(false, p, bytes);
}

/* --- mremap ---------------------------------------------------------------------- */

struct remap {
	bool by_number; /* the system call, not the C library's function */
	void *p;
	size_t had, bytes;
	int flags;
	void *wanted; /* with MREMAP_FIXED */
};

/*
 * What the kernel refuses with EINVAL whatever the memory, or would only do for shared memory: that
 * is what it takes ours for. The lengths are whole pages.
 */
static bool is_mremap_refused(const struct remap *r)
{
	uint64_t from = (uintptr_t)r->p, to = (uintptr_t)r->wanted;
	bool fixed = r->flags & MREMAP_FIXED, leaves = r->flags & MREMAP_DONTUNMAP;

	return (r->flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP)) ||
	       ((fixed || leaves) && !(r->flags & MREMAP_MAYMOVE)) ||
	       (leaves && r->had != r->bytes) || from % AV_BLOCK_PAGE || !r->had || !r->bytes ||
	       (fixed && (to % AV_BLOCK_PAGE || (to < from + r->had && from < to + r->bytes)));
}

static void *kernel_remap(const struct remap *r)
{
	bool over = (r->flags & MREMAP_FIXED) && av_block_unmap_begin(r->wanted, r->bytes);
	void *p;

	do
		p = r->by_number ? (void *)AV_RAW(SYS_mremap, r->p, r->had, r->bytes, r->flags,
						  r->wanted) /* NOLINT */
				 : AV_NEXT_OF(mremap)(r->p, r->had, r->bytes, r->flags, r->wanted);
	while (p == MAP_FAILED && errno == ENOMEM && av_block_drop_spares());
	if (over)
		av_block_unmap_end(r->wanted, r->bytes,
				   p == MAP_FAILED ? AV_BLOCK_STAYS : AV_BLOCK_HIDDEN);
	return p;
}

static void *fail_mremap(int error)
{
	errno = error;
	return MAP_FAILED;
}

/* The rights of all of a range, which may be several mappings for the kernel; -1: of parts. */
static int read_range_rights(const void *p, size_t bytes)
{
	AV_UNCANCELLED;
	int maps AV_CLOSED = av_vma_open_own();

	return maps < 0 ? -1 : av_vma_rights_of(maps, (uintptr_t)p, bytes);
}

/* The address of a block says where in the file it is, so its bytes move, and not its pages. */
static void *move_bytes(const struct remap *r, int rights)
{
	int fixed = r->flags & MREMAP_FIXED ? MAP_FIXED : 0;
	void *to = hook_mmap(r->by_number, fixed ? r->wanted : NULL, r->bytes,
			     PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);

	if (to == MAP_FAILED)
		return MAP_FAILED;
	av_block_copy(to, r->p, r->had < r->bytes ? r->had : r->bytes);
	if (r->flags & MREMAP_DONTUNMAP)
		(void)madvise(r->p, r->had, MADV_DONTNEED);
	else
		(void)hook_munmap(r->by_number, r->p, r->had);
	if (rights != (PROT_READ | PROT_WRITE))
		(void)mprotect(to, r->bytes, rights);
	return to;
}

static void *move_mapping(const struct remap *r)
{
	int rights = read_range_rights(r->p, r->had);
	bool hidden = rights >= 0 && !(rights & PROT_READ);
	void *to;

	if (rights < 0)
		return fail_mremap(EFAULT);
	if (hidden && mprotect(r->p, r->had, PROT_READ))
		return MAP_FAILED;
	to = move_bytes(r, rights);
	AV_ERRNO_KEPT;
	if (hidden && (to == MAP_FAILED || (r->flags & MREMAP_DONTUNMAP)))
		(void)mprotect(r->p, r->had, rights);
	return to;
}

/* In its place. Return: false: it has to move */
static bool resize(const struct remap *r)
{
	if (r->flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))
		return false;
	return r->bytes <= r->had ||
	       (av_block_bytes(r->p) == r->had && av_block_resize(r->p, r->bytes));
}

static void *remap(struct remap *r)
{
	if (!av_block_is_near(r->p))
		return kernel_remap(r);
	r->had = av_round_up(r->had, AV_BLOCK_PAGE);
	r->bytes = av_round_up(r->bytes, AV_BLOCK_PAGE);
	if (is_mremap_refused(r))
		return fail_mremap(EINVAL);
	if (resize(r))
		return r->bytes < r->had && hook_munmap(r->by_number, (uint8_t *)r->p + r->bytes,
							r->had - r->bytes)
			       ? MAP_FAILED
			       : r->p;
	return r->flags & MREMAP_MAYMOVE ? move_mapping(r) : fail_mremap(ENOMEM);
}

AV_EXPORT void *mremap(void *p, size_t had, size_t bytes, int flags, ...)
{
	struct remap r = {.p = p, .had = had, .bytes = bytes, .flags = flags};
	va_list more;

	va_start(more, flags);
	if (flags & MREMAP_FIXED)
		r.wanted = va_arg(more, void *);
	va_end(more);
	return remap(&r);
}

/* --- syscall --------------------------------------------------------------------- */

/* More than were given are read, as the C library does. */
AV_EXPORT long syscall(long number, ...)
{
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	switch (number) {
	case SYS_mmap:
		return (long)hook_mmap(true, (void *)a[0], (size_t)a[1], (int)a[2], (int)a[3],
				       (int)a[4], a[5]);
	case SYS_munmap:
		return hook_munmap(true, (void *)a[0], (size_t)a[1]);
	case SYS_mremap: {
		struct remap r = {true,		(void *)a[0], (size_t)a[1],
				  (size_t)a[2], (int)a[3],    (void *)a[4]};

		return (long)remap(&r);
	}
	case SYS_clone:
	case SYS_clone3:
#ifdef SYS_fork
	case SYS_fork:
#endif
		return av_heap_clone(number, a);
	default:
		return AV_RAW(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	}
}
