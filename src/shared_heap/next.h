/* SPDX-License-Identifier: MIT */
/* The function behind ours: the C library's, or another allocator's. */
#ifndef AV_SHARED_HEAP_NEXT_H
#define AV_SHARED_HEAP_NEXT_H

#include <dlfcn.h>
#include <unistd.h>

#include "base/compiler.h"

/* As a typed expression, looked up once, which takes no memory. */
#define AV_NEXT(name)                                                                        \
	({                                                                                   \
		static void *next_;                                                          \
		if (av_unlikely(!__atomic_load_n(&next_, __ATOMIC_RELAXED)))                 \
			__atomic_store_n(&next_, dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED); \
		(__typeof__(&(name)))__atomic_load_n(&next_, __ATOMIC_RELAXED);              \
	})

/* System calls past our own hook of syscall(2). The first one is made with no lock held, since it
 * looks a name up. */
#define AV_RAW(...) AV_NEXT(syscall)(__VA_ARGS__)

#endif
