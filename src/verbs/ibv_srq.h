/* SPDX-License-Identifier: MIT */
/* Shared receive queues: functions for queue pairs, and verbs of the dispatch tables. */
#ifndef AV_VERBS_IBV_SRQ_H
#define AV_VERBS_IBV_SRQ_H

#include "verbs/objects.h"

/* Attach and detach a queue pair. */
void av_srq_attach(struct av_srq *srq, struct av_qp *qp);
void av_srq_detach(struct av_srq *srq, struct av_qp *qp);

struct ibv_srq *av_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init);
int av_get_srq_num(struct ibv_srq *srq, uint32_t *number);
int av_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

#endif
