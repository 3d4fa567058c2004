/* SPDX-License-Identifier: MIT */
/*
 * The report on misuse: what a program did not destroy, did in the wrong order, or ignored.
 * ANYVERBS_CHECK, a list of "1", "json" and "fail", turns it on; the first context reads it.
 * Findings go to standard error when the program closes the context or exits. When off, it costs a
 * store for each object made, a load for each destroyed.
 */
#pragma once

#include "verbs/next.h"

extern _Atomic int av_misuse_mode; /* bits of verbs/misuse.c; 0: off */

struct av_misuse_object {
	struct av_context *ctx;
	const char *kind;
	uint32_t number;
	const void *made_at; /* NULL: unknown */
};

/* The same for an object of ours that knows where it was made. */
#define AV_MISUSE_OF(kind, object, number)                                             \
	((struct av_misuse_object){av_context_of((object)->ibv.context), kind, number, \
				   (object)->made_at})

static inline bool av_misuse_on(void)
{
	return av_unlikely(atomic_load_explicit(&av_misuse_mode, memory_order_relaxed));
}

/* For a new context. The first one reads the setting. */
void av_misuse_begin(struct av_context *ctx);

/* The program closes a context: inspect the objects that it left there, and report. */
void av_misuse_context_ends(struct av_context *ctx);

/* The same for all open @contexts at exit. "fail" may end the process with another status. */
void av_misuse_exit(struct av_context_list *contexts);

/* @object, the QP, CQ or MR @of, is about to be destroyed: inspect it, if the report is on. */
void av_misuse_ends(struct av_misuse_object of, const void *object);

/* Destroying @of waits for @count acknowledgements. Reports at once: the wait may never end. */
void av_misuse_waits(struct av_misuse_object of, uint32_t count);

/* @verb refuses to destroy @of, which is in use. Return: EBUSY, also in errno */
int av_misuse_busy(enum av_verb verb, struct av_misuse_object of);

/* Evaluates to @object; if that is not NULL, notes that the program's call of the verb made it. */
#define AV_MADE_HERE(type, object)                                                                \
	({                                                                                        \
		typeof(object) made_ = (object);                                                  \
		if (made_)                                                                        \
			av_container_of(made_, type, ibv)->made_at = __builtin_return_address(0); \
		made_;                                                                            \
	})
