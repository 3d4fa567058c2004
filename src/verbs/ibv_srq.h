/* SPDX-License-Identifier: MIT */
/* Shared receive queues: the private half, and functions for queue pairs. */
#ifndef AV_VERBS_IBV_SRQ_H
#define AV_VERBS_IBV_SRQ_H

#include "verbs/ibv_context.h"

struct av_srq {
	struct ibv_srq ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	struct av_rq_shared *shared;
	struct av_pd *pd;
	const void *made_at;  /* verbs/misuse.h */
	struct av_xrcd *xrcd; /* XRC only */
	struct av_cq *cq;     /* XRC only */
	uint32_t index, id;
	pthread_mutex_t users_mutex; /* and one ibv_modify_srq() at a time */
	LIST_HEAD(, av_qp) users;    /* the queue pairs on it, under users_mutex */
	uint32_t async_delivered;    /* under ibv.mutex */
};

/* The SRQ, if it belongs to the context; otherwise NULL. */
struct av_srq *av_srq_find(const struct av_context *ctx, const struct ibv_srq *srq);

/* Attach and detach a queue pair. */
void av_srq_attach(struct av_srq *srq, struct av_qp *qp);
void av_srq_detach(struct av_srq *srq, struct av_qp *qp);

struct ibv_srq *av_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init);
int av_get_srq_num(struct ibv_srq *srq, uint32_t *number);
int av_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

#endif
