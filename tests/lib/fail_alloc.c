/* SPDX-License-Identifier: MIT */
#include "lib/fail_alloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local struct {
	bool active, failed;
	enum fail_alloc how;
	unsigned int left; /* allocations up to and including the one that fails */
} plan;

void fail_alloc_begin(enum fail_alloc how, unsigned int nth)
{
	plan.how = how;
	plan.left = nth;
	plan.failed = false;
	plan.active = true;
}

bool fail_alloc_end(void)
{
	plan.active = false;
	return plan.failed;
}

static bool fails(void)
{
	if (!plan.active)
		return false;
	if (plan.left > 0)
		plan.left--;
	if (plan.left > 0 || (plan.failed && plan.how == FAIL_ONCE))
		return false;
	plan.failed = true;
	return true;
}

#define EXPORT __attribute__((visibility("default")))

/* The function that would be called without this file: the sanitizer's or the C library's. */
#define NEXT(name)                                                                     \
	({                                                                             \
		static typeof(name) *_Atomic next_;                                    \
		if (!atomic_load(&next_))                                              \
			atomic_store(&next_, (typeof(name) *)dlsym(RTLD_NEXT, #name)); \
		atomic_load(&next_);                                                   \
	})

static void *no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

EXPORT void *malloc(size_t size)
{
	return fails() ? no_memory() : NEXT(malloc)(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
	return fails() ? no_memory() : NEXT(calloc)(count, size);
}

EXPORT void *realloc(void *old, size_t size)
{
	return fails() ? no_memory() : NEXT(realloc)(old, size);
}

EXPORT void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (!fails())
		return NEXT(mmap)(addr, length, prot, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

/*
 * Catches mappings that the library makes without the C library's functions (base/real_calls.h).
 * Always passes on six arguments, like the C library; the kernel ignores surplus ones.
 */
__attribute__((no_sanitize("address"))) EXPORT long syscall(long number, ...)
{
	long arg[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(list, long);
	va_end(list);
	if ((number != SYS_mmap && number != SYS_mremap) || !fails())
		return NEXT(syscall)(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	errno = ENOMEM;
	return -1;
}

EXPORT int mprotect(void *addr, size_t length, int prot)
{
	if (!fails())
		return NEXT(mprotect)(addr, length, prot);
	errno = ENOMEM;
	return -1;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	return fails() ? EAGAIN : NEXT(pthread_create)(thread, attr, run, arg);
}

EXPORT int posix_fallocate(int fd, off_t offset, off_t length)
{
	return fails() ? ENOSPC : NEXT(posix_fallocate)(fd, offset, length);
}
