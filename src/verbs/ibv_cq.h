/* SPDX-License-Identifier: MIT */
/* Creating completion queues: what both ways of asking for one share. */
#ifndef AV_VERBS_IBV_CQ_H
#define AV_VERBS_IBV_CQ_H

#include "verbs/ibv_context.h"

/* ibv_create_cq() on one of our contexts. Return: CQ, or NULL and errno. */
struct ibv_cq *av_cq_create(struct av_context *ctx, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector);

#endif
