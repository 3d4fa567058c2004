/* SPDX-License-Identifier: MIT */
/* Opening and closing contexts. */
#ifndef AV_VERBS_IBV_CONTEXT_H
#define AV_VERBS_IBV_CONTEXT_H

#include "verbs/objects.h"

/*
 * Open and close a context of one of our devices; what ibv_open_device() and ibv_close_device() do.
 * @origin: the context it imports from, or 0.
 */
struct ibv_context *av_context_open(struct av_device *dev, uint32_t origin);
int av_context_close(struct av_context *ctx);

#endif
