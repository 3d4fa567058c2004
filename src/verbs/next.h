/* SPDX-License-Identifier: MIT */
/* How a verb begins, fails with a record, and passes others' objects to the system's libibverbs. */
#pragma once

#include <dlfcn.h>

#include "base/thread.h"
#include "transport/observed.h"
#include "verbs/objects.h"

/* A verb of the system's libibverbs. @version: NULL: the default. Return: NULL: it has none */
static inline void *av_next(const char *name, const char *version)
{
	return version ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
}

/* The same with its type, looked up once: AV_NEXT(ibv_alloc_pd, "IBVERBS_1.1")(context). */
#define AV_NEXT(name, version)                                                               \
	({                                                                                   \
		static void *next_;                                                          \
		if (!__atomic_load_n(&next_, __ATOMIC_RELAXED))                              \
			__atomic_store_n(&next_, av_next(#name, version), __ATOMIC_RELAXED); \
		(__typeof__(&(name)))__atomic_load_n(&next_, __ATOMIC_RELAXED);              \
	})

/* Calls it. Evaluates to @missing if the system's library is too old to have it. */
#define AV_NEXT_OR(missing, name, version, ...)                    \
	({                                                         \
		__typeof__(&name) newer_ = AV_NEXT(name, version); \
		newer_ ? newer_(__VA_ARGS__) : (missing);          \
	})

/* Return from the verb with what the system's gives for @args, unless the context is ours. */
#define AV_PASS_ON(context, name, version, ...)                     \
	do {                                                        \
		if (!av_ours(context))                              \
			return AV_NEXT(name, version)(__VA_ARGS__); \
	} while (0)

/* How a verb begins that is not cancelled: the same. Variables follow. */
#define AV_BEGIN_OR_PASS_ON(...) \
	AV_UNCANCELLED;          \
	AV_PASS_ON(__VA_ARGS__)

/* Return from the verb with a failure if the adapter lacks it that the device behaves as. */
#define AV_FAIL_IF_LACKING(fail, id, context)                                                  \
	do {                                                                                   \
		int lacking_ = av_model_check_verb(av_context_of(context)->dev, AV_VERB_##id); \
		if (lacking_)                                                                  \
			return fail(AV_VERB_##id, lacking_);                                   \
	} while (0)

/* How a verb of our contexts begins. Variables follow, so that they can begin with their values. */
#define AV_BEGIN(fail, id, context) \
	AV_UNCANCELLED;             \
	AV_FAIL_IF_LACKING(fail, id, context)

/*
 * How an exported verb on @object begins: the same, but first returns from the verb unless the
 * object is of one of our contexts: fails with EINVAL for NULL, and calls the system's verb for
 * another provider's. @fail: av_fail_errno() or its like
 */
#define AV_OURS_OR_NEXT(fail, id, name, version, object, ...)                                    \
	AV_UNCANCELLED;                                                                          \
	do {                                                                                     \
		if (!(object))                                                                   \
			return fail(AV_VERB_##id, av_refuse(EINVAL, AV_CHECK_NO_OBJECT, 0, 0));  \
		if (!av_ours((object)->context))                                                 \
			return AV_NEXT_OR(fail(AV_VERB_##id, EOPNOTSUPP), name, version, object, \
					  ##__VA_ARGS__);                                        \
		AV_FAIL_IF_LACKING(fail, id, (object)->context);                                 \
	} while (0)

/* Has the device failed? A forked child may ask, too: it reads its parent's segment. */
static inline bool av_device_failed(const struct av_context *ctx)
{
	return atomic_load(&ctx->seg->head->fatal);
}

/* May the context be used? Return: 0; EPERM: it is a forked child's; EIO: the device has failed */
static inline int av_context_err(const struct av_context *ctx)
{
	if (av_unlikely(ctx->forked))
		return EPERM;
	return av_unlikely(av_device_failed(ctx)) ? EIO : 0;
}

/* Does a fault on demand fail the verb? @qpn, @key: what it is about; 0: none. Return: 0, errno */
static inline int av_verb_injected(struct av_context *ctx, enum av_verb verb, uint32_t qpn,
				   uint32_t key)
{
	if (av_likely(!av_faults_observed(ctx->seg)) || ctx->forked)
		return 0;
	atomic_store(&ctx->unusual, true); /* maybe before the process has been called */
	return av_inject_verb(ctx->seg, verb, qpn, key);
}

/* A statement at the begin of a verb of ours, before it changes anything: it may fail here. */
#define AV_FAIL_ON_DEMAND(fail, id, context, qpn, key)                                       \
	do {                                                                                 \
		int err_ = av_verb_injected(av_context_of(context), AV_VERB_##id, qpn, key); \
		if (av_unlikely(err_))                                                       \
			return fail(AV_VERB_##id, err_);                                     \
	} while (0)

/* av_context_err() and av_verb_injected(), for a verb that makes an object. */
static inline int av_verb_err(struct av_context *ctx, enum av_verb verb)
{
	int err = av_context_err(ctx);

	return err ? err : av_verb_injected(ctx, verb, 0, 0);
}

/*
 * A post or a poll on an unusual context (verbs/objects.h): what it fails with. The checks of the
 * data path lead here. Return: 0; EINVAL: the context is a forked child's; or a fault on demand's
 */
static inline int av_post_injected(struct av_context *ctx, enum av_verb verb, uint32_t qpn)
{
	return ctx->forked ? av_refuse(EINVAL, AV_CHECK_POST_OBJECT, 0, 0)
			   : av_verb_injected(ctx, verb, qpn, 0);
}

/*
 * A verb fails by one of these, as its manual page says: an errno value, NULL, or -1; all set
 * errno. Each leaves a record with the check that av_refuse() noted (observe/check.h).
 */
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

/* A new object of ours, all zero. If @err is not 0, or there is no memory, the verb fails: NULL. */
static inline void *av_object_new(enum av_verb verb, int err, size_t size)
{
	void *object = err ? NULL : calloc(1, size);

	return object ? object : av_fail_null(verb, err ? err : ENOMEM);
}

/* Gives up an object that could not be completed: frees it, and the verb fails. */
static inline void *av_object_fail(enum av_verb verb, void *object, int err)
{
	free(object);
	return av_fail_null(verb, err);
}
