/* SPDX-License-Identifier: MIT */
/*
 * The report on misuse: what a program did not destroy, did in the wrong order, or ignored. Turned
 * on by ANYVERBS_CHECK, a list of "1", "json" and "fail", read with the first context. Goes to
 * standard error when a context is closed, or at exit, if there are findings. When off, it costs
 * one store per object created and one load per object destroyed.
 */
#ifndef AV_VERBS_MISUSE_H
#define AV_VERBS_MISUSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "verbs/next.h"

enum av_misuse {
	AV_MISUSE_NOT_DESTROYED,
	AV_MISUSE_WRONG_ORDER,	  /* destroying it was refused because it was in use */
	AV_MISUSE_UNMAPPED,	  /* memory was unmapped under the region */
	AV_MISUSE_UNACKNOWLEDGED, /* events were read but not acknowledged */
	AV_MISUSE_RAN_DRY,	  /* requests found no receive posted */
	AV_MISUSE_NEVER_POLLED,	  /* it received completions but was never polled */
	AV_MISUSE_OVERRUN,	  /* a completion found no room */
	AV_MISUSE_BUFFER_CHANGED, /* a waiting send request's buffer changed before completion */
	AV_MISUSE_IN_ERROR,	  /* the queue pair failed, and the program cannot have noticed */
	AV_MISUSE_N
};

/* Bits of av_misuse_mode. */
enum { AV_MISUSE_ON = 1, AV_MISUSE_JSON = 2, AV_MISUSE_FAIL = 4 };
extern _Atomic int av_misuse_mode; /* 0: off */

/* The object of a finding. */
struct av_misuse_object {
	struct av_context *ctx;
	const char *kind;
	uint32_t number;
	const void *made_at; /* NULL: unknown */
};

/* The private half @object of an object that knows where it was made. */
#define AV_MISUSE_OF(kind, object, number)                                             \
	((struct av_misuse_object){av_context_of((object)->ibv.context), kind, number, \
				   (object)->made_at})

#define AV_MISUSE_STATUS 86 /* exit status with "fail", instead of 0 */

static inline bool av_misuse_on(void)
{
	return av_unlikely(atomic_load_explicit(&av_misuse_mode, memory_order_relaxed));
}

/* A context has been opened. */
void av_misuse_begin(struct av_context *ctx);

/* A context is about to be closed, with all its objects still present: check them and report. */
void av_misuse_context_ends(struct av_context *ctx);

/* The process exits; @contexts: the open ones. Does not return if the exit status is to change. */
void av_misuse_exit(struct av_context_list *contexts);

/* An object is about to be destroyed. Call only if av_misuse_on(). */
void av_misuse_qp_ends(struct av_qp *qp);
void av_misuse_cq_ends(struct av_cq *cq);
void av_misuse_mr_ends(struct av_mr *mr);

/* Destroying waits for @count acknowledgements. Printed at once: it may never end. */
void av_misuse_waits(struct av_misuse_object of, uint32_t count);

/* @verb refuses to destroy an object that is in use. Return: EBUSY, also in errno */
int av_misuse_busy(enum av_verb verb, struct av_misuse_object of);

/* Note the program's call of the verb as the place where @object was made. Passes NULL on. */
#define AV_MADE_HERE(type, object)                                                                \
	({                                                                                        \
		typeof(object) made_ = (object);                                                  \
		if (made_)                                                                        \
			av_container_of(made_, type, ibv)->made_at = __builtin_return_address(0); \
		made_;                                                                            \
	})

#endif
