/* SPDX-License-Identifier: MIT */
/* Opens and closes contexts. */
#ifndef AV_VERBS_IBV_CONTEXT_H
#define AV_VERBS_IBV_CONTEXT_H

#include "verbs/objects.h"

/* For ibv_open_device() and ibv_close_device(). @origin: the context to import from, or 0. */
struct ibv_context *av_context_open(struct av_device *dev, uint32_t origin);
int av_context_close(struct av_context *ctx);

#endif
