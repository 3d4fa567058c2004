/* SPDX-License-Identifier: MIT */
/* The function behind ours of the same name: the C library's, or another library's. */
#ifndef AV_BASE_NEXT_H
#define AV_BASE_NEXT_H

#include <dlfcn.h>

#include "base/compiler.h"

/*
 * As a typed expression: AV_NEXT_OF(dlopen)(file, mode). Looked up once, which takes no memory. It
 * needs no constructor to have run.
 */
#define AV_NEXT_OF(name)                                                                     \
	({                                                                                   \
		static void *next_;                                                          \
		if (av_unlikely(!__atomic_load_n(&next_, __ATOMIC_RELAXED)))                 \
			__atomic_store_n(&next_, dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED); \
		(__typeof__(&(name)))__atomic_load_n(&next_, __ATOMIC_RELAXED);              \
	})

#endif
