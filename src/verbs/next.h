/* SPDX-License-Identifier: MIT */
/* The verbs of the system's own libibverbs, to which calls on foreign objects are passed on. */
#ifndef AV_VERBS_NEXT_H
#define AV_VERBS_NEXT_H

#include <dlfcn.h>

#include "verbs/fail.h"

/* A verb of the system's libibverbs, or NULL if that has none. @version: NULL: the default. */
static inline void *av_next(const char *name, const char *version)
{
	return version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
}

/* The same with the verb's type, looked up once: AV_NEXT(ibv_alloc_pd, "IBVERBS_1.1")(context). */
#define AV_NEXT(name, version)                                                               \
	({                                                                                   \
		static void *next_;                                                          \
		if (!__atomic_load_n(&next_, __ATOMIC_RELAXED))                              \
			__atomic_store_n(&next_, av_next(#name, version), __ATOMIC_RELAXED); \
		(__typeof__(&(name)))__atomic_load_n(&next_, __ATOMIC_RELAXED);              \
	})

/* The same, called; evaluates to @missing if the system's library is too old to have it. */
#define AV_NEXT_OR(missing, name, version, ...)                    \
	({                                                         \
		__typeof__(&name) newer_ = AV_NEXT(name, version); \
		newer_ ? newer_(__VA_ARGS__) : (missing);          \
	})

/*
 * The first statement of a verb on @object, which the program gives: NULL is EINVAL, and an object
 * of another device goes on to the system's verb, with its other arguments. Returns from the verb,
 * by @fail of verbs/fail.h, unless the object is of one of our contexts.
 */
#define AV_OURS_OR_NEXT(fail, id, name, version, object, ...)                                    \
	do {                                                                                     \
		if (!(object))                                                                   \
			return fail(AV_VERB_##id, av_refuse(EINVAL, AV_CHECK_NO_OBJECT, 0, 0));  \
		if (!av_ours((object)->context))                                                 \
			return AV_NEXT_OR(fail(AV_VERB_##id, EOPNOTSUPP), name, version, object, \
					  ##__VA_ARGS__);                                        \
	} while (0)

#endif
