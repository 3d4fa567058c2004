/* SPDX-License-Identifier: MIT */
/* Checks that the device can be used, and reports the failure of a verb. */
#ifndef AV_VERBS_FAIL_H
#define AV_VERBS_FAIL_H

#include <errno.h>
#include <stdlib.h>

#include "observe/diagnosis.h"
#include "transport/inject.h"
#include "verbs/objects.h"

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

/* How verbs fail. Each leaves a record (observe/diagnosis.h) with the check av_refuse() noted. */
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
