/* SPDX-License-Identifier: MIT */
/* The contexts of this process. */
#ifndef AV_VERBS_CONTEXT_LIST_H
#define AV_VERBS_CONTEXT_LIST_H

#include "verbs/objects.h"

/* Initialise the mutexes of a new context, or of one inherited through fork(). */
void av_context_init_mutexes(struct av_context *ctx);

/* Add a context that is open; remove one that is about to be closed. Context: any thread. */
void av_context_list_add(struct av_context *ctx);
void av_context_list_remove(struct av_context *ctx);

/* Is @lkey an ODP region's of another context here on this device? Context: no lock held. */
bool av_context_other_has(const struct av_context *ctx, uint32_t lkey);

#endif
