/* SPDX-License-Identifier: MIT */
/*
 * mmap() and what takes mappings away. Registration caches (UCX's, Open MPI's) patch the C
 * library's functions, which are called here, so that they hear of everything.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "heap/next.h"
#include "heap/window.h"

AV_EXPORT void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);

/* Memory like malloc()'s: of no file, private, anywhere, to be read and written and nothing else. */
static bool is_ordinary(const void *at, size_t bytes, int prot, int flags)
{
	return !at && bytes && prot == (PROT_READ | PROT_WRITE) &&
	       (flags & ~MAP_NORESERVE) == (MAP_PRIVATE | MAP_ANONYMOUS);
}

AV_EXPORT void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	void *p = is_ordinary(at, bytes, prot, flags) ? av_window_take(bytes, 1) : NULL;

	if (p)
		return p;
	p = AV_NEXT(mmap)(at, bytes, prot, flags, fd, offset);
	if ((flags & MAP_FIXED) && p != MAP_FAILED && av_window_has(p))
		av_window_gone(p, bytes, true);
	return p;
}

AV_EXPORT void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
	__attribute__((alias("mmap")));

AV_EXPORT int munmap(void *p, size_t bytes)
{
	int ret = AV_NEXT(munmap)(p, bytes);

	if (ret == 0 && av_window_has(p))
		av_window_gone(p, bytes, false);
	return ret;
}

/* The addresses of blocks say where in the file they are, so they are not moved but copied. */
static void *move(void *p, size_t had, size_t bytes, int flags, void *wanted)
{
	void *to;

	if (flags & MREMAP_FIXED)
		to = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	else
		to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED)
		return MAP_FAILED;
	memcpy(to, p, had < bytes ? had : bytes);
	munmap(p, had);
	return to;
}

AV_EXPORT void *mremap(void *p, size_t had, size_t bytes, int flags, ...)
{
	void *wanted = NULL;
	va_list more;

	if (flags & MREMAP_FIXED) {
		va_start(more, flags);
		wanted = va_arg(more, void *);
		va_end(more);
	}
	if (!av_window_has(p) || !had || !bytes ||
	    (uintptr_t)p % AV_HEAP_PAGE)
		return AV_NEXT(mremap)(p, had, bytes, flags, wanted);
	if (!wanted && bytes <= had) {
		if (bytes < had)
			munmap((uint8_t *)p + bytes, had - bytes); /* whole pages, as the kernel counts */
		return p;
	}
	if (!wanted && av_window_bytes(p) == had && av_window_resize(p, bytes))
		return p;
	if (flags & MREMAP_MAYMOVE)
		return move(p, had, bytes, flags, wanted);
	errno = ENOMEM;
	return MAP_FAILED;
}
