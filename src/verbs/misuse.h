/* SPDX-License-Identifier: MIT */
/*
 * The report on misuse: what a program left behind, did in the wrong order, or did not look at.
 * Asked for by ANYVERBS_CHECK, a list of "1", "json" and "fail", when the process opens its first
 * context; written to standard error when a context is closed and, for those that are not, when the
 * process exits. A program without a finding hears nothing.
 *
 * What it costs when nobody asked: objects remember where they were made (one store), and the ends
 * of objects look at one word.
 */
#ifndef AV_VERBS_MISUSE_H
#define AV_VERBS_MISUSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "verbs/fail.h"

enum av_misuse {
	AV_MISUSE_NOT_DESTROYED,
	AV_MISUSE_WRONG_ORDER,	  /* destroying it was refused: others still used it */
	AV_MISUSE_UNMAPPED,	  /* memory was unmapped under the region */
	AV_MISUSE_UNACKNOWLEDGED, /* events were got and not acknowledged */
	AV_MISUSE_RAN_DRY,	  /* requests found no receive posted */
	AV_MISUSE_NEVER_POLLED,	  /* it was given completions, and none was ever taken */
	AV_MISUSE_OVERRUN,	  /* a completion found no room */
	AV_MISUSE_BUFFER_CHANGED, /* of a send request that waited, before its completion */
	AV_MISUSE_IN_ERROR,	  /* the queue pair failed, and the program cannot have noticed */
	AV_MISUSE_N
};

/* Bits of the mode. */
enum { AV_MISUSE_ON = 1, AV_MISUSE_JSON = 2, AV_MISUSE_FAIL = 4 };
extern _Atomic int av_misuse_mode; /* 0: nobody asked */

/* What a finding is about. */
struct av_misuse_object {
	const struct av_context *ctx;
	const char *kind;
	uint32_t number;
	const void *made_at; /* NULL: not known */
};

#define AV_MISUSE_STATUS 86 /* of a process with "fail" that would have exited with 0 */

static inline bool av_misuse_on(void)
{
	return av_unlikely(atomic_load_explicit(&av_misuse_mode, memory_order_relaxed));
}

/* A context has been opened. */
void av_misuse_begin(struct av_context *ctx);

/* It is about to be closed: look at all that it has, and report. Its objects are all there. */
void av_misuse_context_ends(struct av_context *ctx);

/* The process exits; @contexts: the open ones. Does not return if the exit status is to change. */
void av_misuse_exit(struct av_context_list *contexts);

/* The end of an object that is not over yet; only if av_misuse_on(). */
void av_misuse_qp_ends(struct av_qp *qp);
void av_misuse_cq_ends(struct av_cq *cq);
void av_misuse_mr_ends(struct av_mr *mr);

/* An object's end waits for the acknowledgement of @count events; written at once, since it may
 * wait for ever. */
void av_misuse_waits(const struct av_misuse_object *of, uint32_t count);

/* An object's end was refused, as it is still in use. */
void av_misuse_still_used(struct av_context *ctx, const char *kind, uint32_t number,
			  const void *made_at);

/* The same, by the verb that refuses. Return: EBUSY, which is errno, too */
static inline int av_misuse_busy(enum av_verb verb, struct av_context *ctx, const char *kind,
				 uint32_t number, const void *made_at)
{
	av_misuse_still_used(ctx, kind, number, made_at);
	return av_fail_errno(verb, EBUSY);
}

/* An object that was made for the program, by the verb that this is in; NULL is passed on. */
#define AV_MADE_HERE(type, object)                                                                \
	({                                                                                        \
		typeof(object) made_ = (object);                                                  \
		if (made_)                                                                        \
			av_container_of(made_, type, ibv)->made_at = __builtin_return_address(0); \
		made_;                                                                            \
	})

#endif
