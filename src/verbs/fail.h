/* SPDX-License-Identifier: MIT */
/* Whether a verb can do its work, and how it reports that it failed. */
#ifndef AV_VERBS_FAIL_H
#define AV_VERBS_FAIL_H

#include <errno.h>

#include "observe/diagnosis.h"
#include "transport/inject.h"
#include "verbs/objects.h"

/* 0, or the errno value of verbs that need the device: the parent's context in a forked child; a
 * device that failed. */
static inline int av_context_err(const struct av_context *ctx)
{
	if (av_unlikely(ctx->forked))
		return EPERM;
	return av_unlikely(atomic_load(&ctx->seg->head->fatal)) ? EIO : 0;
}

/* The same for a verb that makes or changes an object: it may also fail on demand. */
static inline int av_verb_err(const struct av_context *ctx, enum av_fail verb)
{
	int err = av_context_err(ctx);

	return err || !av_faults_watched(ctx->seg) ? err : av_inject_verb(ctx->seg, verb);
}

/*
 * The ways in which verbs report a failure; each leaves a record (observe/diagnosis.h), with the
 * check that said no if that was av_refuse().
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

#endif
