/* SPDX-License-Identifier: MIT */
/*
 * Changes of the address space that bypass the C library. Registration caches (Open MPI's, UCX's)
 * patch its munmap(), mremap(), madvise() and mmap() to learn of memory that goes away, with locks
 * of their own held while they register. These mappings are our own: no cache need hear. A new
 * mapping, or memory of the program that does go away, may use the C library.
 *
 * Each is the system call of its name, async-signal-safe. ThreadSanitizer must see all mappings:
 * there they are the C library's functions.
 */
#ifndef AV_BASE_MAP_H
#define AV_BASE_MAP_H

#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/compiler.h"

#if defined(__SANITIZE_THREAD__)
#define av_mmap	    mmap
#define av_munmap   munmap
#define av_mremap   mremap
#define av_madvise  madvise
#define av_mprotect mprotect
#else

AV_MUST_USE static inline void *av_mmap(void *addr, size_t bytes, int prot, int flags, int fd,
					off_t offset)
{
	return (void *)syscall(SYS_mmap, addr, bytes, prot, flags, fd,
			       offset); /* NOLINT: MAP_FAILED is -1 */
}

static inline int av_munmap(void *addr, size_t bytes)
{
	return (int)syscall(SYS_munmap, addr, bytes);
}

/* @to: the new address, with MREMAP_FIXED */
AV_MUST_USE static inline void *av_mremap(void *addr, size_t old_bytes, size_t bytes, int flags,
					  void *to)
{
	return (void *)syscall(SYS_mremap, addr, old_bytes, bytes, flags, to); /* NOLINT */
}

static inline int av_mprotect(void *addr, size_t bytes, int prot)
{
	return (int)syscall(SYS_mprotect, addr, bytes, prot);
}

static inline int av_madvise(void *addr, size_t bytes, int advice)
{
	return (int)syscall(SYS_madvise, addr, bytes, advice);
}

#endif

#endif
