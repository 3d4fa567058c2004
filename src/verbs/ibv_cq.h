/* SPDX-License-Identifier: MIT */
/* Creates completion queues: shared by the plain and the extended verb. */
#ifndef AV_VERBS_IBV_CQ_H
#define AV_VERBS_IBV_CQ_H

#include "verbs/ibv_context.h"

/* ibv_create_cq() for one of our contexts. Return: CQ, or NULL and errno. */
struct ibv_cq *av_cq_create(struct av_context *ctx, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector);

#endif
