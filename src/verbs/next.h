/* SPDX-License-Identifier: MIT */
/* The verbs of the system's own libibverbs, to which calls on foreign objects are passed on. */
#ifndef AV_VERBS_NEXT_H
#define AV_VERBS_NEXT_H

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "observe/check.h"
#include "transport/observed.h"
#include "verbs/objects.h"

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
 * by @fail, unless the object is of one of our contexts.
 */
#define AV_OURS_OR_NEXT(fail, id, name, version, object, ...)                                    \
	do {                                                                                     \
		if (!(object))                                                                   \
			return fail(AV_VERB_##id, av_refuse(EINVAL, AV_CHECK_NO_OBJECT, 0, 0));  \
		if (!av_ours((object)->context))                                                 \
			return AV_NEXT_OR(fail(AV_VERB_##id, EOPNOTSUPP), name, version, object, \
					  ##__VA_ARGS__);                                        \
	} while (0)

/* Checks that the device can be used, and reports the failure of a verb. */

/* A forked child may ask, too: it reads what its parent mapped. */
static inline bool av_device_failed(const struct av_context *ctx)
{
	return atomic_load(&ctx->seg->head->fatal);
}

/* 0; EPERM: the parent's context in a forked child; EIO: a failed device. */
static inline int av_context_err(const struct av_context *ctx)
{
	if (av_unlikely(ctx->forked))
		return EPERM;
	return av_unlikely(av_device_failed(ctx)) ? EIO : 0;
}

/* The same for a verb that makes or changes an object. Such a verb may also fail on demand. */
static inline int av_verb_err(const struct av_context *ctx, enum av_fail verb)
{
	int err = av_context_err(ctx);

	return err || !av_faults_watched(ctx->seg) ? err : av_inject_verb(ctx->seg, verb);
}

/* How verbs fail. Each leaves a record (observe/check.h) with the check av_refuse() noted. */
static inline int av_fail_errno(enum av_verb verb, int err)
{
	return errno = av_refused(verb, err);
}

static inline void *av_fail_null(enum av_verb verb, int err)
{
	errno = av_refused(verb, err);
	return NULL;
}

static inline int av_fail_fd(enum av_verb verb, int err)
{
	errno = av_refused(verb, err);
	return -1;
}

/* A private half, all zero. On @err, or without memory: NULL, and the failure is reported. */
static inline void *av_object_new(enum av_verb verb, int err, size_t size)
{
	void *object = err ? NULL : calloc(1, size);

	return object ? object : av_fail_null(verb, err ? err : ENOMEM);
}

#endif
