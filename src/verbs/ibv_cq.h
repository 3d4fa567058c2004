/* SPDX-License-Identifier: MIT */
/* Completion queues: creation, and verbs that are reached only through the dispatch tables. */
#ifndef AV_VERBS_IBV_CQ_H
#define AV_VERBS_IBV_CQ_H

#include "verbs/objects.h"

/* ibv_create_cq() for one of our contexts. Return: CQ, or NULL and errno. */
struct ibv_cq *av_cq_create(struct av_context *ctx, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector);

int av_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int av_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int av_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);

#endif
