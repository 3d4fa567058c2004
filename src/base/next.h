/* SPDX-License-Identifier: MIT */
/* The function behind ours of the same name: the C library's, or another library's. */
#ifndef AV_BASE_NEXT_H
#define AV_BASE_NEXT_H

#include <dlfcn.h>

#include "base/compiler.h"

/*
 * At file scope, before AV_NEXT_OF(): look it up when this library is loaded. dlsym() takes a lock,
 * and a thread that loads a library, whose constructor waits for the caller, has it.
 */
#define AV_FIND_NEXT(name)                                                                 \
	static void *next_##name;                                                          \
	__attribute__((constructor)) static void find_next_##name(void)                    \
	{                                                                                  \
		__atomic_store_n(&next_##name, dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED); \
		if (!__atomic_load_n(&next_##name, __ATOMIC_RELAXED))                      \
			(void)dlerror(); /* the program must not find our error message */ \
	}                                                                                  \
	struct av_next

/*
 * As a typed expression: AV_NEXT_OF(dlopen)(file, mode). Before the constructor has run it is
 * looked up here, which takes no memory.
 */
#define AV_NEXT_OF(name)                                                              \
	({                                                                            \
		if (av_unlikely(!__atomic_load_n(&next_##name, __ATOMIC_RELAXED)))    \
			find_next_##name();                                           \
		(__typeof__(&(name)))__atomic_load_n(&next_##name, __ATOMIC_RELAXED); \
	})

#endif
