/* SPDX-License-Identifier: MIT */
/* The function behind ours: the C library's, or another allocator's. */
#ifndef AV_HEAP_NEXT_H
#define AV_HEAP_NEXT_H

#include <dlfcn.h>

#define AV_EXPORT __attribute__((visibility("default")))

/* As a typed expression, looked up once. Looking up takes no memory where the function exists. */
#define AV_NEXT(name)                                                                            \
	({                                                                                       \
		static void *next_;                                                              \
		if (!__atomic_load_n(&next_, __ATOMIC_RELAXED))                                  \
			__atomic_store_n(&next_, dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED);     \
		(__typeof__(&name))__atomic_load_n(&next_, __ATOMIC_RELAXED);                    \
	})

#endif
