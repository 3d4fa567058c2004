/* SPDX-License-Identifier: MIT */
/* The contexts of this process. */
#ifndef AV_VERBS_CONTEXT_LIST_H
#define AV_VERBS_CONTEXT_LIST_H

#include "verbs/objects.h"

/* The mutexes of a new context, or of one that a child of fork() has inherited. */
void av_context_init_mutexes(struct av_context *ctx);

/* A context that is open, and one that is about to be closed. Context: any thread; a mutex. */
void av_context_list_add(struct av_context *ctx);
void av_context_list_remove(struct av_context *ctx);

/*
 * Is that key one of a region on demand of another context, open in this process on the same
 * device? Context: any thread, no lock held.
 */
bool av_context_other_has(const struct av_context *ctx, uint32_t lkey);

#endif
