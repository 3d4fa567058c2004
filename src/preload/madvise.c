/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/userfaultfd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/real_calls.h"
#include "base/thread.h"
#include "copy/copy.h"
#include "memory/heap_region.h"
#include "memory/odp_notify.h"
#include "memory/odp_track.h"
#include "memory/odp_uffd.h"
#include "memory/shared_region.h"
#include "memory/vma.h"

/* Code and protection keys are for private pages, and rights do not change while pages move. */

AV_EXPORT int mprotect(void *start, size_t bytes, int prot)
{
	return av_heap_protect((uintptr_t)start, bytes, prot, -1);
}

/* No key is the same as mprotect(), also on kernels without keys. */
AV_EXPORT int pkey_mprotect(void *start, size_t bytes, int prot, int key)
{
	return av_heap_protect((uintptr_t)start, bytes, prot, key);
}

/*
 * A userfaultfd of the program's own. Memory can have one, so ours lets go of what the program
 * registers; and an exchange of pages would lose the registration, so blocks of the shared heap
 * become private before.
 */

AV_FIND_NEXT(ioctl);

static int register_range(int fd, void *arg)
{
	int saved = errno, ret;
	struct uffdio_register r;
	bool known = av_copy(&r, arg, sizeof(r)) == AV_COPY_OK;

	if (known)
		av_heap_leave(r.range.start, r.range.len);
	errno = saved;
	ret = AV_NEXT_OF(ioctl)(fd, UFFDIO_REGISTER, arg);
	if (ret == 0 || errno != EBUSY || !known)
		return ret;
	av_odp_release(r.range.start, r.range.len);
	errno = saved;
	return AV_NEXT_OF(ioctl)(fd, UFFDIO_REGISTER, arg);
}

AV_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list more;
	void *arg;

	va_start(more, request);
	arg = va_arg(more, void *);
	va_end(more);
	return av_unlikely(request == UFFDIO_REGISTER) ? register_range(fd, arg)
						       : AV_NEXT_OF(ioctl)(fd, request, arg);
}

/*
 * madvise(2) on the shared heap: discarding must leave zeros, and MADV_FREE must work, though the
 * pages are not private; and some advice is for private pages. What does not come through here (the
 * system call by number, the C library's own) reaches memory/odp_notify.c as an event of
 * userfaultfd.
 */

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

static int kernel(uint64_t addr, uint64_t len, int advice)
{
	return (int)syscall(SYS_madvise, addr, len, advice);
}

/* Pages that may be freed may also be kept: of those on the heap nothing need be done. */
static int free_others(int maps, uint64_t addr, uint64_t end)
{
	struct av_heap_piece piece;
	int ret = 0;

	while (ret == 0 && av_heap_next(maps, addr, end, &piece)) {
		if (piece.begin > addr)
			ret = kernel(addr, piece.begin - addr, MADV_FREE);
		addr = piece.end;
	}
	return ret == 0 && addr < end ? kernel(addr, end - addr, MADV_FREE) : ret;
}

static int madvise_free_pages(uint64_t addr, uint64_t len)
{
	int maps = av_vma_open_own();
	int ret;

	if (maps < 0)
		return kernel(addr, len, MADV_FREE);
	ret = free_others(maps, addr, addr + len);
	syscall(SYS_close, maps);
	return ret;
}

/*
 * First the mapping's pages, then the file's, so that nothing goes if the kernel refuses. And once
 * more: pages that became private meanwhile were copied from the file, perhaps too early. The
 * listener hears of it, too, and must not discard what the program stores next.
 */
static int discard(uint64_t addr, uint64_t len, int advice)
{
	int ret = kernel(addr, len, advice), saved = errno;

	if (ret || av_likely(!av_heap_is_near(addr, len)))
		return ret;
	av_heap_discard(addr, len);
	(void)kernel(addr, len, advice);
	av_odp_barrier();
	errno = saved;
	return 0;
}

/* Private memory is of no file, and has no pages in one to be removed. */
static int remove_pages(uint64_t addr, uint64_t len)
{
	struct av_heap_piece piece;
	int maps = av_vma_open_own();
	bool any = maps >= 0 && av_heap_next(maps, addr, addr + len, &piece);

	if (maps >= 0)
		syscall(SYS_close, maps);
	if (!any)
		return kernel(addr, len, MADV_REMOVE);
	errno = EINVAL;
	return -1;
}

static bool is_for_private(int advice)
{
	return advice == MADV_DONTFORK || advice == MADV_WIPEONFORK || advice == MADV_DONTDUMP ||
	       advice == MADV_MERGEABLE || advice == MADV_GUARD_INSTALL;
}

static bool discards(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED;
}

static bool takes_pages(int advice)
{
	return discards(advice) || advice == MADV_FREE || advice == MADV_REMOVE;
}

static int dispatch_madvise(uint64_t addr, uint64_t len, int advice)
{
	if (discards(advice))
		return discard(addr, len, advice);
	if (advice == MADV_FREE && av_unlikely(av_heap_is_near(addr, len)))
		return madvise_free_pages(addr, len);
	if (advice == MADV_REMOVE && av_unlikely(av_heap_is_near(addr, len)))
		return remove_pages(addr, len);
	if (is_for_private(advice) && len)
		av_heap_leave(addr, len);
	return kernel(addr, len, advice);
}

AV_EXPORT int madvise(void *start, size_t bytes, int advice)
{
	AV_UNCANCELLED;
	uint64_t addr = (uintptr_t)start, page = (uint64_t)sysconf(_SC_PAGESIZE), len;
	uint32_t call;
	int ret;

	if (addr % page || bytes > UINT64_MAX - addr - page)
		return kernel(addr, bytes, advice);
	len = av_round_up(bytes, page); /* as the kernel does */
	if (!takes_pages(advice))
		return dispatch_madvise(addr, len, advice);
	call = av_odp_discard_begin(addr, len);
	ret = dispatch_madvise(addr, len, advice);
	av_odp_discard_end(call);
	return ret;
}
