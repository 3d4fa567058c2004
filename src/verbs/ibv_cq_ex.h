/* SPDX-License-Identifier: MIT */
/* Extended completion queues. ibv_create_cq_ex(3). */
#ifndef AV_VERBS_IBV_CQ_EX_H
#define AV_VERBS_IBV_CQ_EX_H

#include <infiniband/verbs.h>

struct ibv_cq_ex *av_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int av_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

#endif
